//! The stages of a search. Each is a function: it is given by name what it needs, asks the trials for results, and
//! returns what it found. The memory of a stage is a struct in the stage's file.
//!
//! | stage | question |
//! |---|---|
//! | `broken`, `seeds` | Which files and seeds can give no kernel? |
//! | `incumbent` | Is the plan in use still better than the default? |
//! | `structure` | Which layouts, fusions and chunk, with default kernels? |
//! | `gates` | Is the default plan right, and the incumbent? |
//! | `blame` | Which kernels are to blame where all that won fail the gate together? |
//! | `megakernel` | Which megakernel, of which phases? |
//! | `kernels`, `control` | Which kernel for each kind of op instance? |
//! | `layouts` | Are open layouts faster with kernels for them? |
//! | `moves` | Where steps are slow: which change gains the most in a second? |
//! | `drawing` | What would a random plan do? |
//! | `confirm`, `qualify` | Is what won, together, faster than the default in fresh processes? |
//! | `worth`, `untried` | What is each choice worth, and what was never tried? |

mod blame;
mod broken;
mod confirm;
mod control;
mod drawing;
mod gates;
pub(super) mod incumbent;
mod kernels;
mod layouts;
mod megakernel;
pub(super) mod moves;
mod qualify;
mod seeds;
mod structure;
#[cfg(test)]
mod tests;
mod untried;
mod worth;

pub(super) use blame::drop_guilty;
pub(super) use broken::report_broken;
pub(super) use confirm::confirm;
pub(super) use drawing::DrawnPlans;
pub(super) use gates::{answers_alike, check_default, drop_imprecise};
pub(super) use kernels::kernels;
pub(super) use layouts::layouts;
pub(super) use megakernel::megakernel;
pub(super) use seeds::report_refused;
pub(super) use structure::{checked, structure};
pub(super) use untried::report_never_tried;
pub use worth::Worth;
pub(super) use worth::worth;
