//! A device with a model: kernels alone, and whole plans.

use super::kernels::{KernelRunner, Lap};
use super::plans::{PlanLab, pair};
use super::runs::StepError;
use super::{Assignment, Runner, RunnerError};
use crate::driver::Drive;
use crate::job::{Configured, Cost, Job, PlanId};
use crate::ledger::{Cause, Clock, Outcome};
use crate::quality::{PendingReference, QualityError};
use crate::scenario::Scenario;
use crate::space::{InstanceGroup, groups};
use crate::timer::Purpose;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::Weight;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;
use wgoose_runtime::{Device, GpuExecutor, PersistentStatus};

/// Runs jobs on a device of this process.
pub struct GpuRunner {
    kernels: KernelRunner,
    /// The model with the kernels that the runner was made for, then others that plans may be of.
    subjects: Vec<Subject>,
    /// Which of them a plan is of, where that is not the first.
    of: BTreeMap<PlanId, usize>,
    /// How plans are driven, where that is not the engine's way.
    driven: BTreeMap<PlanId, Drive>,
}

/// A model with kernels, and the plans of them.
struct Subject {
    plans: PlanLab,
    catalogue: Arc<Catalogue>,
}

/// Seed of the operands of kernels: the same in every sweep, so that bits of kernels can be compared after one goes on.
pub const SWEEP_SEED: u64 = 0;

impl GpuRunner {
    /// A runner for a model on a device; all plans share its weights with the default one's. Its clock is tested on the
    /// largest kernel of decoding. Its budget is spent from `begun` on.
    ///
    /// # Errors
    /// The device fails.
    pub fn new(
        device: &Arc<Device>,
        model: &Arc<Model>,
        default: &Plan,
        (catalogue, reference): (&Arc<Catalogue>, PendingReference),
        begun: Instant,
    ) -> Result<Self, RunnerError> {
        let root = GpuExecutor::new(Arc::clone(device), Arc::clone(model), default.clone(), Arc::clone(catalogue), 1)?;
        let format = |w: Weight| default.format_on_gpu(w, model.tensor(w).format());
        let decode = groups(model.shape(), Scenario::DECODE, &default.fusions.decode, &format);
        let largest: Option<&InstanceGroup> = decode.iter().max_by_key(|group| group.instance.bytes());
        let site = largest.ok_or_else(|| RunnerError::Unknown("a model without ops".to_owned()))?;
        let kernels = KernelRunner::new(device, catalogue, site, (begun, SWEEP_SEED))?;
        let subject = Subject { plans: PlanLab::new(root, reference), catalogue: Arc::clone(catalogue) };
        Ok(GpuRunner { kernels, subjects: vec![subject], of: BTreeMap::new(), driven: BTreeMap::new() })
    }

    /// The runner of a process that runs trials ([`serve`](super::serve)): the reference of the model lies in a folder,
    /// or will.
    ///
    /// # Errors
    /// The device fails.
    pub fn of_trials(
        device: &Arc<Device>,
        model: &Arc<Model>,
        catalogue: &Arc<Catalogue>,
        reference: &Path,
        begun: Instant,
    ) -> Result<Self, RunnerError> {
        let default = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
        let reference = PendingReference::filed(model, reference.to_owned());
        GpuRunner::new(device, model, &default, (catalogue, reference), begun)
    }

    /// Also runs these plans, which are of another model or other kernels; `root` holds the weights that they share.
    pub(crate) fn also(
        &mut self,
        ids: impl IntoIterator<Item = PlanId>,
        root: GpuExecutor,
        catalogue: &Arc<Catalogue>,
        reference: PendingReference,
    ) {
        self.of.extend(ids.into_iter().map(|id| (id, self.subjects.len())));
        self.subjects.push(Subject { plans: PlanLab::new(root, reference), catalogue: Arc::clone(catalogue) });
    }

    /// Drives the plan of that name so.
    pub(crate) fn drive(&mut self, id: PlanId, drive: Drive) {
        self.driven.insert(id, drive);
    }

    fn number(&self, id: &PlanId) -> usize {
        self.of.get(id).copied().unwrap_or(0)
    }

    fn subject(&self, id: &PlanId) -> &Subject {
        &self.subjects[self.number(id)]
    }

    fn subject_mut(&mut self, id: &PlanId) -> &mut Subject {
        let number = self.number(id);
        &mut self.subjects[number]
    }

