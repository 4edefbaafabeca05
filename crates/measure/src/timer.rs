//! How often anything is run to know its time: one rule for warming up and one for samples, each with a purpose.
//!
//! A *sample* is one or more *parts*, of which one number counts. A sample of decoding writes many tokens in a part; a
//! sample of a prompt reads it several times.

use crate::stats::summary::median;
use crate::stats::warmup::{Warmth, Warmup, WarmupRule};
use serde::Serialize;

/// Most tokens that each sequence writes in a sample to be reported, and how many `wgoose bench` asks for.
pub const WRITTEN: u32 = 128;

/// Fewest tokens of a sample of decoding, unless one takes as long as a sample to choose by.
pub(crate) const FEWEST_WRITTEN: u32 = 4;

/// Nanoseconds of a sample of decoding to choose by.
const CHOICE_NS: f64 = 50e6;

/// Nanoseconds of a sample of a prompt to be reported, of one or more parts.
const REPORTED_NS: f64 = 25e6;

/// Most parts of a sample to choose by.
const MOST_PARTS: u32 = 4;

/// Most parts of a sample to be reported.
const MOST_REPORTED_PARTS: u32 = 8;

/// Most samples that are taken so that all together last for long enough.
const MOST_SAMPLES: f64 = 256.0;

/// What samples are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To choose: ratios matter. Of the parts of a sample the fastest counts: what a busy machine adds comes a few
    /// milliseconds at a time, to one part and not to the next, and to either plan alike.
    Choice,
    /// To be reported: what people see when they measure. The median part counts: the first finds the caches full of
    /// what another plan has left there, and a busy machine holds up one or two.
    Report,
}

impl Purpose {
    /// Steps of a sample, where a step takes `ns` nanoseconds: tokens to write if `tokens`, what each sequence reads in
    /// a pass, is 1, else passes of prefill.
    pub fn steps(self, tokens: u32, ns: f64) -> u32 {
        // What a sample should take, in nanoseconds, and the fewest and most steps.
        let (sample_ns, fewest, most) = match (tokens, self) {
            (1, Purpose::Choice) if ns >= CHOICE_NS => (CHOICE_NS, 1, 1),
            (1, Purpose::Choice) => (CHOICE_NS, FEWEST_WRITTEN, 32),
            (1, Purpose::Report) => (100e6, FEWEST_WRITTEN, WRITTEN),
            (_, Purpose::Choice) => (12.5e6, 1, MOST_PARTS),
            (_, Purpose::Report) => (REPORTED_NS, 1, MOST_REPORTED_PARTS),
        };
        ((sample_ns / ns.max(1.0)).ceil() as u32).clamp(fewest, most)
    }

    /// Parts of a sample of `steps` steps.
    pub fn parts(self, tokens: u32, steps: u32) -> u32 {
        match (tokens, self) {
            // A step that takes so long that few make a sample is a part.
            (1, _) if steps <= FEWEST_WRITTEN => steps,
            (1, Purpose::Choice) => (steps / FEWEST_WRITTEN).clamp(1, MOST_PARTS),
            (1, Purpose::Report) => 1,
            _ => steps,
        }
    }

    /// What counts of the parts of a sample.
    pub fn of_parts(self, parts: &[f64]) -> f64 {
        match self {
            Purpose::Choice => parts.iter().copied().fold(f64::INFINITY, f64::min),
            Purpose::Report => median(parts).unwrap_or(f64::INFINITY),
        }
    }

    /// When a device is warm.
    pub const fn warm_up(self) -> WarmupRule {
        match self {
            Purpose::Choice => {
                WarmupRule { tolerance: 0.03, patience: 1, plateau_ns: 0.0, least_ns: 0.0, most_ns: 500e6, most: 5 }
            }
            Purpose::Report => {
                WarmupRule { tolerance: 0.03, patience: 3, plateau_ns: 250e6, least_ns: 250e6, most_ns: 1e9, most: 50 }
            }
        }
    }
}

/// What was run before the first sample that counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WarmUp {
    /// Samples.
    pub runs: usize,
    /// Milliseconds of work.
    pub ms: f64,
    /// Whether the times came to rest; else it was given up, and noise is to be expected.
    pub settled: bool,
    /// Nanoseconds of the last of them.
    #[serde(skip)]
    pub last_ns: f64,
}

/// Takes samples until the device is warm: each says its nanoseconds and those of its work. `sample` is told its
/// number, from 1.
///
/// # Errors
/// Those of a sample.
pub fn warm_up<E>(purpose: Purpose, sample: &mut dyn FnMut(usize) -> Result<(f64, f64), E>) -> Result<WarmUp, E> {
    let (mut warmup, mut runs, mut work_ns) = (Warmup::new(purpose.warm_up()), 0, 0.0);
    loop {
        runs += 1;
        let (ns, work) = sample(runs)?;
        work_ns += work;
        let warmth = warmup.push(ns, work);
        if warmth != Warmth::Warming {
            return Ok(WarmUp { runs, ms: work_ns / 1e6, settled: warmth == Warmth::Settled, last_ns: ns });
        }
    }
}

/// How many samples are taken of what is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtLeast {
    /// Samples.
    pub runs: usize,
    /// Milliseconds that all of them take together; 256 samples at most are taken for it.
    pub ms: f64,
}

