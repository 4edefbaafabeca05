//! Quantiles of any number of positive numbers in bounded memory.

use std::collections::BTreeMap;

/// Where bins of the same relative width begin and end; what lies outside counts as the nearer of them.
const RANGE: [f64; 2] = [1e-15, 1e6];

/// Bits of a float that a bin leaves out: 8 bits of fraction remain, so that a bin is 0.4 % wide at most.
const DROPPED: u32 = 44;

/// Counts of numbers; at most 17,000 bins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram {
    bins: BTreeMap<u64, u64>,
    count: u64,
}

impl Histogram {
    /// Counts a number, at least 0.
    pub(super) fn add(&mut self, x: f64) {
        // Positive floats are ordered as their bits are.
        *self.bins.entry(x.clamp(RANGE[0], RANGE[1]).to_bits() >> DROPPED).or_default() += 1;
        self.count += 1;
    }

    /// The least number that is no less than this share of all, give or take 0.2 %; 0 where that is 1e-15 or less.
    pub(super) fn quantile(&self, share: f64) -> f64 {
        let wanted = (share * self.count as f64).ceil();
        let mut below = 0;
        let bin = self.bins.iter().find(|(_, count)| {
            below += **count;
            below as f64 >= wanted
        });
        match bin {
            Some((bin, _)) if *bin > RANGE[0].to_bits() >> DROPPED => {
                f64::from_bits((bin << DROPPED) | (1 << (DROPPED - 1)))
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_close() {
        let mut histogram = Histogram::default();
        (1..=1000).rev().for_each(|i| histogram.add(f64::from(i) * 1e-6));
        for (share, wanted) in [(0.001, 1e-6), (0.5, 5e-4), (0.99, 9.9e-4), (1.0, 1e-3)] {
            let found = histogram.quantile(share);
            assert!((found / wanted - 1.0).abs() < 0.003, "{share}: {found} {wanted}");
        }
    }

    #[test]
    fn zeros_are_zero() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.99), 0.0);
        (0..99).for_each(|_| histogram.add(0.0));
        histogram.add(1.0);
        assert_eq!(histogram.quantile(0.99), 0.0);
        assert!(histogram.quantile(1.0) >= 1.0);
    }
}
