//! The mixes that no other beats: for every size the least divergence, for every divergence the fewest bytes.
//!
//! Divergences of single tensors are taken to add up (each is small, and errors of different tensors are next to
//! independent; what a whole mix has is measured afterwards). Choosing one format for each tensor is then the multiple-choice
//! knapsack problem, solved exactly by dynamic programming over bytes: sizes of a model's tensors have a large common
//! divisor, so that there are few sums.

/// A format that a tensor can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    /// Bytes of the tensor in it.
    pub(super) bytes: u64,
    /// What the tensor adds to the divergence, at least 0.
    pub(super) kl: f64,
}

/// Most sums of bytes that are told apart; beyond, sizes are rounded up.
const SUMS: u64 = 1 << 17;

/// One choice for each tensor, by its index.
pub(super) type Mix = Vec<usize>;

/// The best mixes of a table: for each tensor, its choices.
pub(super) struct Frontier<'a> {
    tensors: &'a [Vec<Choice>],
    /// Bytes of the smallest mix.
    smallest: u64,
    /// Bytes between two sums.
    unit: u64,
    /// Least divergence at most so many units above the smallest; never rises.
    best: Vec<f64>,
    /// For each tensor, what it has in the best mix of it and those before it, at most so many units above the smallest.
    taken: Vec<Vec<u8>>,
}

impl<'a> Frontier<'a> {
    /// Of tensors that have at least one choice each, and at most 256.
    pub(super) fn new(tensors: &'a [Vec<Choice>]) -> Self {
        let above = |choices: &[Choice]| {
            let least = choices.iter().map(|c| c.bytes).min().unwrap_or(0);
            choices.iter().map(|c| c.bytes - least).collect::<Vec<u64>>()
        };
        let above: Vec<Vec<u64>> = tensors.iter().map(|choices| above(choices)).collect();
        let smallest = tensors.iter().filter_map(|choices| choices.iter().map(|c| c.bytes).min()).sum();
        let span: u64 = above.iter().filter_map(|bytes| bytes.iter().max()).sum();
        let unit = above.iter().flatten().fold(0, |a, b| gcd(a, *b)).max(span.div_ceil(SUMS)).max(1);
        let largest: u64 = above.iter().filter_map(|bytes| bytes.iter().map(|b| b.div_ceil(unit)).max()).sum();

        let mut best = vec![0.0; largest as usize + 1];
        let mut taken = Vec::with_capacity(tensors.len());
        for (choices, above) in tensors.iter().zip(&above) {
            let mut order: Vec<usize> = (0..choices.len()).collect();
            order.sort_by_key(|choice| above[*choice]);
            let at = |units: usize| {
                let reach = |choice: &usize| {
                    let before = units.checked_sub(above[*choice].div_ceil(unit) as usize)?;
                    Some((best[before] + choices[*choice].kl, *choice))
                };
                // Of equals the smallest.
                let all = order.iter().filter_map(reach);
                all.reduce(|best, next| if next.0 < best.0 { next } else { best }).unwrap_or((f64::INFINITY, 0))
            };
            let (next, own): (Vec<f64>, Vec<u8>) =
                (0..best.len()).map(at).map(|(kl, choice)| (kl, choice as u8)).unzip();
            best = next;
            taken.push(own);
        }
        Frontier { tensors, smallest, unit, best, taken }
    }

    /// Divergence of a mix, if those of its tensors add up.
    pub(super) fn kl(&self, mix: &[usize]) -> f64 {
        self.tensors.iter().zip(mix).fold(0.0, |sum, (choices, choice)| sum + choices[*choice].kl)
    }

    /// The least divergences of all sizes, from the smallest mix's down.
    pub(super) fn levels(&self) -> Vec<f64> {
        let mut levels = self.best.clone();
        levels.dedup();
        levels
    }

    /// The least divergence within so many bytes; `None` below the smallest mix.
    pub(super) fn within(&self, bytes: u64) -> Option<Mix> {
        let units = usize::try_from(bytes.checked_sub(self.smallest)? / self.unit).unwrap_or(usize::MAX);
        Some(self.mix(units.min(self.best.len() - 1)))
    }

    /// The fewest bytes with at most that divergence: no tensor alone can be smaller. `None` below the least.
    pub(super) fn below(&self, kl: f64) -> Option<Mix> {
        let units = self.best.partition_point(|best| *best > kl);
        (units < self.best.len()).then(|| self.lowered(self.mix(units), kl))
    }

    fn mix(&self, mut units: usize) -> Mix {
        let mut mix = vec![0; self.tensors.len()];
        for (tensor, choices) in self.tensors.iter().enumerate().rev() {
            let choice = usize::from(self.taken[tensor][units]);
            let least = choices.iter().map(|c| c.bytes).min().unwrap_or(0);
            mix[tensor] = choice;
            units -= (choices[choice].bytes - least).div_ceil(self.unit) as usize;
        }
        mix
    }

