//! When a comparison may end before all its pairs are taken: at looks that lie apart, if an interval that is wider than the one
//! that judges says so already. Most comparisons are clear after a few pairs, and what time they leave is another candidate's.

use super::bootstrap::Bootstrap;
use super::verdict::{Criteria, Verdict, compare};

/// Pairs at the first look: with fewer an interval is hardly one.
const FIRST: usize = 8;

/// Pairs from one look to the next.
const EVERY: usize = 4;

/// The confidence of a look. Nine looks at 99.5 % are wrong together about as often as one at 95.5 %, were they independent.
const CONFIDENCE: f64 = 0.995;

/// Whether pairs that were taken so far are enough.
pub(crate) fn is_decided(incumbent: &[f64], candidate: &[f64], criteria: &Criteria) -> bool {
    let pairs = incumbent.len().min(candidate.len());
    if pairs < FIRST || !(pairs - FIRST).is_multiple_of(EVERY) {
        return false;
    }
    let bootstrap = Bootstrap { confidence: CONFIDENCE, ..criteria.bootstrap };
    let stricter = Criteria { bootstrap, min_pairs: FIRST, ..*criteria };
    compare(incumbent, candidate, &stricter).is_ok_and(|comparison| comparison.verdict != Verdict::Ambiguous)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::rng::unit;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::SeedableRng;

    /// Verdicts of comparisons that end when they are decided, and the pairs that they took on average.
    fn verdicts(gain: f64, noise: f64, runs: u64) -> (Vec<Verdict>, f64) {
        let criteria = Criteria::step();
        let mut pairs = 0;
        let verdicts = (0..runs).map(|seed| {
            let mut rng = SplitMix64::seed_from_u64(seed);
            // A sum of twelve draws is as good as normal.
            let mut sample = |ns: f64| ns * (noise * ((0..12).map(|_| unit(&mut rng)).sum::<f64>() - 6.0)).exp();
            let (mut a, mut b) = (Vec::new(), Vec::new());
            while a.len() < 40 && !is_decided(&a, &b, &criteria) {
                a.push(sample(100.0));
                b.push(sample(100.0 / gain));
            }
            pairs += a.len();
            compare(&a, &b, &Criteria { min_pairs: FIRST, ..criteria }).unwrap().verdict
        });
        (verdicts.collect(), pairs as f64 / runs as f64)
    }

    #[test]
    fn clear_answers_come_early_and_are_right() {
        let share = |verdicts: &[Verdict], is: &[Verdict]| {
            verdicts.iter().filter(|v| is.contains(v)).count() as f64 / verdicts.len() as f64
        };
        let (same, pairs) = verdicts(1.0, 0.01, 200);
        assert!(share(&same, &[Verdict::Fast, Verdict::Slow]) <= 0.02, "false verdicts");
        assert!(pairs < 30.0, "{pairs} pairs");
        let (slow, pairs) = verdicts(0.97, 0.01, 200);
        assert!(share(&slow, &[Verdict::Slow]) >= 0.9 && pairs < 30.0, "{} in {pairs}", share(&slow, &[Verdict::Slow]));
        let (fast, pairs) = verdicts(1.2, 0.01, 100);
        assert!(share(&fast, &[Verdict::Fast]) == 1.0 && pairs < 8.5, "{pairs} pairs");
    }
}
