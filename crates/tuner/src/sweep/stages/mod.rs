//! The stages of a search.

mod broken;
mod confirm;
mod find_forms;
mod gates;
pub(super) mod incumbent;
mod kernels;
mod megakernel;
pub(super) mod merged;
pub(super) mod moves;
#[cfg(test)]
mod tests;
mod untried;
pub(super) mod worth;
