//! Moves: changes of how one scenario runs, each made and judged alone.

pub(in crate::sweep) mod fitting;
mod keep;
mod kernels;
pub(in crate::sweep) mod possible;
