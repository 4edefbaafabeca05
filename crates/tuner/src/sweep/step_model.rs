//! A model of the time of a megakernel step: the sum of its kernels' times alone, each times a factor for running
//! inside the step. The factor is a product of effects: of the variant and of each choice of its tunables, at all op
//! instances and at this one, and a smaller specific effect. Whole steps are the observations.

use rand_xoshiro::SplitMix64;
use std::collections::BTreeMap;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_measure::stats::linear::{Beliefs, Row, dot};

/// Nanoseconds from one phase to the next, before anything was seen.
pub(super) const BOUNDARY: f64 = 1000.0;

/// How much less is known of what a boundary takes than of what a choice is worth.
const UNSURE: f64 = 15.0;

/// The effect of a kernel as such beside that of one of its choices.
const OWN: f64 = 0.5;

/// What a variant and its tunables are worth wherever they are, beside what they are worth at an op instance. A kernel
/// that fills a device with its own workgroups is half as fast in a step, which has one for each multiprocessor, and at
/// all op instances alike.
const ANYWHERE: f64 = 2.0;

/// A step as a sum: boundaries between phases, and for each kernel nanoseconds alone and the effects on them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) boundaries: f64,
    pub(super) kernels: Vec<(f64, Row)>,
}

/// What is known of megakernels.
pub(super) struct StepModel {
    names: BTreeMap<String, usize>,
    /// Nanoseconds of a step that are no kernel's.
    rest: f64,
    seen: Vec<([Parts; 2], f64)>,
    beliefs: Beliefs,
    mean: Vec<f64>,
}

impl StepModel {
    /// Before any step was seen.
    pub(super) fn new() -> Self {
        let names = BTreeMap::from([("boundary".to_owned(), 0)]);
        let beliefs = Beliefs::of(Vec::new(), Vec::new());
        StepModel { names, rest: 0.0, seen: Vec::new(), beliefs, mean: Vec::new() }
    }

    /// The effects on a kernel.
    pub(super) fn row(&mut self, choice: &Choice) -> Row {
        let TuningKey { op, k, m, up_to_rows, formats: _ } = &choice.key;
        let site = format!("{op} {k} {m} {up_to_rows}");
        let mut own = format!("{site} {}", choice.variant);
        let variant = format!("any {}", choice.variant);
        let mut row = vec![(self.effect(own.clone()), 1.0), (self.effect(variant.clone()), ANYWHERE)];
        for (name, value) in &choice.config {
            row.push((self.effect(format!("{site} {name}={value}")), 1.0));
            row.push((self.effect(format!("{variant} {name}={value}")), ANYWHERE));
            own += &format!(" {name}={value}");
        }
        row.push((self.effect(own + " as such"), OWN));
        row
    }

    fn effect(&mut self, name: String) -> usize {
        let next = self.names.len();
        *self.names.entry(name).or_insert(next)
    }

    /// That a step was so many times as fast as another one, which took so long.
    pub(super) fn see(&mut self, steps: [Parts; 2], log_ratio: f64, other_ns: f64) {
        if self.seen.is_empty() {
            self.rest = (other_ns - ns(&steps[0], 0.0, &self.likeliest())).max(0.0);
        }
        self.seen.push((steps, log_ratio));
    }

    /// Learns from all that was seen: effects are small, so that steps are linear in them around what is likeliest.
    pub(super) fn learn(&mut self) {
        for _ in 0..2 {
            let at = self.likeliest();
            let (mut rows, mut left) = (Vec::new(), Vec::new());
            for ([a, b], log_ratio) in &self.seen {
                let mut row = self.slope(a, &at, 1.0);
                row.extend(self.slope(b, &at, -1.0));
                left.push(log_ratio - self.gain([a, b], &at) + dot(&row, &at));
                rows.push(row);
            }
            self.beliefs = Beliefs::of(rows, left);
            self.mean = self.beliefs.mean(self.names.len());
        }
    }

    /// The likeliest effects.
    pub(super) fn likeliest(&self) -> Vec<f64> {
        let mut mean = self.mean.clone();
        mean.resize(self.names.len(), 0.0);
        mean
    }

    /// Effects that may well be so.
    pub(super) fn draw(&self, rng: &mut SplitMix64) -> Vec<f64> {
        self.beliefs.draw(self.names.len(), rng)
    }

    /// How many times as fast the second step is, as a logarithm.
    pub(super) fn gain(&self, [a, b]: [&Parts; 2], effects: &[f64]) -> f64 {
        (ns(a, self.rest, effects) / ns(b, self.rest, effects)).ln()
    }

