//! Moves: changes of how one scenario runs, each made and judged alone.

mod fitting;
mod keep;
mod kernels;
mod make;
mod possible;
mod sites;

pub(in crate::sweep) use fitting::{LEAST, most_promising};
pub(in crate::sweep) use make::make;
pub(in crate::sweep) use possible::{all_moves, guess_fusions};

use crate::sweep::Candidate;
use crate::sweep::changes::Change;
use crate::sweep::task::Task;
use wgoose_kernels::Plan;
use wgoose_measure::scenario::Scenario;

/// The best plan until now.
pub(in crate::sweep) struct Peak {
    /// The best by comparisons.
    pub(in crate::sweep) best: Plan,
    /// The best that passed the gate.
    pub(in crate::sweep) right: Plan,
}

impl Peak {
    /// Before any move was made.
    pub(in crate::sweep) fn of(plan: Plan) -> Self {
        Peak { right: plan.clone(), best: plan }
    }
}

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
    scenario: Scenario,
    /// The logarithm of how many times as fast the scenario may become.
    pub(in crate::sweep) gain: f64,
}

impl Move {
    /// What it is called.
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

    /// A plan with what it changes, but for kernels.
    fn changed(&self, task: Task<'_>, plan: &Plan) -> Plan {
        match &self.what {
            What::Kernels => plan.clone(),
            What::Change(change) => {
                let mut plan = plan.clone();
                (change.apply)(&mut plan);
                plan
            }
            What::Known(known) => with_structure_of(task, plan, known),
        }
    }
}

/// A plan with the layouts of another one, as far as there are such, and its fusions of decode.
fn with_structure_of(task: Task<'_>, plan: &Plan, other: &Plan) -> Plan {
    let (layouts, bindable) = (task.problem.layouts(), task.bindable_fusions());
    let mut plan = plan.clone();
    plan.interleave.extend(other.interleave.intersection(&layouts.interleaved));
    plan.k_major.extend(other.k_major.intersection(&layouts.k_major));
    plan.fusions.decode = other.fusions.decode.intersection(&bindable).copied().collect();
    plan
}
