//! How fast is it, beside its siblings?

use super::args::{Args, Target};
use super::judged::{Judge, Judgement, TimedBeside};
use super::seen::Sightings;
use super::sites::{named, sites};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::{Catalogue, Precision};
use wgoose_measure::judge::Verdict;
use wgoose_measure::ledger::Ledger;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{KernelRunner, Runner};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Occurrence, Scope};
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::{Ceiling, roofline};
use wgoose_tuner::kernel_tuning::{Beside, KernelTuner, SideBySide, TimedVariant, VariantPair};

/// Times every variant of the op wherever it occurs in the model.
pub(super) fn time(
    args: &Args,
    device: &Arc<Device>,
    catalogue: &Arc<Catalogue>,
    (target, judge): (&Target, &Judge),
) -> Result<(), Failure> {
    // Before minutes of work.
    let mut sightings = if args.seen { Some(Sightings::new(args, device)?) } else { None };
    let sites = sites(args, device, &target.op)?;
    let Some((_, first)) = sites.first() else { return Ok(()) };
    let mut runner = runner(args, device, catalogue, (&first.group, judge.seed))?;
    if let Some(doubt) = runner.doubt() {
        eprintln!("kernels are timed by wall clock: {doubt}");
    }
    // Times of an earlier run are no siblings of today's.
    let samples = tempfile::tempdir()?;
    let ledger = Ledger::open(samples.path().join("ledger.jsonl"))?;
    let scope = Scope { allowed: Precision::Q8, exhaustive: args.exhaustive };
    let tuner = KernelTuner::new(device.limits(), catalogue, scope);
    let fewest = sites.iter().map(|(pass, _)| pass.tokens * pass.sequences).min();
    let mut cache = ResultCache::new(ledger, device.fingerprint().clone(), None, &mut runner);
    let mut refusals = Refusals::default();
    for (pass, Occurrence { group, occurs }) in sites {
        let budget = Duration::from_secs(args.budget);
        let found = tuner.side_by_side(&group, &mut cache, target.variant.as_deref(), budget)?;
        if let Some(sightings) = sightings.as_mut().filter(|_| Some(pass.tokens * pass.sequences) == fewest) {
            found.timed.iter().for_each(|timed| sightings.add(&group, timed));
        }
        if !judge.is_json() {
            let occurrence = match occurs {
                true => format!("{} of them", group.count),
                false => "not in the default plan, which fuses it into another op".to_owned(),
            };
            outln!("{} in {}: {occurrence}", group.key, named(pass));
            print(&found, &group, &mut refusals)?;
        }
        judgements(target, &found, (&group, pass), judge)?;
    }
    if !judge.is_json() {
        refusals.print()?;
    }
    sightings.map_or(Ok(()), |sightings| sightings.write(args, device, catalogue, target))
}

/// A runner of kernels alone, which knows what the device can do at most where that was measured.
pub(super) fn runner(
    args: &Args,
    device: &Arc<Device>,
    catalogue: &Arc<Catalogue>,
    (first, seed): (&InstanceGroup, u64),
) -> Result<KernelRunner, Failure> {
    let runner = KernelRunner::new(device, catalogue, first, (Instant::now(), seed))?;
    let known = args.cache.folder().and_then(|cache| roofline::load(&cache, device.fingerprint()));
    let ceiling = known.and_then(|known| Ceiling::of(&known)).filter(|_| !device.is_cpu());
    Ok(match ceiling {
        Some(ceiling) => runner.under(ceiling),
        None => runner,
    })
}

/// Why variants were not timed, and at how many instances.
#[derive(Default)]
struct Refusals(BTreeMap<(String, String), u32>);

impl Refusals {
    fn print(&self) -> Result<(), Failure> {
        if !self.0.is_empty() {
            outln!("not timed");
        }
        for ((name, why), instances) in &self.0 {
            outln!("  {name:<26} {why} ({instances} of the instances)");
        }
        Ok(())
    }
}