    /// What the logarithm of a step's time changes by with each effect, that many times.
    fn slope(&self, parts: &Parts, at: &[f64], times: f64) -> Row {
        let per = times / ns(parts, self.rest, at);
        let mut slope = vec![(0, per * parts.boundaries * BOUNDARY * UNSURE)];
        for (ns, row) in &parts.kernels {
            let own = per * ns * dot(row, at).exp();
            slope.extend(row.iter().map(|(i, x)| (*i, own * x)));
        }
        slope
    }
}

/// What a boundary takes.
pub(super) fn boundary_ns(effects: &[f64]) -> f64 {
    BOUNDARY * (1.0 + UNSURE * effects.first().copied().unwrap_or(0.0))
}

fn ns(parts: &Parts, rest: f64, effects: &[f64]) -> f64 {
    let kernels: f64 = parts.kernels.iter().map(|(ns, row)| ns * dot(row, effects).exp()).sum();
    (rest + parts.boundaries * boundary_ns(effects) + kernels).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;
    use wgoose_measure::stats::rng::{below, unit};

    fn choice(op: &str, width: usize, rows: usize) -> Choice {
        let key = TuningKey { op: op.to_owned(), k: 1, m: 1, formats: Vec::new(), up_to_rows: 1 };
        let config = [("WG", width), ("ROWS", rows)].map(|(name, n)| (name.to_owned(), n.to_string())).into();
        Choice { key, variant: "v".to_owned(), config, source: String::new() }
    }

    #[test]
    fn the_model_finds_the_fastest_step_from_whole_steps() {
        let mut model = StepModel::new();
        let mut rng = SplitMix64::seed_from_u64(2);
        // Two kinds of kernels, as fast alone whatever is chosen; in a step one choice of each is worth 5 %.
        let worth = |choice: &Choice| if choice.config["ROWS"] == "2" { 0.95 } else { 1.0 };
        let step = |model: &mut StepModel, chosen: [usize; 4]| {
            let choices = [choice("a", chosen[0], chosen[1]), choice("b", chosen[2], chosen[3])];
            let truth: f64 = 1e5 + 4e5 * choices.iter().map(worth).sum::<f64>();
            let kernels = choices.iter().map(|choice| (4e5, model.row(choice))).collect();
            (Parts { boundaries: 50.0, kernels }, truth)
        };
        let (reference, reference_ns) = step(&mut model, [0; 4]);
        for _ in 0..40 {
            let (other, ns) = step(&mut model, [(); 4].map(|()| below(&mut rng, 4)));
            let noise = 0.006 * (unit(&mut rng) - 0.5);
            model.see([reference.clone(), other], (reference_ns / ns).ln() + noise, reference_ns);
        }
        model.learn();
        let (best, best_ns) = step(&mut model, [3, 2, 1, 2]);
        let gain = model.gain([&reference, &best], &model.likeliest());
        assert!((gain - (reference_ns / best_ns).ln()).abs() < 0.005, "{gain}");
        // What a variant is worth at one op instance it is worth at others, unless they show otherwise.
        let mut model = StepModel::new();
        let mut step = |a: &str, b: &str| {
            let of = |op, variant: &str| Choice { variant: variant.to_owned(), ..choice(op, 0, 0) };
            let kernels = [of("a", a), of("b", b)].map(|choice| (5e5, model.row(&choice)));
            Parts { boundaries: 50.0, kernels: kernels.into() }
        };
        let [own, a, b] = [("own", "own"), ("other", "own"), ("own", "other")].map(|(a, b)| step(a, b));
        model.see([own.clone(), a], -0.4, 1e6);
        model.learn();
        assert!(model.gain([&own, &b], &model.likeliest()) < -0.1);
    }

    #[test]
    fn an_unseen_choice_may_gain_or_lose() {
        let mut model = StepModel::new();
        let mut rng = SplitMix64::seed_from_u64(2);
        let step = |model: &mut StepModel, chosen: [usize; 2]| {
            let kernels = vec![(4e5, model.row(&choice("a", chosen[0], chosen[1])))];
            Parts { boundaries: 50.0, kernels }
        };
        let [reference, other] = [[0, 0], [1, 1]].map(|chosen| step(&mut model, chosen));
        model.see([reference.clone(), other], 0.01, 5e5);
        model.learn();
        let unseen = step(&mut model, [0, 7]);
        let draws: Vec<f64> = (0..20).map(|_| model.gain([&reference, &unseen], &model.draw(&mut rng))).collect();
        assert!(draws.iter().any(|gain| *gain > 0.002) && draws.iter().any(|gain| *gain < -0.002), "{draws:?}");
    }
}
