//! Percentile bootstrap of the median of paired log-ratios (Efron 1979): an interval without a model of the noise.
//!
//! Ratios, because noise on a GPU scales with the time; logarithms, because twice as fast and twice as slow must weigh
//! the same; the median, because outliers stay in the list; pairs, because neighbours in time share the clock.

use super::rng::below;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;

/// How an interval is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bootstrap {
    /// Number of resamples.
    pub resamples: u32,
    /// Share of the resampled medians inside the interval, in `(0, 1)`.
    pub confidence: f64,
    /// Seed of the resampling.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { resamples: 10_000, confidence: 0.95, seed: 0x5eed }
    }
}

/// A closed interval of log-ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Bootstrap {
    /// The interval of the median of `values`; `None` where there is none or one is not finite.
    pub(super) fn median(&self, values: &[f64]) -> Option<Interval> {
        if values.is_empty() || values.iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let mut rng = SplitMix64::seed_from_u64(self.seed);
        let mut drawn = vec![0u32; sorted.len()];
        let mut medians: Vec<f64> =
            (0..self.resamples.max(1)).map(|_| resampled_median(&sorted, &mut drawn, &mut rng)).collect();

        let tail = (1.0 - self.confidence) / 2.0;
        let cut = ((tail * medians.len() as f64) as usize).min((medians.len() - 1) / 2);
        let top = medians.len() - 1 - cut;
        let high = *medians.select_nth_unstable_by(top, f64::total_cmp).1;
        let low = *medians.select_nth_unstable_by(cut, f64::total_cmp).1;
        Some(Interval { low, high })
    }
}

/// The median of one resample with replacement. Counting draws per rank needs no sort: the ranks are already in order.
fn resampled_median(sorted: &[f64], drawn: &mut [u32], rng: &mut SplitMix64) -> f64 {
    drawn.fill(0);
    for _ in 0..sorted.len() {
        drawn[below(rng, sorted.len())] += 1;
    }
    let (lower_rank, upper_rank) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    let (mut seen, mut lower) = (0, None);
    for (&value, &count) in sorted.iter().zip(drawn.iter()) {
        seen += count as usize;
        if seen > lower_rank {
            let lower = *lower.get_or_insert(value);
            if seen > upper_rank {
                return (lower + value) / 2.0;
            }
        }
    }
    sorted[sorted.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// P(Binomial(n, p) >= k), summed term by term.
    fn binomial_at_least(n: u32, p: f64, k: u32) -> f64 {
        let choose = |j: u32| (1..=j).fold(1.0, |c, i| c * f64::from(n - j + i) / f64::from(i));
        (k..=n).map(|j| choose(j) * p.powi(j as i32) * (1.0 - p).powi((n - j) as i32)).sum()
    }

    #[test]
    fn resampled_medians_follow_the_exact_law() {
        // Odd n: the resampled median is <= the i-th order statistic with probability P(Bin(n, i/n) >= (n+1)/2).
        let n = 9u32;
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let (mut rng, mut drawn) = (SplitMix64::seed_from_u64(3), vec![0; n as usize]);
        let medians: Vec<f64> = (0..40_000).map(|_| resampled_median(&values, &mut drawn, &mut rng)).collect();
        for i in 1..n {
            let seen = medians.iter().filter(|&&m| m <= f64::from(i)).count() as f64 / medians.len() as f64;
            let exact = binomial_at_least(n, f64::from(i) / f64::from(n), n.div_ceil(2));
            assert!((seen - exact).abs() < 0.01, "rank {i}: {seen} against {exact}");
        }
    }

    #[test]
    fn a_single_value_is_its_own_interval() {
        assert_eq!(Bootstrap::default().median(&[0.25]), Some(Interval { low: 0.25, high: 0.25 }));
        assert_eq!(Bootstrap::default().median(&[]), None);
        assert_eq!(Bootstrap::default().median(&[f64::NAN]), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn interval_brackets_the_median_and_repeats(values in prop::collection::vec(-1.0..1.0f64, 1..40), seed: u64) {
            let bootstrap = Bootstrap { resamples: 1_000, seed, ..Bootstrap::default() };
            let interval = bootstrap.median(&values).unwrap();
            let median = crate::stats::summary::median(&values).unwrap();
            prop_assert!(interval.low <= median && median <= interval.high);
            prop_assert_eq!(bootstrap.median(&values), Some(interval));
            let shifted: Vec<f64> = values.iter().map(|v| v * 2.0).collect();
            let twice = bootstrap.median(&shifted).unwrap();
            prop_assert_eq!((twice.low, twice.high), (interval.low * 2.0, interval.high * 2.0));
        }

        #[test]
        fn a_higher_confidence_widens_the_interval(values in prop::collection::vec(-1.0..1.0f64, 6..40)) {
            let at = |confidence| Bootstrap { resamples: 1_000, confidence, seed: 1 }.median(&values).unwrap();
            let width = |interval: Interval| interval.high - interval.low;
            prop_assert!(width(at(0.5)) <= width(at(0.95)));
        }
    }
}
