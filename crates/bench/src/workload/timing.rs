//! How runs are timed: after a warm-up to a plateau, with every sample kept.

use crate::progress::say;
use crate::{BenchError, BenchProgress, Watch};
use serde::Serialize;
use wgoose_measure::stats::Summary;
use wgoose_measure::stats::warmup::{Warmth, Warmup, WarmupRule};

/// Milliseconds after which a warm-up without a plateau is given up: slow devices move by more than the tolerance for
/// good.
const MOST_WARM_UP_MS: f64 = 5000.0;

/// Most runs that are made so that they last for long enough.
const MOST_RUNS: f64 = 256.0;

/// The spread of the runs that count, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The fastest run.
    pub min: f64,
    /// The slowest run.
    pub max: f64,
    /// Interquartile range.
    pub iqr: f64,
}

impl Spread {
    /// The spread of samples; `None` without any.
    pub(crate) fn of(samples: &[f64]) -> Option<Spread> {
        let s = Summary::of(samples)?;
        Some(Spread { median: s.median, min: s.min, max: samples.iter().copied().fold(s.min, f64::max), iqr: s.iqr })
    }
}

/// What was run before the first run that counts: at least 250 ms of work, and until four runs in a row lay within 3 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WarmUp {
    /// Runs.
    pub runs: usize,
    /// Milliseconds of work.
    pub ms: f64,
    /// Whether the times came to rest; else it was given up after 50 runs or 5 s, and noise is to be expected.
    pub settled: bool,
}

/// Warms up, then runs so often at least, and for so many milliseconds. A run gives the milliseconds of its parts;
/// returns the samples of each part.
pub(super) fn sampled(
    what: &str,
    (fewest, least_ms): (usize, f64),
    watch: &mut Watch<'_>,
    run: &mut dyn FnMut() -> Result<Vec<f64>, BenchError>,
) -> Result<(WarmUp, Vec<Vec<f64>>), BenchError> {
    let (mut warmup, mut warm_up) = (Warmup::new(WarmupRule::default()), WarmUp { runs: 0, ms: 0.0, settled: false });
    let mut runs = fewest;
    while warm_up.ms < MOST_WARM_UP_MS {
        say(watch, BenchProgress::WarmUp { what, run: warm_up.runs + 1 })?;
        let ms: f64 = run()?.iter().sum();
        (warm_up.runs, warm_up.ms) = (warm_up.runs + 1, warm_up.ms + ms);
        runs = fewest.max((least_ms / ms).ceil().min(MOST_RUNS) as usize);
        match warmup.push(ms * 1e6) {
            Warmth::Warming => {}
            stands => {
                warm_up.settled = stands == Warmth::Settled;
                break;
            }
        }
    }
    let mut parts: Vec<Vec<f64>> = Vec::new();
    for i in 1..=runs {
        say(watch, BenchProgress::Run { what, run: i, of: runs })?;
        let times = run()?;
        parts.resize(times.len(), Vec::new());
        parts.iter_mut().zip(times).for_each(|(samples, ms)| samples.push(ms));
    }
    Ok((warm_up, parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    #[test]
    fn runs_are_counted_after_a_plateau() {
        let mut all = [900.0, 500.0].into_iter().chain(std::iter::repeat_n(100.0, 4)).chain([7.0, 9.0, 8.0]);
        let mut seen = Vec::new();
        let mut watch = |progress: BenchProgress<'_>| {
            seen.push(progress.to_string());
            ControlFlow::Continue(())
        };
        let (warm_up, parts) = sampled("a", (3, 0.0), &mut watch, &mut || Ok(vec![all.next().unwrap(), 0.0])).unwrap();
        assert_eq!(seen[5..7], ["a: warm-up, run 6", "a: run 1 of 3"]);
        assert_eq!(warm_up, WarmUp { runs: 6, ms: 1800.0, settled: true });
        assert_eq!(parts, [vec![7.0, 9.0, 8.0], vec![0.0; 3]]);
    }

    #[test]
    fn short_runs_are_made_for_long_enough() {
        let runs = |ms: f64, least_ms| {
            let all = sampled("a", (6, least_ms), &mut |_| ControlFlow::Continue(()), &mut || Ok(vec![ms]));
            all.unwrap().1[0].len()
        };
        assert_eq!([400.0, 40.0, 0.1].map(|ms| runs(ms, 1000.0)), [6, 25, 256]);
        assert_eq!(runs(0.1, 0.0), 6);
    }

    #[test]
    fn a_device_that_never_settles_is_still_measured() {
        let mut ms = 1000.0;
        let (warm_up, parts) = sampled("a", (2, 0.0), &mut |_| ControlFlow::Continue(()), &mut || {
            ms *= 1.5;
            Ok(vec![ms])
        })
        .unwrap();
        assert!(!warm_up.settled && warm_up.ms >= MOST_WARM_UP_MS && parts[0].len() == 2, "{warm_up:?}");
    }
}
