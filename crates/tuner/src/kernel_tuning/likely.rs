//! Which configurations are likely to be fast, by those that were timed: the logarithm of a kernel's time is a sum of
//! effects, one of its variant, one of each choice of its tunables, and a smaller one of each two of them.

use rand_xoshiro::SplitMix64;
use std::collections::BTreeMap;
use wgoose_measure::space::Configuration;
use wgoose_measure::stats::linear::{Beliefs, Row, dot};

/// How large the effects of a variant are, of a choice, and of two choices together, beside those that [`Beliefs`] has
/// in mind.
const SIZES: [f64; 3] = [8.0, 4.0, 2.0];

/// Kernels that are learned from, the fastest: what many more say takes longer than to time one.
const LEARNED: usize = 128;

/// Kernels that take so many times as long as the fastest, as a logarithm, are slow: by how much says nothing of the
/// fast ones.
const SLOW: f64 = 1.0;

/// An effect: of the variant of a number, and of two tunables with their choices, of one of them or of none.
type Effect = (usize, Option<(usize, u8)>, Option<(usize, u8)>);

/// The numbers of variants and of effects.
#[derive(Default)]
struct Names {
    variants: Vec<String>,
    effects: BTreeMap<Effect, usize>,
}

/// What the kernels of one kind of op instance are like.
pub(super) struct Likely {
    effects: usize,
    rows: Vec<(usize, Row)>,
    beliefs: Beliefs,
}

impl Likely {
    /// By what those took that were timed, in nanoseconds; `open` are those that may be timed, with their numbers.
    pub(super) fn of<'c>(
        timed: Vec<(&Configuration<'_>, f64)>,
        open: impl Iterator<Item = (usize, &'c Configuration<'c>)>,
    ) -> Self {
        let mut names = Names::default();
        let mut fastest = timed;
        fastest.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        fastest.truncate(LEARNED);
        let of_number = |n: usize| fastest.get(n).map_or(0.0, |(_, ns)| ns.ln());
        let (least, middle) = (of_number(0), of_number(fastest.len() / 2));
        let seen = |ns: f64| ns.ln().min(least + SLOW) - middle.min(least + SLOW);
        let (seen, learned) = fastest.iter().map(|(timed, ns)| (seen(*ns), names.row(timed))).unzip();
        let rows = open.map(|(i, open)| (i, names.row(open))).collect();
        Likely { effects: names.effects.len(), rows, beliefs: Beliefs::of(learned, seen) }
    }

    /// So many of them: half are the likeliest to be fast, half are drawn as likely as they are.
    pub(super) fn take(mut self, count: usize, rng: &mut SplitMix64) -> Vec<usize> {
        let mut taken = Vec::new();
        let mean = self.beliefs.mean(self.effects);
        for n in 0..count {
            let drawn = (n % 2 == 1).then(|| self.beliefs.draw(self.effects, rng));
            let effects = drawn.as_ref().unwrap_or(&mean);
            let took = |row: &Row| dot(row, effects);
            let least = self.rows.iter().map(|(_, row)| took(row)).enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
            let Some((at, _)) = least else { break };
            taken.push(self.rows.swap_remove(at).0);
        }
        taken
    }
}

impl Names {
    /// The effects on a kernel.
    fn row(&mut self, configuration: &Configuration<'_>) -> Row {
        let (path, choices) = (configuration.variant.path(), configuration.config.choices());
        let variant = self.variants.iter().position(|known| **known == **path).unwrap_or_else(|| {
            self.variants.push(path.to_string());
            self.variants.len() - 1
        });
        let mut effect = |name: Effect, size: f64| {
            let next = self.effects.len();
            (*self.effects.entry(name).or_insert(next), size)
        };
        let [of_variant, of_choice, of_two] = SIZES;
        let mut row = vec![effect((variant, None, None), of_variant)];
        for (i, choice) in choices.iter().copied().enumerate() {
            row.push(effect((variant, Some((i, choice)), None), of_choice));
            for (j, other) in choices[..i].iter().copied().enumerate() {
                row.push(effect((variant, Some((i, choice)), Some((j, other))), of_two));
            }
        }
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;
    use std::collections::BTreeSet;
    use wgoose_graph::{Format, ModelShape};
    use wgoose_kernels::{Feature, Limits, Plan, Precision};
    use wgoose_measure::scenario::Scenario;
    use wgoose_measure::space::{Scope, configurations, groups};
    use wgoose_measure::stats::rng::{below, unit};
    use wgoose_plans::catalogue;

    #[test]
    fn a_few_timed_kernels_predict_the_fastest() {
        let shape = ModelShape::preset("0.1B").unwrap();
        let groups = groups(&shape, Scenario::DECODE, &Plan::default_fusions(false).decode, &|_| Format::F16);
        let head = groups.iter().find(|group| group.key.m == 65536).unwrap();
        let features = [Feature::Subgroups, Feature::F16].into();
        let limits = Limits { workgroup_threads: 1024, features, min_subgroup: 32, ..Limits::webgpu() };
        let (catalogue, scope) = (catalogue::embedded(), Scope { allowed: Precision::F16, exhaustive: false });
        let (all, _) = configurations(head, &limits, scope, &catalogue);
        let mut open: Vec<usize> = (0..all.len()).filter(|i| all[*i].refusal.is_none()).collect();
        let mut rng = SplitMix64::seed_from_u64(3);
        // Choices that are worth something each, and something else in pairs.
        let (mut worth, mut names) = (BTreeMap::new(), Names::default());
        let mut ns = |i: usize, rng: &mut SplitMix64| {
            let row = names.row(&all[i]).into_iter();
            let each = row.map(|(effect, size)| *worth.entry(effect).or_insert_with(|| unit(rng)) * size);
            1e4 * (0.05 * each.sum::<f64>()).exp()
        };
        let truth: BTreeMap<usize, f64> = open.iter().map(|i| (*i, ns(*i, &mut rng))).collect();
        let timed: BTreeSet<usize> = (0..60).map(|_| open[below(&mut rng, open.len())]).collect();
        let timed: Vec<(usize, f64)> = timed.into_iter().map(|i| (i, truth[&i])).collect();
        open.retain(|i| timed.iter().all(|(known, _)| known != i));
        let timed = timed.into_iter().map(|(i, ns)| (&all[i], ns)).collect();
        let taken = Likely::of(timed, open.iter().map(|i| (*i, &all[*i]))).take(12, &mut rng);
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 12, "each once");
        let mut ranked = open;
        ranked.sort_by(|a, b| truth[a].total_cmp(&truth[b]));
        let places: Vec<usize> = taken.iter().map(|i| ranked.iter().position(|other| other == i).unwrap()).collect();
        let is_near = places.iter().all(|place| *place < ranked.len() / 4) && places.iter().any(|place| *place < 8);
        assert!(is_near, "{places:?} of {}", ranked.len());
    }
}
