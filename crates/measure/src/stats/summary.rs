//! The shape of one list of samples: quartiles, mean, and outliers that are counted but never dropped.

/// Order statistics of a non-empty list of finite samples, in the samples' own unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub n: usize,
    /// Smallest sample.
    pub min: f64,
    /// First quartile.
    pub q1: f64,
    /// Median.
    pub median: f64,
    /// Third quartile.
    pub q3: f64,
    /// Interquartile range, `q3 - q1`.
    pub iqr: f64,
    /// Arithmetic mean, outliers included.
    pub mean: f64,
    /// Samples beyond the inner fences (1.5 iqr outside the quartiles), up to the outer ones.
    pub mild_outliers: usize,
    /// Samples beyond the outer fences (3 iqr outside the quartiles).
    pub severe_outliers: usize,
}

impl Summary {
    /// Summarises `samples`; `None` where there is none or one is not finite.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples)?;
        let (q1, median, q3) = (quantile(&sorted, 0.25), quantile(&sorted, 0.5), quantile(&sorted, 0.75));
        let iqr = q3 - q1;
        let beyond = |reach: f64| sorted.iter().filter(|&&x| x < q1 - reach * iqr || x > q3 + reach * iqr).count();
        let severe_outliers = beyond(3.0);
        Some(Self {
            n: sorted.len(),
            min: sorted[0],
            q1,
            median,
            q3,
            iqr,
            mean: samples.iter().sum::<f64>() / samples.len() as f64,
            mild_outliers: beyond(1.5) - severe_outliers,
            severe_outliers,
        })
    }
}

/// The median; `None` where there is no sample or one is not finite.
pub fn median(samples: &[f64]) -> Option<f64> {
    Some(quantile(&sorted(samples)?, 0.5))
}

fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || samples.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    Some(sorted)
}

/// Linear interpolation between order statistics (type 7 of Hyndman and Fan 1996, the default of R and NumPy).
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quartiles_agree_with_numpy() {
        let s = Summary::of(&[7.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.n, s.min, s.q1, s.median, s.q3, s.iqr, s.mean), (4, 1.0, 1.75, 2.5, 4.0, 2.25, 3.25));
    }

    #[test]
    fn fences_classify_and_keep() {
        let mut samples: Vec<f64> = (0..=100).map(f64::from).collect(); // quartiles 25 and 75 before, nearly so after
        samples.extend([160.0, 400.0, -300.0]);
        let s = Summary::of(&samples).unwrap();
        assert_eq!((s.n, s.mild_outliers, s.severe_outliers), (104, 1, 2));
        assert_eq!(s.min, -300.0);
    }

    #[test]
    fn empty_and_nan_samples_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[f64::INFINITY]), None);
    }

    proptest! {
        #[test]
        fn order_statistics_are_ordered(samples in prop::collection::vec(-1e9..1e9f64, 1..50)) {
            let s = Summary::of(&samples).unwrap();
            prop_assert!(s.min <= s.q1 && s.q1 <= s.median && s.median <= s.q3);
            let below = samples.iter().filter(|&&x| x <= s.median).count();
            let above = samples.iter().filter(|&&x| x >= s.median).count();
            prop_assert!(2 * below >= s.n && 2 * above >= s.n);
        }
    }
}
