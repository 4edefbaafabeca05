//! Sequential tests: a comparison ends before all its pairs are taken, at a few looks, if an interval that is wider
//! than the final one already decides. Most comparisons are clear after a few pairs, and the time saved is another
//! candidate's. Other comparisons need more pairs: on a busy machine a few pairs of ten are outliers, and an apparent
//! loss of three per cent is not certain.

use super::bootstrap::Bootstrap;
use super::verdict::{Comparison, Criteria, Verdict, compare};
use serde::{Deserialize, Serialize};

/// Pairs at the first look: with fewer an interval is hardly one.
const FIRST: usize = 8;

/// Pairs from one look to the next.
const EVERY: usize = 4;

/// The confidence of a look. Nine looks at 99.5 % are wrong together about as often as one at 95.5 %, were they
/// independent.
const CONFIDENCE: f64 = 0.995;

/// An interval as wide as that, as a difference of logarithms, is one of a busy machine: of eight pairs on an idle one
/// it is a quarter.
const BUSY: f64 = 0.08;

/// The share by which a plan may be slower in one thing than what it takes the place of.
pub(crate) const MOST_SLOWER: f64 = 0.01;

/// The answer that a comparison is made for: it ends when that is known, or out of reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// Which of the four verdicts holds.
    #[default]
    Verdict,
    /// Whether the candidate is faster: SAME is not waited for.
    IsFaster,
    /// Whether the candidate is slower: it has won elsewhere, and FAST would not help it.
    IsSlower,
}

impl Question {
    /// Whether a comparison that is ambiguous yet answers it, or leaves little hope of the answer that is wanted: a
    /// candidate whose median gain is not worth a change of plan after [`FIRST`] and [`EVERY`] more pairs would be FAST
    /// by luck.
    fn is_settled(self, Comparison { log_ratio, interval, pairs, .. }: Comparison, min_gain: f64) -> bool {
        let matters = min_gain.ln_1p();
        match self {
            Question::Verdict => false,
            Question::IsFaster => {
                let hoped_for = if pairs < FIRST + EVERY { 0.0 } else { matters };
                interval.high < matters || log_ratio < hoped_for
            }
            Question::IsSlower => interval.low > -MOST_SLOWER.ln_1p() || log_ratio > 0.0,
        }
    }
}

/// Whether pairs that were taken so far are enough: the verdict is clear, or the answer that is wanted is out of reach.
pub fn is_decided(incumbent: &[f64], candidate: &[f64], criteria: &Criteria, question: Question) -> bool {
    let pairs = incumbent.len().min(candidate.len());
    if pairs < FIRST || !(pairs - FIRST).is_multiple_of(EVERY) {
        return false;
    }
    compare(incumbent, candidate, &Criteria { min_pairs: FIRST, ..stricter(criteria) }).is_ok_and(|comparison| {
        comparison.verdict != Verdict::Ambiguous || question.is_settled(comparison, criteria.min_gain)
    })
}

/// Whether as many pairs again are worth their time, as nothing is sure: it looks as if one were faster, by half of
/// what matters at least, or the machine is busy.
pub fn is_worth_more(incumbent: &[f64], candidate: &[f64], criteria: &Criteria, question: Question) -> bool {
    let matters = criteria.min_gain.ln_1p();
    compare(incumbent, candidate, &stricter(criteria)).is_ok_and(
        |comparison @ Comparison { verdict, log_ratio, interval, .. }| {
            let is_open = verdict == Verdict::Ambiguous && !question.is_settled(comparison, criteria.min_gain);
            is_open && (log_ratio.abs() > matters / 2.0 || interval.high - interval.low > BUSY)
        },
    )
}

