//! From what single tensors cost to what a whole mix costs: the smallest mix whose *measured* divergence keeps to a target.
//!
//! The sum over single tensors is an estimate. The search measures the mix that the estimate names, corrects the
//! estimate by the ratio that it sees, and continues between the mixes that were good enough and those that were not.

use super::frontier::{Frontier, Mix};

/// Most mixes measured while one is known that keeps to the target.
const ROUNDS: usize = 16;

/// What a search found.
#[derive(Debug, PartialEq)]
pub(super) enum Found<M> {
    /// The smallest mix that was measured and keeps to the target, with what was measured.
    Mix(Mix, M),
    /// Not even the mix of least divergence, this one, keeps to it.
    Least(f64),
}

/// The smallest mix whose divergence is at most `target`, greater than 0. `measure` returns the divergence of a mix, and what
/// else there is to keep of it.
pub(super) fn to_target<M, E>(
    frontier: &Frontier<'_>,
    target: f64,
    mut measure: impl FnMut(&[usize]) -> Result<(f64, M), E>,
) -> Result<Found<M>, E> {
    let levels = frontier.levels();
    // Too divergent before `low`, good enough from `high` on.
    let (mut low, mut high) = (0, levels.len());
    let mut found = Found::Least(f64::INFINITY);
    let mut aim = target;
    for round in 0.. {
        let is_found = matches!(found, Found::Mix(..));
        if low == high || (is_found && round >= ROUNDS) {
            break;
        }
        let guess = levels.partition_point(|level| *level > aim);
        let at = match guess {
            _ if round >= ROUNDS => high - 1,
            // Every other time by halves: where tensors depend on each other the ratio differs from one end to the other.
            _ if is_found && round % 2 == 1 => low + (high - low) / 2,
            _ => guess.clamp(low, high - 1),
        };
        let mix = frontier.below(levels[at]).unwrap_or_default();
        let (kl, measured) = measure(&mix)?;
        match kl <= target {
            true => (high, found) = (at, Found::Mix(mix, measured)),
            false => low = at + 1,
        }
        if at + 1 == levels.len() && kl > target {
            found = Found::Least(kl);
        }
        aim = levels[at] * target / kl;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::frontier::Choice;
    use super::*;
    use std::convert::Infallible;

    /// Ten tensors of 100 bytes or, at no cost, of 400, and what is between.
    fn tensors() -> Vec<Vec<Choice>> {
        let choices = |tensor: u32| {
            let kl = 1e-3 * f64::from(1 + tensor);
            vec![
                Choice { bytes: 100, kl },
                Choice { bytes: 150, kl: kl / 4.0 },
                Choice { bytes: 200, kl: kl / 16.0 },
                Choice { bytes: 400, kl: 0.0 },
            ]
        };
        (0..10).map(choices).collect()
    }

    /// The search where a mix really has `real` of its estimate, and how many mixes it measured.
    fn search(target: f64, real: fn(f64) -> f64) -> (Found<f64>, usize) {
        let tensors = tensors();
        let frontier = Frontier::new(&tensors);
        let mut measured = 0;
        let found = to_target(&frontier, target, |mix| {
            measured += 1;
            let kl = real(frontier.kl(mix));
            Ok::<_, Infallible>((kl, kl))
        });
        (found.unwrap(), measured)
    }

    #[test]
    fn additive_divergences_are_found_at_once() {
        let tensors = tensors();
        let frontier = Frontier::new(&tensors);
        for target in [1e-4, 3e-3, 2e-2] {
            let (Found::Mix(mix, kl), measured) = search(target, |kl| kl) else { panic!("{target}") };
            assert_eq!(Some(&mix), frontier.below(target).as_ref());
            assert!(kl <= target && measured <= ROUNDS, "{measured}");
        }
    }

    #[test]
    fn a_mix_whose_divergences_do_not_add_up_is_measured_until_it_fits() {
        let tensors = tensors();
        let frontier = Frontier::new(&tensors);
        for (target, real) in [(3e-3, (|kl| kl * 1.7) as fn(f64) -> f64), (3e-3, |kl| kl * 0.4), (3e-3, f64::sqrt)] {
            let (Found::Mix(mix, kl), measured) = search(target, real) else { panic!("{target}") };
            assert!(kl <= target && measured <= ROUNDS, "{kl} after {measured}");
            // The next smaller mix of the frontier is too far, or nearly.
            let smaller = frontier.below(frontier.kl(&mix) * 1.1).unwrap();
            assert!(smaller == mix || real(frontier.kl(&smaller)) > target * 0.95, "{target}");
        }
    }

    /// A mix that is a little too far is no reason to jump to one that is far better and larger.
    #[test]
    fn a_near_miss_is_followed_by_a_near_mix() {
        let choices = |tensor: u64| {
            // Sizes in thirds, so that there are many levels.
            let (size, kl) = (1 + tensor % 3, 1e-4 * ((tensor * 7919) % 97 + 3) as f64);
            let choice = |bytes: u64, part: f64| Choice { bytes: bytes * size, kl: kl * part };
            vec![choice(144, 1.0), choice(176, 0.25), choice(210, 0.06), choice(272, 0.005), choice(512, 0.0)]
        };
        let tensors: Vec<Vec<Choice>> = (0..40).map(choices).collect();
        let frontier = Frontier::new(&tensors);
        let levels = frontier.levels();
        for target in [4, 8, 16].map(|part| 1.00005 * levels[levels.len() / part]) {
            let mut measured = Vec::new();
            let found = to_target(&frontier, target, |mix| {
                // The first is too far by less than what lies between the target and its estimate.
                let kl = 1.00008 * frontier.kl(mix);
                measured.push(kl);
                Ok::<_, Infallible>((kl, kl))
            });
            assert!(matches!(found, Ok(Found::Mix(_, kl)) if kl <= target));
            assert!(measured.iter().all(|kl| *kl > 0.9 * target), "{measured:?} for {target}");
        }
    }

    #[test]
    fn extreme_targets_give_the_smallest_mix_or_the_least_divergence() {
        let (found, _) = search(1.0, |kl| kl);
        assert!(matches!(found, Found::Mix(mix, _) if mix == vec![0; 10]));
        let (found, measured) = search(1e-3, |kl| kl + 2e-3);
        assert_eq!(found, Found::Least(2e-3));
        assert!(measured <= ROUNDS + 1, "{measured}");
    }
}
