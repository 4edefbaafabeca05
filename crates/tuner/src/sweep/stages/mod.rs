//! The stages of a search, in the order of a staged one: each is a function that is given what it needs, asks the trials
//! for results, and returns what it found.

mod broken;
mod confirm;
mod control;
mod drawing;
mod find_forms;
mod gates;
pub(super) mod incumbent;
mod kernels;
mod layouts;
mod megakernel;
mod merged;
pub(super) mod moves;
mod qualify;
mod seeds;
mod structure;
#[cfg(test)]
mod tests;
mod untried;
mod worth;

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
