//! How fast a device is: which search pays on it, and what a comparison will take.

use super::error::SweepError;
use super::task::Task;
use super::trials::Trials;
use crate::kernel_tuning::KernelTuner;
use wgoose_kernels::persistent::NEEDS;
use wgoose_measure::job::Job;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// Samples of a short comparison of two plans: both warm up, and take turns seven times.
const SAMPLES: f64 = 20.0;

/// Tokens of a prompt that a GPU reads in the time of one step of decode: weights are read once for all of them.
const TOKENS_PER_STEP: f64 = 64.0;

/// The same where a CPU plays the device: it computes no faster than it reads.
const TOKENS_PER_STEP_OF_A_CPU: f64 = 1.0;

/// The share of the budget beyond which the fewest samples of all scenarios are too many: the device is slow.
const SLOW: f64 = 0.125;

/// What the second gate takes of what the first one did, on a device whose driver has compiled nothing yet.
const AFTER_THE_FIRST: f64 = 0.35;

/// What a gate of all that a plan runs takes beside the first one of decoding: passes of many rows and of several
/// sequences are compiled for it, and run. lavapipe takes 14 s beside 11.
const BESIDE_DECODE: f64 = 1.5;

/// Whether whole steps are so slow that the budget is gone before all that people run was compared a few times. The
/// default kernel of the largest op instance of decode tells: steps read all weights at its speed.
pub(super) fn is_slow(trials: &mut Trials<'_>, tuner: &KernelTuner<'_>) -> Result<bool, SweepError> {
    let task = trials.task();
    let (limits, options) = (&task.problem.limits, task.options);
    // Somebody who brings kernels wants to know of each of them.
    if !task.brought().is_empty() {
        return Ok(false);
    }
    let can_merge = options.persistent && NEEDS.iter().all(|feature| limits.features.contains(feature));
    if limits.is_cpu || (trials.is_short() && can_merge) {
        return Ok(limits.is_cpu);
    }
    let decode = task.decode_sites(&task.problem.default);
    let Some(largest) = decode.iter().max_by_key(|group| group.instance.bytes()) else { return Ok(false) };
    let all: u64 = decode.iter().map(InstanceGroup::bytes).sum();
    let ns = tuner.default_ns(largest, trials.jobs())?;
    let step = ns * 1e-9 * all as f64 / largest.instance.bytes() as f64;
    let scenarios = options.objective.scenarios();
    let samples: f64 = scenarios.iter().map(|scenario| SAMPLES * guessed_sample(task, *scenario, step)).sum();
    Ok(samples > SLOW * task.budget().as_secs_f64())
}

/// Seconds of a sample of a scenario, where a step of decode takes so many.
fn guessed_sample(task: Task<'_>, Scenario { tokens, sequences, .. }: Scenario, step: f64) -> f64 {
    let tokens_per_step = if task.problem.limits.is_cpu { TOKENS_PER_STEP_OF_A_CPU } else { TOKENS_PER_STEP };
    let rows = f64::from(tokens) * f64::from(sequences);
    let steps = (rows / tokens_per_step).max(1.0);
    // A sample of decode is a few steps, unless one takes as long.
    let pass = steps * step;
    if tokens == 1 && pass < 0.05 { (4.0 * pass).max(0.05) } else { pass }
}

/// Seconds that a short comparison in a scenario takes: by the samples of the last one, or by its tokens beside another
/// scenario.
pub(super) fn comparison(task: Task<'_>, results: &ResultCache<'_>, scenario: Scenario) -> f64 {
    let known = results.samples().into_iter();
    let known = known.map(|(scenario, (ns, steps))| (scenario, ns * 1e-9 * f64::from(steps)));
    let rows = |of: &Scenario| f64::from(of.tokens) * f64::from(of.sequences);
    let distance = |other: &Scenario| (rows(other) / rows(&scenario)).ln().abs();
    let sample = match known.min_by(|(a, _), (b, _)| distance(a).total_cmp(&distance(b))) {
        Some((nearest, seconds)) if nearest == scenario => seconds,
        Some((nearest, seconds)) => seconds * guessed_sample(task, scenario, 1.0) / guessed_sample(task, nearest, 1.0),
        None => guessed_sample(task, scenario, guessed_step(task, results)),
    };
    SAMPLES * sample
}

/// Seconds of a step of decode by the kernels that were timed for it, each with what was the fastest; a tenth of a
/// second while nothing is known.
fn guessed_step(task: Task<'_>, results: &ResultCache<'_>) -> f64 {
    let decode = task.decode_sites(&task.problem.default);
    let timed = decode.iter().filter_map(|group| {
        let ns = results.timed(group).into_iter().map(|(_, ns)| ns).fold(f64::INFINITY, f64::min);
        ns.is_finite().then_some((ns * f64::from(group.count), group.bytes()))
    });
    let (ns, bytes) = timed.fold((0.0, 0), |(ns, bytes), (own, of)| (ns + own, bytes + of));
    let all: u64 = decode.iter().map(InstanceGroup::bytes).sum();
    if bytes == 0 { 0.1 } else { ns * 1e-9 * all as f64 / bytes as f64 }
}

/// Seconds that a gate takes, one that looks at decoding only or at all: as long as the quickest of its kind that was
/// taken, a part of the first one, which compiles what all plans share, or as two comparisons of decode.
pub(super) fn gate_seconds(task: Task<'_>, results: &ResultCache<'_>, only_decode: bool) -> f64 {
    let taken = |kind: bool| -> Vec<f64> {
        let is_one = |job: &Job| matches!(job, Job::Gate { only_decode, .. } if *only_decode == kind);
        results.took().filter(|(job, _)| is_one(job)).map(|(_, seconds)| seconds).collect()
    };
    match (&taken(only_decode)[..], &taken(!only_decode)[..]) {
        ([], []) => 2.0 * comparison(task, results, Scenario::DECODE),
        ([], [first, ..]) if !only_decode => (BESIDE_DECODE * first).max(kernels_beside_decode(task, results)),
        ([first], _) | ([], [first, ..]) => AFTER_THE_FIRST * first,
        (all, _) => all.iter().copied().fold(f64::INFINITY, f64::min),
    }
}

/// Seconds to compile what prompts and batches run, where only kernels of decoding were.
fn kernels_beside_decode(task: Task<'_>, results: &ResultCache<'_>) -> f64 {
    let decode = task.decode_sites(&task.problem.default);
    2.0 * decode.len() as f64 * results.kernel_seconds()
}
