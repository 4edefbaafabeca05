//! Small shaders, right and wrong.

mod findings;
mod mutations;
mod refusals;
mod right;
mod tiny;
mod values;
