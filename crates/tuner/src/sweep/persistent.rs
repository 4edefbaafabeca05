//! Kernels that can be stages of a persistent step, as a chain of dispatches and merged.

use super::{Event, Sweep, SweepError, shares};
use crate::race::Step;
use crate::screen::{Screen, StageForm};
use crate::space::{SiteGroup, groups};
use std::time::{Duration, Instant};
use wgoose_graph::Weight;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::{Choice, bindable_fusions};
use wgoose_runtime::PersistentForm;

/// Widths of workgroups that are tried: those that dealt kernels have.
const THREADS: [u32; 3] = [640, 512, 256];

/// Numbers of workgroups that are tried, the most first: those that dealt kernels are dealt to, and parts of them for
/// smaller devices.
const WORKGROUPS: [u32; 8] = [528, 264, 132, 66, 33, 22, 12, 6];

impl Sweep<'_> {
    /// Fuses all that can be fused in decode, finds kernels that can be stages, and lets the chain of them and then the
    /// persistent step challenge the plan.
    pub(super) fn persistent(&mut self, screen: &Screen<'_>, plan: &mut Plan) -> Result<(), SweepError> {
        (self.listen)(Event::Stage("persistent step", THREADS.len()));
        let deadline = Instant::now() + self.share(shares::PERSISTENT);
        let share = self.share(shares::PERSISTENT) / THREADS.len() as u32;
        let mut fused = plan.clone();
        fused.fusions.decode.append(&mut bindable_fusions(self.model.shape(), self.device.limits()));
        let format = |w: Weight| fused.format_on_gpu(w, self.model.tensor(w).format());
        let mut sites = groups(self.model.shape(), Step::DECODE, &fused.fusions.decode, &format);
        sites.retain(|group| group.in_layers);
        for threads in THREADS {
            if Instant::now() >= deadline {
                (self.listen)(Event::Notice(format!("out of time, not tried: stages of {threads} invocations")));
                continue;
            }
            match self.stages(screen, &fused, &sites, (threads, share))? {
                Ok(merged) => self.race_forms(plan, merged, threads, share.mul_f64(0.1))?,
                Err(why) => (self.listen)(Event::Done(format!("stages of {threads} invocations: none ({why})"))),
            }
        }
        Ok(())
    }

    /// A plan for a persistent step of the best stages, and of as many workgroups as run at once; or why there is none.
    fn stages(
        &mut self,
        screen: &Screen<'_>,
        fused: &Plan,
        sites: &[SiteGroup],
        (threads, share): (u32, Duration),
    ) -> Result<Result<Plan, String>, SweepError> {
        // What plays a GPU runs as many workgroups at once as it has threads.
        let all: &[u32] = if self.device.is_cpu() { &[1] } else { &WORKGROUPS };
        let (begun, mut refusal) = (Instant::now(), String::new());
        for workgroups in all.iter().copied() {
            let form = StageForm { workgroups, threads };
            let plan = |choices| Plan { persistent: Some(workgroups), ..with(fused, choices) };
            let mut any = Vec::new();
            for group in sites {
                any.extend(screen.any_stage(group, &mut self.journal, form)?);
            }
            if let PersistentForm::Refused(why) = self.track.form(&plan(any))? {
                refusal = why;
                continue;
            }
            let mut best = Vec::new();
            for (i, group) in sites.iter().enumerate() {
                let deadline = begun + share.mul_f64(0.6 * (i + 1) as f64 / sites.len() as f64);
                best.extend(screen.best_stage(group, &mut self.journal, form, deadline)?);
            }
            // Others may need more registers.
            match self.track.form(&plan(best.clone()))? {
                PersistentForm::Runs { .. } => return Ok(Ok(plan(best))),
                PersistentForm::Refused(why) => refusal = why,
            }
        }
        Ok(Err(refusal))
    }

    /// Lets the stages challenge a plan, as a chain of dispatches and merged.
    fn race_forms(
        &mut self,
        plan: &mut Plan,
        merged: Plan,
        threads: u32,
        allowance: Duration,
    ) -> Result<(), SweepError> {
        let chain = Plan { persistent: None, ..merged.clone() };
        let what = format!("stages of {threads} invocations");
        // The fusions of decode are those of sequences together too.
        let mut steps = vec![Step::DECODE];
        steps.extend(self.options.sequences.map(Step::batch));
        if chain.hash() != plan.hash() {
            self.challenge(plan, chain, &steps, allowance, &format!("{what}, as a chain"))?;
        }
        let workgroups = merged.persistent.unwrap_or_default();
        let what = format!("{what}, {workgroups} workgroups as a persistent step");
        self.challenge(plan, merged, &steps, allowance, &what)
    }
}

/// A plan with other choices at some sites.
fn with(plan: &Plan, choices: Vec<Choice>) -> Plan {
    let mut plan = plan.clone();
    plan.choices.retain(|choice| choices.iter().all(|other| other.site != choice.site));
    plan.choices.extend(choices);
    plan
}
