//! How to sweep.

use crate::interrupt::Interrupt;
use crate::lab::ChildCommand;
use crate::objective::Objective;
use crate::seeds::Seed;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Precision};
use wgoose_runtime::Device;

/// How to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Where every measurement is kept.
    pub ledger: PathBuf,
    /// When the time to spend began.
    pub begun: Instant,
    /// Time to spend, everything counted.
    pub budget: Duration,
    /// Try every legal configuration, whatever hunches say of it and whatever the budget.
    pub exhaustive: bool,
    /// Prefill chunks to compare; powers of 4 fill their bucket.
    pub chunks: Vec<u32>,
    /// What the plan is to be good at.
    pub objective: Objective,
    /// Whether persistent kernels are tried.
    pub persistent: bool,
    /// The variants. A variant whose files are wrong is left out, which is recorded and said.
    pub catalogue: Arc<Catalogue>,
    /// The least precise arithmetic that a kernel may use. Int8 activations have a quality gate of their own.
    pub allowed: Precision,
    /// How to start a process for the trials, which may die; without it they run in this one.
    pub child: Option<ChildCommand>,
    /// Configurations that are measured wherever they fit, before what the search draws.
    pub seeds: Vec<Seed>,
    /// Ends the sweep early.
    pub interrupt: Interrupt,
}

impl SweepOptions {
    /// The prefill chunks that are compared unless others are asked for: a software adapter has little to fill.
    pub fn default_chunks(device: &Device) -> Vec<u32> {
        if device.is_cpu() { vec![16, 32, 64, 128] } else { vec![64, 256, 1024, 2048, 4096] }
    }
}
