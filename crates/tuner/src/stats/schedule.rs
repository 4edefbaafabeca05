//! In which order to measure: rounds over many candidates that thin out, then A B B A pairs of the last two.

use super::summary::median;

/// One side of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A: what would be used today, the device's default at the start.
    Incumbent,
    /// B: what may replace it.
    Candidate,
}

/// The order inside each of `pairs` pairs: A B, B A, A B ... Who goes first alternates, so that a steady drift adds to
/// one pair what it takes from the next.
pub fn abba(pairs: usize) -> impl Iterator<Item = [Arm; 2]> {
    (0..pairs).map(|pair| match pair % 2 {
        0 => [Arm::Incumbent, Arm::Candidate],
        _ => [Arm::Candidate, Arm::Incumbent],
    })
}

/// The order of a screening round over `alive`: rotated by one each round, so that nobody always follows the same
/// neighbour into a cold cache or a hot chip.
pub fn round_order(alive: &[usize], round: usize) -> Vec<usize> {
    let mut order = alive.to_vec();
    if !order.is_empty() {
        order.rotate_left(round % alive.len());
    }
    order
}

/// When a candidate has been seen enough to be dropped (the scheme of CubeCL's autotuner).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Screening {
    /// A candidate is dropped when its median exceeds the best median by more than this factor.
    pub drop_factor: f64,
    /// Nobody is dropped, and nobody sets the mark, on fewer samples than this.
    pub min_samples: usize,
    /// At least so many stay, the best by median, however far apart they are.
    pub keep: usize,
}

impl Default for Screening {
    fn default() -> Self {
        Self { drop_factor: 1.5, min_samples: 3, keep: 2 }
    }
}

impl Screening {
    /// Those of `alive` that go into the next round, in the order of `alive`. `samples[c]` holds all times of candidate
    /// `c`; the `incumbent` always stays, for the default always races. A candidate without a usable median (too few
    /// samples) is not yet judged and stays.
    ///
    /// # Panics
    /// Where `alive` names a candidate that `samples` does not have.
    pub fn survivors(&self, samples: &[Vec<f64>], alive: &[usize], incumbent: usize) -> Vec<usize> {
        let judged = |c: usize| median(&samples[c]).filter(|_| samples[c].len() >= self.min_samples);
        let mut ranked: Vec<(f64, usize)> = alive.iter().filter_map(|&c| Some((judged(c)?, c))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0)); // stable: ties keep the order of `alive`
        let Some(&(best, _)) = ranked.first() else { return alive.to_vec() };

        let unjudged = alive.len() - ranked.len();
        let safe_places = self.keep.saturating_sub(unjudged);
        let dropped: Vec<usize> = ranked
            .iter()
            .skip(safe_places)
            .filter(|&&(median, c)| median > self.drop_factor * best && c != incumbent)
            .map(|&(_, c)| c)
            .collect();
        alive.iter().copied().filter(|c| !dropped.contains(c)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn thrice(times: &[f64]) -> Vec<Vec<f64>> {
        times.iter().map(|&t| vec![t; 3]).collect()
    }

    #[test]
    fn pairs_alternate_and_cancel_a_steady_drift() {
        use Arm::{Candidate as B, Incumbent as A};
        assert_eq!(abba(3).collect::<Vec<_>>(), [[A, B], [B, A], [A, B]]);
        // Time grows by 1 per measurement: over an even number of pairs both arms are charged the same.
        let mut charged = [0, 0];
        for (slot, arm) in abba(8).flatten().enumerate() {
            charged[arm as usize] += slot;
        }
        assert_eq!(charged[0], charged[1]);
    }

    #[test]
    fn rounds_rotate() {
        assert_eq!(round_order(&[4, 7, 9], 0), [4, 7, 9]);
        assert_eq!(round_order(&[4, 7, 9], 4), [7, 9, 4]);
        assert!(round_order(&[], 3).is_empty());
    }

    #[test]
    fn the_slow_are_dropped_but_never_the_incumbent() {
        let samples = thrice(&[100.0, 149.0, 151.0, 90.0, 500.0]);
        let alive = [0, 1, 2, 3, 4];
        assert_eq!(Screening::default().survivors(&samples, &alive, 0), [0, 3], "149 is above 1.5 x 90");
        assert_eq!(Screening::default().survivors(&samples, &alive, 4), [0, 3, 4]);
    }

    #[test]
    fn two_stay_however_slow_the_second() {
        let samples = thrice(&[10.0, 1000.0, 900.0]);
        assert_eq!(Screening::default().survivors(&samples, &[0, 1, 2], 0), [0, 2]);
    }

    #[test]
    fn nobody_is_judged_early() {
        let mut samples = thrice(&[10.0, 1000.0, 900.0]);
        samples[1].pop();
        assert_eq!(Screening::default().survivors(&samples, &[0, 1, 2], 0), [0, 1]);
        let early = vec![vec![10.0], vec![1000.0], vec![]];
        assert_eq!(Screening::default().survivors(&early, &[0, 1, 2], 0), [0, 1, 2]);
    }

    proptest! {
        #[test]
        fn the_best_and_the_incumbent_survive(times in prop::collection::vec(1.0..1e6f64, 1..20), pick: prop::sample::Index) {
            let alive: Vec<usize> = (0..times.len()).collect();
            let incumbent = pick.index(times.len());
            let left = Screening::default().survivors(&thrice(&times), &alive, incumbent);
            let best = *alive.iter().min_by(|&&a, &&b| times[a].total_cmp(&times[b])).unwrap();
            prop_assert!(left.contains(&best) && left.contains(&incumbent));
            prop_assert!(left.len() >= times.len().min(2));
            prop_assert!(left.is_sorted());
        }
    }
}
