//! How a kernel is checked and timed.

use super::tuner::KernelTuner;
use crate::ledger::{Cause, Gate, Outcome};
use crate::stats::schedule::{Arm, abba};
use crate::stats::warmup::{Warmth, Warmup, WarmupRule};
use wgoose_kernels::Kernel;
use wgoose_runtime::RuntimeError;
use wgoose_runtime::lab::{Bench, Case, Expected, check};

/// Nanoseconds that one sample should take at least.
const SAMPLE_NS: f64 = 2e6;

/// Dispatches in one sample at most.
const MOST_REPEATS: u32 = 2000;

/// Samples of a candidate.
const SAMPLES: usize = 5;

/// Most samples of a warm-up.
const MOST_WARM_UP: usize = 400;

/// Pairs of each of the two comparisons.
const PAIRS: usize = 8;

/// Checks a kernel against the reference, then times it.
pub(super) fn measure(
    tuner: &KernelTuner<'_>,
    kernel: &Kernel,
    (case, copies): (&Case, usize),
    expected: &Expected,
) -> Outcome {
    let error = |e: RuntimeError| {
        let cause = match &e {
            RuntimeError::DeviceLost { .. } => Cause::DeviceLost,
            RuntimeError::TimedOut { .. } => Cause::Timeout,
            RuntimeError::Compile { .. } => Cause::Compile,
            _ => Cause::Runtime,
        };
        Outcome::failed(cause, e.to_string())
    };
    let bench = match Bench::new(tuner.device, kernel, case, copies) {
        Ok(bench) => bench,
        Err(e) => return error(e),
    };
    let deviation = match check(&bench, case, expected) {
        Ok(deviation) => deviation,
        Err(e) => return error(e),
    };
    let (worst, tolerance) = (f64::from(deviation.worst), deviation.tolerance);
    if !deviation.passed() {
        let why = deviation.fault.unwrap_or_else(|| format!("error {worst:.1e}, allowed {tolerance:.1e}"));
        return Outcome::failed(Cause::WrongResult, why);
    }
    let timed = repeats(&bench, tuner)
        .and_then(|n| (0..SAMPLES).map(|_| bench.time(tuner.clock, n).map(|t| t.ns)).collect::<Result<Vec<f64>, _>>());
    match timed {
        Err(e) => error(e),
        Ok(samples_ns) => {
            let detail = format!("largest error relative to rms, allowed {tolerance:.1e}");
            let gate = Gate { passed: true, rms: worst, max: worst, quality_hash: None, detail };
            Outcome::Kernel { samples_ns, gate: Some(gate) }
        }
    }
}

/// Warms the device up until its times have stopped moving, and finds how many dispatches make a sample long enough. Clocks fall
/// while a kernel is compiled: what is timed while they rise again is too long, and is compared with nothing.
fn repeats(bench: &Bench, tuner: &KernelTuner<'_>) -> Result<u32, RuntimeError> {
    let rule = WarmupRule { min_ns: tuner.warm_up.as_nanos() as f64, cap: MOST_WARM_UP, ..WarmupRule::default() };
    let mut warmup = Warmup::new(rule);
    let mut n = 1;
    loop {
        let each = bench.time(tuner.clock, n)?.ns;
        let ns = each * f64::from(n);
        if ns >= SAMPLE_NS || n >= MOST_REPEATS {
            if warmup.push_part(each, ns) != Warmth::Warming {
                return Ok(n);
            }
            // A count that was found on a slow clock is too small on a fast one.
            n = if ns < SAMPLE_NS { (n + n / 4 + 1).min(MOST_REPEATS) } else { n };
            continue;
        }
        let factor = (1.2 * SAMPLE_NS / ns.max(1.0)).clamp(1.2, 50.0);
        n = ((f64::from(n) * factor).ceil() as u32).min(MOST_REPEATS);
    }
}

/// Interleaved samples of two kernels on the same data, the same number of dispatches in both.
pub(super) fn pairs(
    tuner: &KernelTuner<'_>,
    a: &Kernel,
    b: &Kernel,
    (case, copies): (&Case, usize),
) -> Result<[Vec<f64>; 2], RuntimeError> {
    let benches = [Bench::new(tuner.device, a, case, copies)?, Bench::new(tuner.device, b, case, copies)?];
    let n = repeats(&benches[0], tuner)?.max(repeats(&benches[1], tuner)?);
    let mut samples = [Vec::new(), Vec::new()];
    for pair in abba(PAIRS) {
        for arm in pair {
            let i = usize::from(arm == Arm::Candidate);
            samples[i].push(benches[i].time(tuner.clock, n)?.ns);
        }
    }
    Ok(samples)
}
