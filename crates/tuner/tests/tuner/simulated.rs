//! A made-up device and model.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use wgoose_graph::{Format, ModelShape, Weight, WeightClass};
use wgoose_kernels::Precision;
use wgoose_measure::ledger::Ledger;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::Runner;
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_sim::simulated_problem;
use wgoose_tuner::sweep::{Part, STRATEGIES, SweepOptions};

/// A model of a preset's shape, with matrices of a format, on that device.
pub(crate) fn problem(shape: &str, format: Format) -> Problem {
    let shape = ModelShape::preset(shape).unwrap();
    let formats: BTreeMap<Weight, Format> = Weight::all(&shape)
        .map(|weight| {
            let [rows, cols] = weight.shape(&shape).map(|n| n as usize);
            let stored = match weight.class() {
                WeightClass::Vector => Format::F32,
                WeightClass::Matrix if format.bytes(rows, cols).is_some() => format,
                _ => Format::F16,
            };
            (weight, stored)
        })
        .collect();
    simulated_problem(shape, formats)
}

/// How to search, with a ledger.
pub(crate) fn options(ledger: &Path, budget: u64) -> SweepOptions {
    SweepOptions {
        ledger: ledger.to_owned(),
        begun: Instant::now(),
        budget: Duration::from_secs(budget),
        parts: Part::ALL.into(),
        exhaustive: false,
        chunks: vec![64, 256, 1024],
        objective: "(name: \"test\", parts: [(tokens: 1), (tokens: 32), (tokens: 512)])".parse().unwrap(),
        persistent: true,
        catalogue: catalogue::embedded(),
        allowed: Precision::Q15,
        child: None,
        strategy: STRATEGIES[0],
        in_use: None,
        seeds: Vec::new(),
        hints: Vec::new(),
        cancel: CancelToken::default(),
    }
}

/// The result cache of a search with this runner.
pub(crate) fn cache<'l>(problem: &Problem, options: &SweepOptions, runner: &'l mut dyn Runner) -> ResultCache<'l> {
    let ledger = Ledger::open(&options.ledger).unwrap();
    ResultCache::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), runner)
}
