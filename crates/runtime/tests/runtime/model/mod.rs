//! A whole model, run: tiny synthetic models on the GPU, on the CPU, split, packed, saved, on lesser devices.

mod agreement;
mod backends;
mod decoding;
mod deep_embed;
mod faults;
mod folded_norm;
mod hidden;
mod invariant;
mod layouts;
mod laziness;
mod lesser_devices;
mod not_finite;
mod numbers;
mod packing;
mod persistent;
mod pipelining;
mod profiles;
mod refusals;
mod residency;
mod splits;
mod state_format;
mod states;
mod traces;
mod world;