/// A table of the variants of an instance: those that were timed, and the verdict of each pair.
fn print(found: &SideBySide, group: &InstanceGroup, refusals: &mut Refusals) -> Result<(), Failure> {
    for TimedVariant { name, label, tried, copy_of, result } in &found.timed {
        let summary = match result {
            Ok(summary) => summary,
            Err(why) => {
                *refusals.0.entry((name.clone(), why.text.clone())).or_default() += 1;
                continue;
            }
        };
        let note = copy_of.as_ref().map_or_else(|| format!("{tried} tried"), |other| format!("identical to {other}"));
        let (us, gbytes) = (summary.median / 1e3, group.instance.bytes() as f64 / summary.median);
        let spread = summary.iqr / summary.median * 100.0;
        outln!("  {us:10.2} us {gbytes:7.1} GB/s  +-{spread:2.0} %  {label} ({note})");
    }
    for VariantPair { candidate, incumbent, beside } in &found.pairs {
        outln!("  {candidate} beside {incumbent}: {beside}");
    }
    Ok(())
}

/// What a program is told of the named variant: its time beside the fastest other one, or why there is none. People are
/// told of faults.
fn judgements(
    target: &Target,
    found: &SideBySide,
    (group, pass): (&InstanceGroup, Scenario),
    judge: &Judge,
) -> Result<(), Failure> {
    let own = |timed: &&TimedVariant| target.variant.as_ref().is_none_or(|name| *name == timed.name);
    for timed in found.timed.iter().filter(own) {
        let id = format!("{}/{}", target.op, timed.name);
        let summary = match &timed.result {
            Ok(summary) => summary,
            Err(reason) => {
                let verdict = Verdict::from(reason.cause);
                if verdict != Verdict::Refused || judge.is_json() {
                    let what = format!("{} in {}: {}", group.key, named(pass), reason.text);
                    judge.say(&Judgement { about: "time", ..judge.plain(&id, verdict, what) })?;
                }
                continue;
            }
        };
        // The fastest other one comes first.
        let others = found.timed.iter().filter(|other| other.name != timed.name && other.result.is_ok());
        let pair = others.filter_map(|other| {
            let of = |pair: &&VariantPair| pair.candidate == timed.name && pair.incumbent == other.name;
            found.pairs.iter().find(of)
        });
        let beside = pair.into_iter().next();
        let (verdict, reason) = match beside.map(|pair| &pair.beside) {
            None => (Verdict::Unsure, "right; there is no other kernel beside it".to_owned()),
            Some(Beside::Identical) => (Verdict::Same, "the same kernel".to_owned()),
            Some(Beside::Failed(reason)) => (Verdict::from(reason.cause), reason.text.clone()),
            Some(compared @ Beside::Compared(comparison)) => (comparison.verdict.into(), compared.to_string()),
        };
        let comparison = match beside.map(|pair| &pair.beside) {
            Some(Beside::Compared(comparison)) => Some(comparison),
            _ => None,
        };
        let beside_timed = TimedBeside {
            instance: group.key.to_string(),
            tokens: pass.tokens,
            sequences: pass.sequences,
            config: timed.label.clone(),
            us: summary.median / 1e3,
            gb_per_s: group.instance.bytes() as f64 / summary.median,
            beside: beside.map(|pair| format!("{}/{}", target.op, pair.incumbent)),
            times_as_fast: comparison.map(|comparison| comparison.log_ratio.exp()),
            interval: comparison.map(|comparison| [comparison.interval.low, comparison.interval.high].map(f64::exp)),
            pairs: comparison.map_or(0, |comparison| comparison.pairs),
        };
        if target.variant.is_some() || judge.is_json() {
            let judgement = Judgement { about: "time", timed: Some(beside_timed), ..judge.plain(&id, verdict, reason) };
            judge.say(&judgement)?;
        }
    }
    Ok(())
}
