//! The time that a move takes, and whether it fits into the time left.

use crate::sweep::stages::moves::possible::{Move, What};
use crate::sweep::strategies::incremental::Climb;
use crate::sweep::{Part, share_of, working};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// A move that may gain less is not worth a comparison: it cannot be told from noise.
pub(in crate::sweep) const LEAST: f64 = 0.01;

/// Kernels of each kind of op instance that a move tries, about.
const KERNELS_EACH: f64 = 8.0;

/// The same where little time is left.
const FEWEST_EACH: f64 = 2.0;

/// The share of the budget that a move may spend on kernels, at the most.
const TUNING: f64 = 0.2;

/// A comparison or a gate that takes no more than this share of the budget is made after every win.
const CHEAP: f64 = 0.04;

impl Climb<'_, '_, '_> {
    /// How much a scenario counts, 0 to 1.
    fn weight(&self, scenario: Scenario) -> f64 {
        let shares = self.sweep.options.objective.shares();
        shares.filter(|(other, _)| *other == scenario).map(|(_, share)| share).sum()
    }

    /// Seconds until the best plan must be looked at for the last time.
    pub(in crate::sweep) fn left(&self) -> f64 {
        let sweep = &*self.sweep;
        let budget = working(sweep.options.budget);
        // What is confirmed is compared once more, in a fresh process.
        let changed = sweep.options.objective.scenarios().into_iter();
        let changed = changed.filter(|scenario| !sweep.problem.run_alike([&sweep.default, &self.best], *scenario));
        let start = sweep.cache.start().unwrap_or_default().as_secs_f64();
        let confirming = changed.map(|scenario| sweep.comparison(scenario)).sum::<f64>() + start;
        let is_open = self.best.hash() != self.right.hash();
        let open = [(!sweep.gated).then_some(&sweep.default), is_open.then_some(&self.best)];
        let gate = |plan| sweep.gate_seconds(sweep.looks_at_decode_only(plan));
        let gates: f64 = open.into_iter().flatten().map(gate).sum();
        budget.saturating_sub(sweep.cache.spent()).as_secs_f64() - confirming - gates
    }

    /// The moves that are worth their time: which, what each gains in a second, and how long it spends on kernels.
    pub(in crate::sweep) fn fitting(&self, left: f64) -> Vec<(usize, f64, f64)> {
        let mut fitting = Vec::new();
        for (i, made) in self.moves.iter().enumerate().filter(|(_, made)| made.gain > LEAST) {
            let fixed = self.comparing(made);
            let [least, usual] = self.tuning(made);
            let tuning = usual.min(left - fixed);
            if tuning >= least {
                let mut weight = self.weight(made.scenario);
                if made.is_of_kernels() {
                    weight += self.others(made).into_iter().map(|other| self.weight(other)).sum::<f64>();
                }
                fitting.push((i, made.gain * weight / (fixed + tuning), tuning));
            }
        }
        fitting
    }

    /// Seconds of a move's comparisons: with the best plan and the default, and in a fresh process; and of the gate.
    fn comparing(&self, made: &Move) -> f64 {
        let sweep = &*self.sweep;
        let changed = self.changed(made);
        let others: f64 = self.others(made).into_iter().map(|other| sweep.comparison(other)).sum();
        let only_decode = made.scenario == Scenario::DECODE && sweep.looks_at_decode_only(&changed);
        let times = if self.is_compared_twice(made.scenario) { 3.0 } else { 2.0 };
        // One gate is taken in the end, of whatever has won.
        let has_won = self.best.hash() != self.right.hash();
        let is_taken = self.is_gated_at_once(only_decode) || !has_won;
        let gate = if is_taken { sweep.gate_seconds(only_decode) } else { 0.0 };
        times * sweep.comparison(made.scenario) + 2.0 * others + gate
    }

    /// The other scenarios that a move changes.
    fn others(&self, made: &Move) -> Vec<Scenario> {
        let all = self.sweep.options.objective.scenarios().into_iter().filter(|other| *other != made.scenario);
        match &made.what {
            // Other prompts are read by the same kernels: those that fill the same chunk, or longer ones.
            What::Kernels => {
                let changed = self.sites(&self.best, made.scenario);
                let is_one = |site: &InstanceGroup| changed.iter().any(|changed| changed.key == site.key);
                all.filter(|other| self.sites(&self.best, *other).iter().any(is_one)).collect()
            }
            What::Change(change) => {
                let changed = self.changed(made);
                let differ = |other: &Scenario| !self.sweep.problem.run_alike([&self.best, &changed], *other);
                all.filter(|other| change.scenarios.contains(other)).filter(differ).collect()
            }
            What::Known(_) => Vec::new(),
        }
    }

    /// Seconds that a move spends on kernels: at the least, and where there is time.
    fn tuning(&self, made: &Move) -> [f64; 2] {
        if !self.sweep.options.parts.contains(&Part::Kernels) {
            return [0.0; 2];
        }
        let each = self.sweep.cache.kernel_seconds();
        let sites = match &made.what {
            What::Kernels => self.sites(&self.best, made.scenario).len(),
            What::Change(_) => self.new_sites(&self.changed(made), made.scenario).len(),
            // Of each the default and the known kernel.
            What::Known(_) => return [2.0 * each * self.sites(&self.changed(made), made.scenario).len() as f64; 2],
        };
        let most = share_of(working(self.sweep.options.budget), TUNING).as_secs_f64();
        [FEWEST_EACH, KERNELS_EACH].map(|kernels| (sites as f64 * kernels * each).min(most))
    }

    /// Whether what wins in a scenario is compared once more before it is confirmed: where that is cheap, or where the
    /// first comparison was not one with the default.
    pub(in crate::sweep) fn is_compared_twice(&self, scenario: Scenario) -> bool {
        let sweep = &*self.sweep;
        let is_cheap = sweep.comparison(scenario) <= CHEAP * working(sweep.options.budget).as_secs_f64();
        is_cheap || !sweep.problem.run_alike([&sweep.default, &self.best], scenario)
    }

    /// Whether a plan that wins now passes the gate at once: the first one, and all where that is cheap. The others do
    /// in the end.
    pub(in crate::sweep) fn is_gated_at_once(&self, only_decode: bool) -> bool {
        let sweep = &*self.sweep;
        let is_cheap = sweep.gate_seconds(only_decode) <= CHEAP * working(sweep.options.budget).as_secs_f64();
        is_cheap || self.right.hash() == sweep.default.hash()
    }
}
