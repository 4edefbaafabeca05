//! The A/A experiment: a candidate that is the incumbent must not win or lose. Noise is simulated, so that the rate of
//! false verdicts is known for more noise than any one machine has. See the table with
//! `cargo test -p wgoose-measure --test measure aa_rate -- --nocapture`.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::f64::consts::TAU;
use wgoose_measure::stats::rng::unit;
use wgoose_measure::stats::schedule::{Arm, abba};
use wgoose_measure::stats::{Bootstrap, Criteria, Verdict, compare};

/// The noise of a machine on a time.
#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of the time's logarithm.
    sigma: f64,
    /// Share of samples that something interrupts, for up to three times as long.
    outliers: f64,
    /// Growth of the time from one sample to the next: a chip that heats up.
    drift: f64,
}

impl Noise {
    const fn of(sigma: f64) -> Self {
        Self { sigma, outliers: 0.05, drift: 0.0002 }
    }

    /// Time of the `slot`-th measurement of work that takes `ns`.
    fn time(self, ns: f64, slot: usize, rng: &mut SplitMix64) -> f64 {
        let normal = (-2.0 * (1.0 - unit(rng)).ln()).sqrt() * (TAU * unit(rng)).cos();
        let interrupted = if unit(rng) < self.outliers { 1.0 + 2.0 * unit(rng) } else { 1.0 };
        ns * (self.sigma * normal).exp() * (1.0 + self.drift).powi(slot as i32) * interrupted
    }
}

/// One race of `pairs` pairs in which the incumbent takes `speedup` times as long as the candidate.
fn race(noise: Noise, pairs: usize, speedup: f64, rng: &mut SplitMix64) -> Verdict {
    let (mut incumbent, mut candidate) = (Vec::new(), Vec::new());
    for (slot, arm) in abba(pairs).flatten().enumerate() {
        match arm {
            Arm::Incumbent => incumbent.push(noise.time(1e6 * speedup, slot, rng)),
            Arm::Candidate => candidate.push(noise.time(1e6, slot, rng)),
        }
    }
    // Fewer resamples than in earnest keep the test short: the ends of the interval move by a few per cent of its
    // width.
    let bootstrap = Bootstrap { resamples: 1_000, seed: rng.next_u64(), ..Bootstrap::default() };
    compare(&incumbent, &candidate, &Criteria { bootstrap, ..Criteria::kernel() }).unwrap().verdict
}

/// Shares of verdicts, in per cent.
#[derive(Clone, Copy, Default)]
struct Rates {
    fast: f64,
    slow: f64,
    same: f64,
    ambiguous: f64,
    /// FAST, and FAST again on held-out samples; or SLOW twice. Only the former ever changes a plan.
    confirmed: f64,
}

impl Rates {
    fn of(noise: Noise, pairs: usize, speedup: f64) -> Self {
        const RACES: u32 = 2_000;
        let mut rng = SplitMix64::seed_from_u64(pairs as u64 ^ noise.sigma.to_bits() ^ speedup.to_bits());
        let mut rates = Self::default();
        for _ in 0..RACES {
            let verdict = race(noise, pairs, speedup, &mut rng);
            let share = 100.0 / f64::from(RACES);
            match verdict {
                Verdict::Fast => rates.fast += share,
                Verdict::Slow => rates.slow += share,
                Verdict::Same => rates.same += share,
                Verdict::Ambiguous => rates.ambiguous += share,
            }
            let decided = matches!(verdict, Verdict::Fast | Verdict::Slow);
            if decided && race(noise, pairs, speedup, &mut rng) == verdict {
                rates.confirmed += share;
            }
        }
        rates
    }
}

/// The rates for each noise and number of pairs, printed as a table.
fn table(title: &str, speedup: f64) -> Vec<(f64, usize, Rates)> {
    println!("{title}, rates in %\nnoise % pairs   FAST   SLOW   SAME AMBIGUOUS  confirmed on held-out samples");
    let mut rows = Vec::new();
    for sigma in [0.005, 0.01, 0.02, 0.05, 0.2] {
        for pairs in [6, 12, 40] {
            let rates @ Rates { fast, slow, same, ambiguous, confirmed } = Rates::of(Noise::of(sigma), pairs, speedup);
            let noise = 100.0 * sigma;
            println!("{noise:>7.1} {pairs:>5} {fast:>6.2} {slow:>6.2} {same:>6.2} {ambiguous:>9.2} {confirmed:>10.2}");
            rows.push((sigma, pairs, rates));
        }
    }
    rows
}

#[test]
fn a_against_itself_is_neither_fast_nor_slow() {
    for (sigma, pairs, rates) in table("A/A", 1.0) {
        let wrong = rates.fast + rates.slow;
        // Where noise is small beside the gain that matters, one race is enough ...
        if sigma <= 0.01 || (sigma <= 0.02 && pairs >= 40) {
            assert!(wrong < 1.0, "{wrong} % wrong at noise {sigma}, {pairs} pairs");
        }
        // ... elsewhere nothing but the interval guards it, with its 5 % and what small samples add; the held-out race
        // that every winner must run brings the rate down again.
        assert!(wrong < 10.0, "{wrong} % wrong at noise {sigma}, {pairs} pairs");
        assert!(rates.confirmed < 1.0, "{} % wrong twice at noise {sigma}, {pairs} pairs", rates.confirmed);
    }
}

#[test]
fn a_gain_of_five_per_cent_is_mostly_fast() {
    for (sigma, pairs, rates) in table("5 % faster", 1.05) {
        if sigma <= 0.02 {
            assert!(rates.fast > 60.0, "only {} % FAST at noise {sigma}, {pairs} pairs", rates.fast);
            assert!(rates.slow == 0.0, "{} % SLOW at noise {sigma}, {pairs} pairs", rates.slow);
        }
        if sigma <= 0.02 && pairs >= 40 {
            assert!(rates.fast > 99.0, "only {} % FAST at noise {sigma}, {pairs} pairs", rates.fast);
        }
    }
}