    fn run_plans(&mut self, assignment: Assignment<'_>) -> Result<Outcome, RunnerError> {
        let find = |id: &PlanId| assignment.plans.get(id).ok_or_else(|| RunnerError::Unknown(format!("plan {id}")));
        match assignment.job {
            Job::Gate { plan, only_decode } => {
                let Subject { plans, catalogue } = self.subject_mut(plan);
                Ok(Outcome::Gate(plans.gate(find(plan)?, *only_decode, catalogue, assignment.progress)?))
            }
            Job::ExtendedGate { plan, only_decode } => {
                let Subject { plans, catalogue } = self.subject_mut(plan);
                Ok(Outcome::Gate(plans.extended_gate(find(plan)?, *only_decode, catalogue, assignment.progress)?))
            }
            Job::Resident { plan } => Ok(match self.subject(plan).plans.resident(find(plan)?)? {
                PersistentStatus::Used { .. } => Outcome::Done,
                PersistentStatus::Refused(why) => Outcome::failed(Cause::NotResident, why.to_string()),
            }),
            Job::Prepare { plans } => {
                self.subjects[0].plans.prepare(&plans.iter().map(find).collect::<Result<Vec<_>, _>>()?);
                Ok(Outcome::Done)
            }
            Job::Screen { plans: [a, b], scenario } => {
                let raise = &mut || self.kernels.raise_clocks();
                let plans = [(a, find(a)?), (b, find(b)?)];
                let effort = assignment.effort;
                of_steps(self.subjects[0].plans.screen(plans, *scenario, effort, raise, assignment.progress))
            }
            Job::Confirm { scenario, .. } if scenario.from_start => {
                Err(RunnerError::Unknown("the start of a process".to_owned()))
            }
            Job::Steps { plans: [a, b], scenario, .. } | Job::Confirm { plans: [a, b], scenario, .. } => {
                let arms = [(self.number(a), find(a)?), (self.number(b), find(b)?)];
                let drives = [a, b].map(|id| self.driven.get(id).copied().unwrap_or_default());
                let GpuRunner { kernels, subjects, .. } = self;
                let ready = |arm: usize| subjects[arms[arm].0].plans.runs(arms[arm].1, *scenario, drives[arm]);
                let purpose = match assignment.job {
                    Job::Confirm { .. } => Purpose::Report,
                    _ => Purpose::Choice,
                };
                let asked = (assignment.effort, purpose);
                of_steps(pair(&ready, asked, &mut || kernels.raise_clocks(), assignment.progress))
            }
            Job::Kernel { .. } | Job::Kernels { .. } | Job::Compile { .. } | Job::Control { .. } => {
                Err(RunnerError::Unknown("a kernel as a plan".to_owned()))
            }
        }
    }
}

/// What came of steps: a persistent kernel that did not run is a candidate's failure.
fn of_steps(outcome: Result<Outcome, StepError>) -> Result<Outcome, RunnerError> {
    match outcome {
        Err(StepError::NotPersistent(why)) => Ok(Outcome::failed(Cause::NotResident, why)),
        Err(StepError::Runtime(error)) => Err(error.into()),
        Ok(outcome) => Ok(outcome),
    }
}

impl Runner for GpuRunner {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        if assignment.site.is_some() {
            return self.kernels.run(assignment);
        }
        self.kernels.alive()?;
        let mut lap = Lap::begin();
        let outcome = match self.run_plans(assignment) {
            Err(RunnerError::Runtime(error) | RunnerError::Quality(QualityError::Runtime(error))) => {
                self.kernels.failed(assignment.job, &error)
            }
            outcome => outcome?,
        };
        let seconds = lap.end();
        let cost = match assignment.job {
            Job::Gate { .. } | Job::ExtendedGate { .. } => Cost { check: seconds, ..Cost::default() },
            Job::Resident { .. } | Job::Prepare { .. } => Cost { compile: seconds, ..Cost::default() },
            _ => Cost { timed: seconds, ..Cost::default() },
        };
        Ok((outcome, cost))
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.kernels.compile_ahead(site, kernels)
    }

    fn spent(&self) -> Duration {
        self.kernels.begun().elapsed()
    }

    fn clock(&self) -> Clock {
        self.kernels.clock()
    }

    fn doubt(&self) -> Option<&str> {
        self.kernels.doubt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Plans;
    use crate::paired::Effort;
    use wgoose_graph::{LoraRanks, ModelShape};
    use wgoose_loader::Container;
    use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
    use wgoose_plans::catalogue;

    #[test]
    fn a_comparison_whose_time_is_over_is_broken_off() {
        let folder = tempfile::tempdir().unwrap();
        let ranks = LoraRanks { decay: 16, iclr: 16, value: 16, gate: 16 };
        let shape = ModelShape {
            layers: 1,
            width: 64,
            ffn: 64,
            head_size: 64,
            vocab: 64,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let (container, mix) = (Container::Gguf, Mix::F16);
        let options = SynthOptions { shape, seed: 5, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
        let path = folder.path().join("model.gguf");
        write(&options, &path, &mut unwatched).unwrap();
        let (device, model) = (Device::open(None).unwrap(), Arc::new(Model::open(path).unwrap()));
        let default = Plan::default_for(device.fingerprint().clone(), shape, device.limits());
        let reference = PendingReference::ready(&model, folder.path().to_owned()).unwrap();
        let catalogue = catalogue::embedded();
        let mut runner = GpuRunner::new(&device, &model, &default, (&catalogue, reference), Instant::now()).unwrap();
        let ids = [16, 32].map(|prefill_chunk| Plan { prefill_chunk, ..default.clone() });
        let plans: Plans = ids.clone().into_iter().map(|plan| (PlanId::of(&plan), plan)).collect();
        let ids = ids.map(|plan| PlanId::of(&plan));
        let scenario = Scenario::DECODE;
        let jobs = [Job::Steps { plans: ids.clone(), scenario, held_out: false }, Job::Screen { plans: ids, scenario }];
        for job in &jobs {
            for (most, is_over) in [(Duration::ZERO, true), (Duration::MAX, false)] {
                let effort = Effort { most: Some(most), ..Effort::none() };
                let (outcome, _) =
                    runner.run(Assignment { job, site: None, plans: &plans, effort, progress: &|_| () }).unwrap();
                assert_eq!(outcome == Outcome::Interrupted, is_over, "{job:?}: {outcome:?}");
            }
        }
    }
}