    /// Where sizes were rounded up, tensors may still become smaller: those first that save most.
    fn lowered(&self, mut mix: Mix, kl: f64) -> Mix {
        loop {
            let lower = |(tensor, choices): (usize, &Vec<Choice>)| {
                let now = choices[mix[tensor]].bytes;
                let saving = |choice: usize| now.checked_sub(choices[choice].bytes).filter(|saved| *saved > 0);
                let fits = |choice: usize| {
                    let mut other = mix.clone();
                    other[tensor] = choice;
                    self.kl(&other) <= kl
                };
                (0..choices.len()).filter(|c| fits(*c)).filter_map(|c| Some((saving(c)?, tensor, c))).max()
            };
            match self.tensors.iter().enumerate().filter_map(lower).max() {
                Some((_, tensor, choice)) => mix[tensor] = choice,
                None => return mix,
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choice(bytes: u64, kl: f64) -> Choice {
        Choice { bytes, kl }
    }

    #[test]
    fn an_example_by_hand() {
        // The second tensor is twice as large, and hardly matters.
        let tensors = [vec![choice(10, 4.0), choice(20, 1.0), choice(40, 0.0)], vec![choice(20, 0.5), choice(80, 0.0)]];
        let frontier = Frontier::new(&tensors);
        assert_eq!(frontier.smallest, 30);
        let within = |bytes| frontier.within(bytes);
        assert_eq!((within(29), within(30), within(39)), (None, Some(vec![0, 0]), Some(vec![0, 0])));
        assert_eq!((within(40), within(60), within(u64::MAX)), (Some(vec![1, 0]), Some(vec![2, 0]), Some(vec![2, 1])));
        assert_eq!((frontier.below(1.5), frontier.below(1.49)), (Some(vec![1, 0]), Some(vec![2, 0])));
        assert_eq!((frontier.below(0.0), frontier.below(100.0)), (Some(vec![2, 1]), Some(vec![0, 0])));
        assert_eq!((bytes(&tensors, &[1, 0]), frontier.kl(&[1, 0])), (40, 1.5));
    }

    #[test]
    fn a_larger_and_worse_choice_is_never_taken() {
        let tensors = [vec![choice(10, 3.0), choice(20, 4.0), choice(30, 1.0)]];
        let frontier = Frontier::new(&tensors);
        let taken = |bytes| frontier.within(bytes).unwrap()[0];
        assert_eq!([10, 20, 29, 30].map(taken), [0, 0, 0, 2]);
        assert_eq!(frontier.below(0.5), None);
    }

    fn bytes(tensors: &[Vec<Choice>], mix: &[usize]) -> u64 {
        tensors.iter().zip(mix).map(|(choices, choice)| choices[*choice].bytes).sum()
    }

    /// All mixes, of few tensors.
    fn all(tensors: &[Vec<Choice>]) -> Vec<Mix> {
        tensors.iter().fold(vec![vec![]], |mixes, choices| {
            let longer = |mix: &Mix| (0..choices.len()).map(|c| [&mix[..], &[c]].concat()).collect::<Vec<_>>();
            mixes.iter().flat_map(longer).collect()
        })
    }

    fn table(sizes: std::ops::Range<u64>, scale: u64) -> impl Strategy<Value = Vec<Vec<Choice>>> {
        let choice = (sizes, 0u32..1000).prop_map(move |(b, kl)| choice(b * scale, f64::from(kl) / 64.0));
        prop::collection::vec(prop::collection::vec(choice, 1..4), 1..5)
    }

    proptest! {
        #[test]
        fn the_best_of_all_mixes_is_found(tensors in table(1..40, 32), budget in 0u64..6000, target in 0.0f64..40.0) {
            let frontier = Frontier::new(&tensors);
            let all = all(&tensors);
            let within = all.iter().filter(|mix| bytes(&tensors, mix) <= budget).map(|mix| frontier.kl(mix));
            let least = within.reduce(f64::min);
            prop_assert_eq!(frontier.within(budget).map(|mix| frontier.kl(&mix)), least);
            let below = all.iter().filter(|mix| frontier.kl(mix) <= target).map(|mix| bytes(&tensors, mix)).min();
            prop_assert_eq!(frontier.below(target).map(|mix| bytes(&tensors, &mix)), below);
        }

        /// Sizes without a common divisor, and so many bytes that they are rounded up.
        #[test]
        fn rounded_sizes_keep_every_promise(
            tensors in table(1..400_003, 1),
            mut budgets in prop::array::uniform2(0u64..2_000_000),
            target in 0.0f64..40.0,
        ) {
            let frontier = Frontier::new(&tensors);
            budgets.sort_unstable();
            let [less, more] = budgets.map(|budget| frontier.within(budget));
            for (mix, budget) in [(&less, budgets[0]), (&more, budgets[1])] {
                prop_assert_eq!(mix.is_none(), budget < frontier.smallest);
                prop_assert!(mix.as_ref().is_none_or(|mix| bytes(&tensors, mix) <= budget), "beyond the budget");
            }
            if let (Some(less), Some(more)) = (less, more) {
                prop_assert!(frontier.kl(&more) <= frontier.kl(&less), "a larger budget is no worse");
            }
            if let Some(mix) = frontier.below(target) {
                prop_assert!(frontier.kl(&mix) <= target);
                for (tensor, choices) in tensors.iter().enumerate() {
                    for (choice, _) in choices.iter().enumerate().filter(|(_, c)| c.bytes < choices[mix[tensor]].bytes) {
                        let mut lower = mix.clone();
                        lower[tensor] = choice;
                        prop_assert!(frontier.kl(&lower) > target, "tensor {} could be smaller", tensor);
                    }
                }
            }
        }
    }
}
