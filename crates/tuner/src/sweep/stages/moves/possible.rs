//! The moves, and the expected gain of each.

use crate::sweep::changes::{Change, changes};
use crate::sweep::stages::moves::fitting::LEAST;
use crate::sweep::strategies::incremental::Climb;
use crate::sweep::{Candidate, Part, Sweep};
use wgoose_kernels::Plan;
use wgoose_kernels::plan::bindable_fusions;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// What other kernels for a scenario may gain, as a logarithm.
const KERNELS: f64 = 0.2;

/// What a layout of the matrices that a step reads may gain, where it is of all of them.
const LAYOUT: f64 = 0.3;

/// What another chunk may gain.
const CHUNK: f64 = 0.05;

/// What a plan may gain that is known to be fast on a device of this maker.
const KNOWN: f64 = 0.4;

/// What a fusion may gain, beside the time between dispatches.
const FUSION: f64 = 0.02;

/// The part of the time between the dispatches that a fusion leaves out that it may gain: the fused kernel may be
/// slower.
const HOPE: f64 = 0.5;

/// What a move changes.
pub(in crate::sweep) enum What {
    /// Kernels, which are searched for.
    Kernels,
    /// A fusion, a layout or the chunk.
    Change(Change),
    /// All that a plan for another device or model of the same maker decodes with: layouts, fusions and kernels.
    Known(Box<Plan>),
}

/// A change of what a scenario runs.
pub(in crate::sweep) struct Move {
    /// What it changes.
    pub(in crate::sweep) what: What,
    /// What it must speed up.
    pub(in crate::sweep) scenario: Scenario,
    /// The logarithm of how many times as fast the scenario may become.
    pub(in crate::sweep) gain: f64,
}

impl Move {
    pub(in crate::sweep) fn candidate(&self) -> Candidate {
        match &self.what {
            What::Kernels => Candidate::Kernels(self.scenario),
            What::Change(change) => Candidate::Change(change.name.clone()),
            What::Known(plan) => {
                let (device, model) = (&plan.device.adapter, &plan.model);
                Candidate::Change(format!("what {}x{} decodes with on {device}", model.layers, model.width))
            }
        }
    }

    /// Whether kernels are all that it changes.
    pub(in crate::sweep) fn is_of_kernels(&self) -> bool {
        matches!(self.what, What::Kernels)
    }
}

impl Climb<'_, '_, '_> {
    /// All that can be changed.
    pub(in crate::sweep) fn all_moves(&self) -> Vec<Move> {
        let Sweep { problem, options, .. } = &*self.sweep;
        let (objective, parts) = (&options.objective, &options.parts);
        let mut moves = Vec::new();
        if parts.contains(&Part::Kernels) {
            let kernels = |scenario| Move { what: What::Kernels, scenario, gain: KERNELS };
            moves.extend(objective.scenarios().into_iter().map(kernels));
        }
        let known =
            self.known_plan().filter(|_| objective.decodes() && Part::ALL.iter().all(|part| parts.contains(part)));
        moves.extend(known.map(|plan| Move { what: What::Known(plan), scenario: Scenario::DECODE, gain: KNOWN }));
        let fusions = bindable_fusions(&problem.shape, &problem.limits);
        let decided = (&*options.chunks, options.allowed);
        for change in changes(&self.best, &problem.layouts(), &fusions, decided, objective) {
            let (guess, Some(scenario)) = (self.guess(&change), change.scenarios.first().copied()) else { continue };
            if parts.contains(&change.part) {
                moves.push(Move { what: What::Change(change), scenario, gain: guess });
            }
        }
        moves
    }

    /// What fusions of decode may gain, once it is known what a step takes beside its kernels: a fusion that leaves out
    /// dispatches leaves out what lies between them.
    pub(in crate::sweep) fn guess_fusions(&mut self) {
        let samples = self.sweep.cache.samples();
        let Some((step_ns, _)) = samples.get(&Scenario::DECODE).copied() else { return };
        let sites = self.sites(&self.best, Scenario::DECODE);
        let kernels_ns: f64 = sites.iter().map(|site| self.fastest_ns(site) * f64::from(site.count)).sum();
        let dispatches = |sites: &[InstanceGroup]| f64::from(sites.iter().map(|site| site.count).sum::<u32>());
        let all = dispatches(&sites);
        let between = (1.0 - kernels_ns / step_ns).clamp(0.0, 1.0) / all.max(1.0);
        for i in 0..self.moves.len() {
            let Move { what: What::Change(change), scenario: Scenario::DECODE, gain } = &self.moves[i] else {
                continue;
            };
            if change.part == Part::Fusions && *gain > LEAST {
                let mut changed = self.best.clone();
                (change.apply)(&mut changed);
                let saved = all - dispatches(&self.sites(&changed, Scenario::DECODE));
                self.moves[i].gain = (FUSION + HOPE * saved * between).max(LEAST);
            }
        }
    }

    /// Median nanoseconds of the fastest kernel that was timed for an op instance; none where none was.
    fn fastest_ns(&self, site: &InstanceGroup) -> f64 {
        let timed = self.sweep.cache.timed(site).into_iter().map(|(_, ns)| ns);
        timed.min_by(f64::total_cmp).unwrap_or_default()
    }

    /// What a change may gain in its first scenario.
    fn guess(&self, change: &Change) -> f64 {
        match (change.part, change.scenarios.first()) {
            (Part::Layouts, Some(scenario)) => {
                let mut changed = self.best.clone();
                (change.apply)(&mut changed);
                let [before, after] = [&self.best, &changed].map(|plan| self.sites(plan, *scenario));
                let all: u64 = after.iter().map(InstanceGroup::bytes).sum();
                let new = after.iter().filter(|site| before.iter().all(|known| known.key != site.key));
                LAYOUT * new.map(InstanceGroup::bytes).sum::<u64>() as f64 / all.max(1) as f64
            }
            (Part::Chunk, _) => CHUNK,
            _ => FUSION,
        }
    }

    /// Of the plans for devices of this maker the one that has kernels for the most op instances of decode.
    fn known_plan(&self) -> Option<Box<Plan>> {
        let counted = self.sweep.options.hints.iter().filter(|hint| hint.persistent.is_none()).map(|hint| {
            let own = std::slice::from_ref(hint);
            let tuner = self.tuner.with_hints(own);
            let sites = self.sites(&self.with_structure_of(hint), Scenario::DECODE);
            (sites.iter().filter(|site| !tuner.hints_for(&site.key).is_empty()).count(), hint)
        });
        let (sites, plan) = counted.max_by_key(|(sites, _)| *sites)?;
        (sites > 0).then(|| Box::new(plan.clone()))
    }

    /// The best plan with the layouts of another one, as far as there are such, and its fusions of decode.
    pub(in crate::sweep) fn with_structure_of(&self, other: &Plan) -> Plan {
        let Sweep { problem, .. } = &*self.sweep;
        let (layouts, bindable) = (problem.layouts(), bindable_fusions(&problem.shape, &problem.limits));
        let mut plan = self.best.clone();
        plan.interleave.extend(other.interleave.intersection(&layouts.interleaved));
        plan.k_major.extend(other.k_major.intersection(&layouts.k_major));
        plan.fusions.decode = other.fusions.decode.intersection(&bindable).copied().collect();
        plan
    }
}
