//! How fast is it, beside its siblings?

use super::args::{Args, Target};
use super::seen::Sightings;
use crate::failure::Failure;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::{Format, ModelShape, Weight, WeightClass};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;
use wgoose_measure::ledger::Ledger;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{KernelRunner, Runner};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Occurrence, Scope, occurrences};
use wgoose_runtime::Device;
use wgoose_tuner::kernel_tuning::{KernelTuner, SideBySide, TimedVariant, VariantPair};

/// Times every variant of the op wherever it occurs in the model.
pub(super) fn time(
    args: &Args,
    device: &Arc<Device>,
    catalogue: &Arc<Catalogue>,
    target: &Target,
) -> Result<(), Failure> {
    // Before minutes of work.
    let mut sightings = if args.seen { Some(Sightings::new(args, device)?) } else { None };
    let (shape, stored) = model(args)?;
    let (fingerprint, limits) = (device.fingerprint(), device.limits());
    let fusions = Plan::default_for(fingerprint.clone(), shape, limits).fusions;
    let mut sites = Vec::new();
    for tokens in args.tokens.iter().copied().filter(|tokens| *tokens > 0) {
        let (scenario, default) = match tokens {
            1 => (Scenario::DECODE, &fusions.decode),
            _ => (Scenario::prefill(tokens), &fusions.prefill),
        };
        let found = occurrences(&target.op, &shape, scenario, default, &stored);
        sites.extend(found.into_iter().map(|occurrence| (tokens, occurrence)));
    }
    let Some((_, first)) = sites.first() else { return Ok(()) };
    let mut runner = KernelRunner::new(device, catalogue, &first.group, (Instant::now(), args.seed))?;
    if let Some(doubt) = runner.doubt() {
        eprintln!("kernels are timed by wall clock: {doubt}");
    }
    // Times of an earlier run are no siblings of today's.
    let samples = tempfile::tempdir()?;
    let ledger = Ledger::open(samples.path().join("ledger.jsonl"))?;
    let scope = Scope { allowed: Precision::Q8, exhaustive: args.exhaustive };
    let tuner = KernelTuner::new(limits, catalogue, scope);
    let fewest = sites.iter().map(|(tokens, _)| *tokens).min();
    let mut cache = ResultCache::new(ledger, fingerprint.clone(), None, &mut runner);
    for (tokens, Occurrence { group, occurs }) in sites {
        let occurrence = match occurs {
            true => format!("{} of them", group.count),
            false => "not in the default plan, which fuses it into another op".to_owned(),
        };
        outln!("{} in a pass of {tokens} tokens: {occurrence}", group.key);
        let budget = Duration::from_secs(args.budget);
        let SideBySide { timed, pairs } = tuner.side_by_side(&group, &mut cache, target.variant.as_deref(), budget)?;
        timed.iter().try_for_each(|timed| print(timed, &group))?;
        if let Some(sightings) = sightings.as_mut().filter(|_| Some(tokens) == fewest) {
            timed.iter().for_each(|timed| sightings.add(&group, timed));
        }
        for VariantPair { candidate, incumbent, beside } in pairs {
            outln!("  {candidate} beside {incumbent}: {beside}");
        }
    }
    sightings.map_or(Ok(()), |sightings| sightings.write(args, device, catalogue, target))
}

fn print(timed: &TimedVariant, group: &InstanceGroup) -> Result<(), Failure> {
    let TimedVariant { label, tried, copy_of, result, .. } = timed;
    let note = copy_of.as_ref().map_or_else(|| format!("{tried} tried"), |other| format!("identical to {other}"));
    match result {
        Ok(summary) => {
            let (us, gbytes) = (summary.median / 1e3, group.instance.bytes() as f64 / summary.median);
            let spread = summary.iqr / summary.median * 100.0;
            outln!("  {us:10.2} us {gbytes:7.1} GB/s  +-{spread:2.0} %  {label} ({note})");
        }
        Err(why) => outln!("  {:>35}  {label}: {why}", "-"),
    }
    Ok(())
}

/// In which format a weight reaches the GPU.
type Formats = Box<dyn Fn(Weight) -> Format>;

/// The shape of the model that was named, and the formats of its weights.
fn model(args: &Args) -> Result<(ModelShape, Formats), Failure> {
    let format = args.format;
    if let Some(shape) = args.model.to_str().and_then(ModelShape::preset) {
        let stored = move |weight: Weight| {
            let [rows, cols] = weight.shape(&shape).map(|n| n as usize);
            match weight.class() {
                WeightClass::Vector => Format::F32,
                WeightClass::Matrix if format.bytes(rows, cols).is_some() => format,
                _ => Format::F16,
            }
        };
        return Ok((shape, Box::new(stored)));
    }
    let model = Model::open(&args.model)?;
    let stored = move |weight: Weight| match weight.class() {
        WeightClass::Vector => Format::F32,
        _ => model.tensor(weight).format(),
    };
    Ok((*Model::open(&args.model)?.shape(), Box::new(stored)))
}