/// Criteria of looks that are not the last.
fn stricter(criteria: &Criteria) -> Criteria {
    Criteria { bootstrap: Bootstrap { confidence: CONFIDENCE, ..criteria.bootstrap }, ..*criteria }
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
            while a.len() < 40 && !is_decided(&a, &b, &criteria, Question::Verdict) {
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

    #[test]
    fn a_comparison_ends_where_the_answer_is_out_of_reach() {
        let criteria = Criteria { min_pairs: 6, ..Criteria::step() };
        // By three per cent either way: no verdict is clear after eight pairs.
        let slower = [1.00, 1.03, 1.00, 1.04, 1.03, 1.00, 1.03, 1.01].map(|ratio| 100.0 * ratio);
        let decided = |candidate: &[f64; 8], question| is_decided(&[100.0; 8], candidate, &criteria, question);
        let questions = [Question::Verdict, Question::IsFaster, Question::IsSlower];
        assert_eq!(questions.map(|question| decided(&slower, question)), [false, true, false]);
        let faster = slower.map(|ns| 1e4 / ns);
        assert_eq!(questions.map(|question| decided(&faster, question)), [false, false, true]);
        // What is out of reach is not worth more pairs either, however busy the machine.
        let more = |candidate: &[f64], question| is_worth_more(&[100.0; 8], candidate, &criteria, question);
        assert!(more(&slower, Question::Verdict) && !more(&slower, Question::IsFaster));
    }

    #[test]
    fn an_uncertain_difference_takes_more_pairs() {
        let criteria = Criteria { min_pairs: 6, ..Criteria::step() };
        let go_on = |ratios: [f64; 9]| {
            is_worth_more(&[100.0; 9], &ratios.map(|ratio| 100.0 * ratio), &criteria, Question::Verdict)
        };
        assert!(go_on([1.03, 1.03, 1.03, 1.04, 1.03, 0.97, 1.03, 0.98, 1.02]), "two pairs are far off");
        assert!(!go_on([1.03, 1.03, 1.03, 1.04, 1.03, 1.02, 1.03, 1.03, 1.02]), "it is sure");
        assert!(!go_on([1.03, 0.97, 1.0, 1.0, 1.004, 0.97, 1.03, 0.98, 1.002]), "it looks the same");
        assert!(go_on([1.06, 0.94, 1.0, 1.0, 1.004, 0.94, 1.06, 0.94, 1.002]), "all pairs are far off");
    }

    #[test]
    fn more_pairs_decide_a_comparison_on_a_busy_machine() {
        let criteria = Criteria { min_pairs: 6, ..Criteria::step() };
        // Ten pairs at first, of which a sample in seven is late by up to a tenth.
        let verdict = |seed: u64, slower: f64, most: usize| {
            let mut rng = SplitMix64::seed_from_u64(seed);
            let mut sample = |ns: f64| {
                let noise = 0.012 * ((0..12).map(|_| unit(&mut rng)).sum::<f64>() - 6.0);
                let late = if unit(&mut rng) < 0.15 { 0.1 * unit(&mut rng) } else { 0.0 };
                ns * (noise + late).exp()
            };
            let (mut a, mut b, mut next) = (Vec::new(), Vec::new(), 10);
            while next > 0 {
                for _ in 0..next {
                    if is_decided(&a, &b, &criteria, Question::Verdict) {
                        break;
                    }
                    a.push(sample(100.0));
                    b.push(sample(100.0 * slower));
                }
                next =
                    if is_worth_more(&a, &b, &criteria, Question::Verdict) { a.len().min(most - a.len()) } else { 0 };
            }
            compare(&a, &b, &criteria).unwrap().verdict
        };
        let share = |slower, most, is: &[Verdict]| {
            (0..400).filter(|seed| is.contains(&verdict(*seed, slower, most))).count() as f64 / 400.0
        };
        let slow = [10, 40].map(|most| share(1.031, most, &[Verdict::Slow]));
        let wrong = share(1.0, 40, &[Verdict::Fast, Verdict::Slow]);
        assert!(slow[0] < 0.9 && slow[1] > 0.95, "{slow:?} of what is slower");
        assert!(wrong <= 0.02, "{wrong:?} of what is the same");
    }
}
