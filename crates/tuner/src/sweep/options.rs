//! How to sweep.

use super::strategy::Strategy;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_measure::objective::Objective;
use wgoose_measure::runner::ChildCommand;
use wgoose_measure::seed::Seed;
use wgoose_runtime::CancelToken;
use wgoose_runtime::Device;

/// What a sweep can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// How matrices lie on the GPU.
    Layouts,
    /// Which ops are fused.
    Fusions,
    /// How the state is stored.
    State,
    /// How many tokens of a prompt are read at once.
    Chunk,
    /// Which kernels run, as dispatches and in persistent kernels.
    Kernels,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 5] = [Part::Layouts, Part::Fusions, Part::State, Part::Chunk, Part::Kernels];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Part::Layouts => "layouts",
            Part::Fusions => "fusions",
            Part::State => "state",
            Part::Chunk => "chunk",
            Part::Kernels => "kernels",
        }
    }
}

/// No part of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no part of tuning: name layouts, fusions, state, chunk or kernels")]
pub struct UnknownPart(String);

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, UnknownPart> {
        Part::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| UnknownPart(name.to_owned()))
    }
}

/// How to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Where every measurement is kept.
    pub ledger: PathBuf,
    /// When the time to spend began.
    pub begun: Instant,
    /// Time to spend, everything counted. Nothing is compared once it is over, and what is being compared then is
    /// broken off after 10 s; what has won by then has 10 s more for its confirmation. The gate of the default plan,
    /// which may wait for the reference, is taken in any case.
    pub budget: Duration,
    /// What is decided.
    pub parts: BTreeSet<Part>,
    /// Try every legal configuration, whatever speed heuristics say of it and whatever the budget.
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
    /// How plans are searched.
    pub strategy: &'static dyn Strategy,
    /// The plan that the device runs the model with today, where that is not its default: it stays unless another is
    /// faster in something and slower in nothing. Its kernels are measured before what the search draws.
    pub in_use: Option<Plan>,
    /// Configurations that are measured wherever they fit, before what the search draws.
    pub seeds: Vec<Seed>,
    /// Plans of other devices of the maker, and of other models: their kernels are tried first wherever they fit.
    pub hints: Vec<Plan>,
    /// Ends the sweep early.
    pub cancel: CancelToken,
}

impl SweepOptions {
    /// The prefill chunks that are compared unless others are asked for: a software adapter has little to fill.
    pub fn default_chunks(device: &Device) -> Vec<u32> {
        if device.is_cpu() { vec![16, 32, 64, 128] } else { vec![64, 256, 1024, 2048, 4096] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_names() {
        assert!(Part::ALL.into_iter().all(|part| part.name().parse() == Ok(part)));
        let refused = "fusion".parse::<Part>().unwrap_err().to_string();
        assert_eq!(refused, "fusion is no part of tuning: name layouts, fusions, state, chunk or kernels");
    }
}
