//! Kernels that can be stages of a persistent step, as a chain of dispatches and merged.

use super::{Event, Sweep, SweepError, shares};
use crate::race::Step;
use crate::screen::{Screen, StageForm};
use crate::space::{SiteGroup, groups};
use std::cmp::Reverse;
use std::time::{Duration, Instant};
use wgoose_graph::Weight;
use wgoose_kernels::Plan;
use wgoose_kernels::persistent::NEEDS;
use wgoose_kernels::plan::{Choice, bindable_fusions};
use wgoose_runtime::PersistentForm;
use wgoose_runtime::lab::roofline::resident_invocations;

/// Widths of workgroups that are tried: those that dealt kernels have.
const THREADS: [u32; 3] = [640, 512, 256];

/// Numbers of workgroups that are tried, the most first: those that dealt kernels are dealt to, and parts of them for
/// smaller devices.
const WORKGROUPS: [u32; 8] = [528, 264, 132, 66, 33, 22, 12, 6];

/// Invocations that a multiprocessor keeps at once, at least. Stages leave its registers to one workgroup: with more
/// workgroups than multiprocessors not all of them run, which takes a compiled step of many layers to find out.
const OF_MULTIPROCESSOR: u32 = 1024;

/// How many workgroups run at once.
struct Counts {
    /// No more than so many.
    most: u32,
    /// Whether so many did.
    is_known: bool,
}

impl Sweep<'_> {
    /// Fuses all that can be fused in decode, finds kernels that can be stages, and lets the chain of them and then the
    /// persistent step challenge the plan. Compiling steps of many layers takes seconds, which are not counted.
    pub(super) fn persistent(&mut self, screen: &Screen<'_>, plan: &mut Plan) -> Result<(), SweepError> {
        (self.listen)(Event::Stage("persistent step", THREADS.len()));
        if let Some(missing) = NEEDS.iter().find(|feature| !self.device.limits().features.contains(feature)) {
            (self.listen)(Event::Done(format!("none: the device has no {missing}")));
            return Ok(());
        }
        let share = self.share(shares::PERSISTENT) / THREADS.len() as u32;
        let mut fused = plan.clone();
        fused.fusions.decode.append(&mut bindable_fusions(self.model.shape(), self.device.limits()));
        let format = |w: Weight| fused.format_on_gpu(w, self.model.tensor(w).format());
        let mut sites = groups(self.model.shape(), Step::DECODE, &fused.fusions.decode, &format);
        sites.retain(|group| group.in_layers);
        sites.sort_by_key(|group| Reverse(bytes(group)));
        // What plays a GPU runs as many workgroups at once as it has threads.
        let most = match self.device.is_cpu() {
            true => 1,
            false => resident_invocations(self.device)?.unwrap_or(0).div_ceil(OF_MULTIPROCESSOR),
        };
        let mut counts = Counts { most, is_known: false };
        for threads in THREADS {
            match self.stages(screen, &fused, &sites, (threads, share), &mut counts)? {
                Ok(merged) => self.race_forms(plan, merged, threads, share.mul_f64(0.1))?,
                Err(why) => (self.listen)(Event::Done(format!("stages of {threads} invocations: none ({why})"))),
            }
        }
        Ok(())
    }

    /// A plan for a persistent step of the best stages, of as many workgroups as run at once; or why there is none.
    fn stages(
        &mut self,
        screen: &Screen<'_>,
        fused: &Plan,
        sites: &[SiteGroup],
        (threads, share): (u32, Duration),
        counts: &mut Counts,
    ) -> Result<Result<Plan, String>, SweepError> {
        let all: &[u32] = if self.device.is_cpu() { &[1] } else { &WORKGROUPS };
        let mut refusal = "no workgroup passes a barrier".to_owned();
        // Groups take of the time what they take of a step's bytes.
        let total = sites.iter().map(bytes).sum::<u64>().max(1);
        // All numbers of workgroups share it.
        let mut left = share.mul_f64(0.8);
        let most = counts.most;
        for workgroups in all.iter().copied().filter(|n| *n <= most) {
            let form = StageForm { workgroups, threads };
            // Any stages will do to see whether so many workgroups run at once.
            let tries = if counts.is_known { &[true][..] } else { &[false, true] };
            for in_earnest in tries {
                let time = if *in_earnest { std::mem::take(&mut left) } else { Duration::ZERO };
                let mut best: Vec<Choice> = Vec::new();
                for group in sites {
                    // The first layer's sites lack an operand of the others': what is best there is a good guess here.
                    let like = best.iter().find(|c| c.site.op == group.class.op && c.site.k == group.class.k).cloned();
                    let deadline = Instant::now() + time.mul_f64(bytes(group) as f64 / total as f64);
                    let found = screen.best_stage(group, &mut self.journal, form, (like.as_ref(), deadline))?;
                    best.extend(found);
                }
                let plan = Plan { persistent: Some(workgroups), ..with(fused, best) };
                match self.track.form(&plan)? {
                    PersistentForm::Runs { .. } if *in_earnest => return Ok(Ok(plan)),
                    PersistentForm::Runs { .. } => *counts = Counts { most: workgroups, is_known: true },
                    PersistentForm::Refused(why) => {
                        refusal = why;
                        break;
                    }
                }
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
        if chain.hash() != plan.hash() {
            self.challenge(plan, chain, &[Step::DECODE], allowance, &format!("{what}, as a chain"))?;
        }
        let workgroups = merged.persistent.unwrap_or_default();
        let what = format!("{what}, {workgroups} workgroups as a persistent step");
        self.challenge(plan, merged, &[Step::DECODE], allowance, &what)
    }
}

/// What a step reads and writes at such sites.
fn bytes(group: &SiteGroup) -> u64 {
    u64::from(group.count) * group.site.bytes()
}

/// A plan with other choices at some sites.
fn with(plan: &Plan, choices: Vec<Choice>) -> Plan {
    let mut plan = plan.clone();
    plan.choices.retain(|choice| choices.iter().all(|other| other.site != choice.site));
    plan.choices.extend(choices);
    plan
}