/// What comes next in [`report`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A sample of the warm-up, from 1; how many there will be is not known.
    WarmUp(usize),
    /// A sample that counts.
    Sample {
        /// Its number, from 1.
        run: usize,
        /// How many there are.
        of: usize,
    },
}

/// Samples of something to be reported, in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    /// What came before them.
    pub warm_up: WarmUp,
    /// The samples of each thing that a run times.
    pub samples_ms: Vec<Vec<f64>>,
}

/// Warms up, then takes samples for [`Purpose::Report`]. A run gives the milliseconds of one or more things; what is
/// short is run several times for a sample, as prompts are. `next` is told what comes, and may end it by an error.
///
/// # Errors
/// Those of a run and of `next`.
pub fn report<E>(
    at_least: AtLeast,
    next: &mut dyn FnMut(Next) -> Result<(), E>,
    run: &mut dyn FnMut() -> Result<Vec<f64>, E>,
) -> Result<Reported, E> {
    let purpose = Purpose::Report;
    let warm_up = warm_up(purpose, &mut |n| {
        next(Next::WarmUp(n))?;
        let ns = run()?.iter().sum::<f64>() * 1e6;
        Ok((ns, ns))
    })?;
    let parts = ((REPORTED_NS / warm_up.last_ns.max(1.0)).ceil() as u32).clamp(1, MOST_REPORTED_PARTS);
    let sample_ms = f64::from(parts) * warm_up.last_ns / 1e6;
    let of = at_least.runs.max((at_least.ms / sample_ms).ceil().min(MOST_SAMPLES) as usize);
    let mut samples_ms: Vec<Vec<f64>> = Vec::new();
    for n in 1..=of {
        next(Next::Sample { run: n, of })?;
        let parts: Vec<Vec<f64>> = (0..parts).map(|_| run()).collect::<Result<_, _>>()?;
        samples_ms.resize(parts[0].len(), Vec::new());
        for (thing, samples) in samples_ms.iter_mut().enumerate() {
            let parts: Vec<f64> = parts.iter().map(|part| part[thing]).collect();
            samples.push(purpose.of_parts(&parts));
        }
    }
    Ok(Reported { warm_up, samples_ms })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn reported(at_least: AtLeast, run: &mut dyn FnMut() -> Vec<f64>) -> (Reported, Vec<Next>) {
        let mut seen = Vec::new();
        let mut next = |next| {
            seen.push(next);
            Ok::<_, Infallible>(())
        };
        let Ok(reported) = report(at_least, &mut next, &mut || Ok(run()));
        (reported, seen)
    }

    #[test]
    fn reported_times_are_sampled_for_longer() {
        let steps = |tokens, ms: f64| [Purpose::Choice, Purpose::Report].map(|purpose| purpose.steps(tokens, ms * 1e6));
        assert_eq!([0.1, 2.0, 5.0, 400.0].map(|ms| steps(1, ms)), [[32, 128], [25, 50], [10, 20], [1, 4]]);
        assert_eq!([0.1, 5.0, 12.0, 400.0].map(|ms| steps(32, ms)), [[4, 8], [3, 5], [2, 3], [1, 1]]);
        let parts = |tokens, steps| [Purpose::Choice, Purpose::Report].map(|purpose| purpose.parts(tokens, steps));
        assert_eq!([4, 10, 32].map(|steps| parts(1, steps)), [[4, 4], [2, 1], [4, 1]]);
        assert_eq!(parts(32, 3), [3, 3]);
        // The second is held up.
        let counts = [Purpose::Choice, Purpose::Report].map(|purpose| purpose.of_parts(&[3.0, 9.0, 2.0]));
        assert_eq!(counts, [2.0, 3.0]);
    }

    #[test]
    fn samples_count_after_a_plateau() {
        let mut all = [500.0, 50.0].into_iter().chain([30.0; 4]).chain([27.0, 29.0, 28.0]);
        let (reported, seen) = reported(AtLeast { runs: 3, ms: 0.0 }, &mut || vec![all.next().unwrap(), 0.0]);
        assert_eq!(seen[5..7], [Next::WarmUp(6), Next::Sample { run: 1, of: 3 }]);
        assert_eq!(reported.warm_up, WarmUp { runs: 6, ms: 670.0, settled: true, last_ns: 30e6 });
        assert_eq!(reported.samples_ms, [vec![27.0, 29.0, 28.0], vec![0.0; 3]]);
    }

    #[test]
    fn what_is_short_is_run_several_times_for_a_sample() {
        let runs = |ms: f64, least_ms| {
            let mut runs = 0;
            let (reported, _) = reported(AtLeast { runs: 6, ms: least_ms }, &mut || {
                runs += 1;
                vec![ms]
            });
            (reported.samples_ms[0].len(), runs - reported.warm_up.runs)
        };
        assert_eq!([400.0, 40.0, 10.0, 0.1].map(|ms| runs(ms, 1000.0)), [(6, 6), (25, 25), (34, 102), (256, 2048)]);
        assert_eq!(runs(0.1, 0.0), (6, 48));
    }

    #[test]
    fn a_device_that_never_settles_is_still_measured() {
        let mut ms = 100.0;
        let (reported, _) = reported(AtLeast { runs: 2, ms: 0.0 }, &mut || {
            ms *= 1.5;
            vec![ms]
        });
        let Reported { warm_up, samples_ms } = reported;
        assert!(!warm_up.settled && warm_up.ms >= 1000.0 && samples_ms[0].len() == 2, "{warm_up:?}");
    }
}
