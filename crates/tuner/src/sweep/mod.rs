//! The sweep: from a device and a model to a plan.
//!
//! 1. The reference says what is right; the device's default plan must pass the gate.
//! 2. Whole steps decide the layouts of the weights, the prefill chunk and the fusions, with default kernels.
//! 3. Kernels are screened one kind of site at a time, the costliest first, each with a share of the time.
//! 4. Kernels that can be stages are screened for as many workgroups as stay resident; the chain of them, and their
//!    persistent step, race the best so far.
//! 5. The plan made of the winners passes the gate and races the default, in decode and in prefill; where it is not
//!    faster, the default kernels stay.

mod persistent;

use crate::journal::Journal;
use crate::ledger::{Ledger, LedgerError, Notice, Outcome, Subject};
use crate::quality::{QualityError, Reference};
use crate::race::{RaceError, RaceResult, Step, Track};
use crate::screen::{Screen, ScreenError, rotate_bytes};
use crate::space::{SiteGroup, groups};
use crate::stats::drift::{self, Block};
use crate::stats::verdict::Verdict;
use crate::structure::{Layouts, changes, wins};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::Weight;
use wgoose_kernels::plan::{Evidence, Fusions, StepEvidence, bindable_fusions, bucket, default_kernel};
use wgoose_kernels::{Numerics, Plan, PlanError, Sources, ops};
use wgoose_loader::Model;
use wgoose_runtime::lab::{Bench, Case, Clock};
use wgoose_runtime::{Device, GpuExecutor, RuntimeError};

/// How to sweep.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// Where every measurement is kept.
    pub ledger: PathBuf,
    /// Time to spend, roughly.
    pub budget: Duration,
    /// Try every point of the space, whatever the budget.
    pub exhaustive: bool,
    /// Prefill chunks to compare; powers of 4 fill their bucket.
    pub chunks: Vec<u32>,
    /// Sequences that will be decoded together: their passes get kernels of their own.
    pub sequences: Option<u32>,
    /// The kernels' text.
    pub sources: Sources,
    /// The roughest numbers that a kernel may compute with. Int8 activations have a quality gate of their own.
    pub allowed: Numerics,
}

/// What a sweep says while it runs.
#[derive(Clone, Debug)]
pub enum Event {
    /// A new stage, with so many things to do.
    Stage(&'static str, usize),
    /// One of them is done; what came of it.
    Done(String),
    /// Something the user should know.
    Notice(String),
}

/// What stops a sweep.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The device.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The kernels.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The reference.
    #[error(transparent)]
    Quality(#[from] QualityError),
    /// Screening.
    #[error(transparent)]
    Screen(#[from] ScreenError),
    /// A race.
    #[error(transparent)]
    Race(#[from] RaceError),
    /// Chunks or sequences that no pass has.
    #[error("{what} {got}: it must be between {least} and {most}")]
    Size {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        got: u32,
        /// The least that makes sense.
        least: u32,
        /// The most.
        most: u32,
    },
    /// The device computes wrong results whatever is chosen.
    #[error("the default plan fails the quality gate on this device: {0}; nothing is tuned on wrong results")]
    Gate(String),
}

/// A finished sweep.
#[derive(Debug)]
pub struct Swept {
    /// The plan, with its evidence.
    pub plan: Plan,
    /// Experiments measured now.
    pub measured: usize,
    /// Experiments whose results were in the ledger.
    pub recalled: usize,
}

/// Tells the caller what happens.
pub type Listener<'a> = &'a mut dyn FnMut(Event);

/// Runs a sweep.
///
/// # Errors
/// The ledger or the device fails, or nothing right can be run; what was measured until then is in the ledger.
pub fn sweep(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    listen: Listener<'_>,
) -> Result<Swept, SweepError> {
    let asked = options.chunks.iter().map(|n| ("chunk", *n, 1, 4096));
    for (what, got, least, most) in asked.chain(options.sequences.map(|n| ("sequences", n, 2, 1024))) {
        if !(least..=most).contains(&got) {
            return Err(SweepError::Size { what, got, least, most });
        }
    }
    let ledger = Ledger::open(&options.ledger)?;
    for notice in ledger.notices() {
        let what = if matches!(notice, Notice::Torn { .. }) {
            "an interrupted write was set aside"
        } else {
            "a line was skipped"
        };
        listen(Event::Notice(format!("ledger: {what}: {notice}")));
    }
    let mut journal = Journal::new(ledger, device.fingerprint().clone());

    listen(Event::Stage("reference", 1));
    let folder = options.ledger.parent().map(PathBuf::from).unwrap_or_default();
    let reference = Reference::cached(model, &folder)?;
    let fingerprint = model.fingerprint().to_string();
    let default = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let root = GpuExecutor::new(Arc::clone(device), Arc::clone(model), default.clone(), options.sources.clone(), 1)?;
    let track = Track { root: &root, reference: &reference, model: &fingerprint };
    let gate = track.gate(&mut journal, &default)?;
    if !gate.passed {
        return Err(SweepError::Gate(gate.detail));
    }
    listen(Event::Done(format!("quality hash {}: {}", reference.hash(), gate.detail)));

    let mut sweep = Sweep { device, model, options, track, journal, default, listen };
    let structure = sweep.structure()?;
    let mut plan = structure.clone();
    let (clock, canary) = sweep.clock()?;
    let screen = sweep.screen(&clock);
    sweep.kernels(&screen, canary.as_ref(), &mut plan)?;
    let allowed = sweep.drop_rough(&mut plan)?;
    sweep.persistent(&Screen { allowed, ..screen }, &mut plan)?;
    let plan = sweep.confirm(&structure, plan)?;
    Ok(Swept { plan, measured: sweep.journal.measured, recalled: sweep.journal.recalled })
}

/// How long a GPU is kept busy before a kernel is measured: an idle one takes about that long to raise its clocks.
const WARM_UP: Duration = Duration::from_millis(100);

/// What the stages take of the budget.
mod shares {
    pub(super) const STRUCTURE: f64 = 0.25;
    pub(super) const KERNELS: f64 = 0.3;
    pub(super) const PERSISTENT: f64 = 0.3;
    pub(super) const CONFIRM: f64 = 0.15;
}

/// Dispatches in a sample of the canary, and samples before and after screening.
const CANARY_REPEATS: u32 = 8;
const CANARY_SAMPLES: usize = 9;

struct Sweep<'a> {
    device: &'a Arc<Device>,
    model: &'a Arc<Model>,
    options: &'a SweepOptions,
    track: Track<'a>,
    journal: Journal,
    default: Plan,
    listen: Listener<'a>,
}

impl<'a> Sweep<'a> {
    /// The given share of the budget.
    fn share(&self, share: f64) -> Duration {
        self.options.budget.mul_f64(share)
    }

    /// Tokens of the prompt on which chunks are compared.
    fn prompt(&self) -> Step {
        Step::prefill(self.options.chunks.iter().copied().max().unwrap_or(64).max(2))
    }

    /// Layouts, chunk and fusions, by whole steps with default kernels.
    fn structure(&mut self) -> Result<Plan, SweepError> {
        let mut best = self.default.clone();
        let fusions = bindable_fusions(self.model.shape(), self.device.limits());
        let changes = changes(
            &best,
            &Layouts::of(self.model),
            &fusions,
            &self.options.chunks,
            self.prompt(),
            self.options.sequences,
        );
        (self.listen)(Event::Stage("layouts, chunk and fusions", changes.len()));
        let deadline = Instant::now() + self.share(shares::STRUCTURE);
        let steps: usize = changes.iter().map(|c| c.steps.len()).sum();
        let allowance = self.share(shares::STRUCTURE) / (4 * steps.max(1)) as u32;
        let mut untried = Vec::new();
        for change in changes {
            if Instant::now() >= deadline {
                untried.push(change.name);
                continue;
            }
            let mut candidate = best.clone();
            (change.apply)(&mut candidate);
            self.challenge(&mut best, candidate, &change.steps, allowance, &change.name)?;
        }
        if !untried.is_empty() {
            (self.listen)(Event::Notice(format!("out of time, not tried: {}", untried.join(", "))));
        }
        Ok(best)
    }

    /// Lets a candidate take the incumbent's place if it passes the gate and is faster twice in one of the steps, and
    /// slower in none.
    fn challenge(
        &mut self,
        incumbent: &mut Plan,
        candidate: Plan,
        steps: &[Step],
        allowance: Duration,
        what: &str,
    ) -> Result<(), SweepError> {
        let gate = self.track.gate(&mut self.journal, &candidate)?;
        if !gate.passed {
            (self.listen)(Event::Done(format!("{what}: WRONG ({})", gate.detail)));
            return Ok(());
        }
        let pair = [&*incumbent, &candidate];
        let (mut verdicts, mut told) = (Vec::new(), Vec::new());
        for step in steps.iter().copied() {
            let first = self.track.race(&mut self.journal, pair, step, false, allowance)?;
            let mut verdict = first.comparison.verdict;
            if verdict == Verdict::Fast {
                verdict = self.track.race(&mut self.journal, pair, step, true, allowance)?.comparison.verdict;
            }
            verdicts.push(verdict);
            told.push(describe(step, &first, verdict));
        }
        if wins(&verdicts) {
            *incumbent = candidate;
        }
        (self.listen)(Event::Done(format!("{what}: {}", told.join("; "))));
        Ok(())
    }

    /// Kernels, the costliest kind of site first.
    fn kernels(&mut self, screen: &Screen<'_>, canary: Option<&Bench>, plan: &mut Plan) -> Result<(), SweepError> {
        let format = |w: Weight| plan.format_on_gpu(w, self.model.tensor(w).format());
        let shape = self.model.shape();
        let Fusions { decode, together, prefill } = &plan.fusions;
        let mut passes = vec![(Step::DECODE, decode), (Step::prefill(plan.prefill_chunk), prefill)];
        passes.extend(self.options.sequences.map(|n| (Step::batch(n), together)));
        let mut all: Vec<(Step, SiteGroup)> = Vec::new();
        for (step, fusions) in passes {
            for group in groups(shape, step, fusions, &format) {
                // The head sees one row in decode and in prefill.
                if !all.iter().any(|(_, g)| g.class == group.class) {
                    all.push((step, group));
                }
            }
        }
        (self.listen)(Event::Stage("cost of each kind of site", all.len()));
        let speed_before = self.canary(screen.clock, canary)?;
        let mut costs = Vec::new();
        for (step, group) in all {
            let ns = screen.default_ns(&group, &mut self.journal)?;
            let flops = (ops::kernels(&group.site.op).flops)(&group.site) as f64;
            let (gbytes, gflops) = (group.site.bytes() as f64 / ns, flops / ns);
            let told = format!("{}: {:.1} us, {gbytes:.1} GB/s, {gflops:.1} GFLOP/s", group.class, ns / 1e3);
            (self.listen)(Event::Done(told));
            costs.push((ns * f64::from(group.count), step, group));
        }
        // Steps weigh the same, however long they are.
        let mut totals: Vec<(Step, f64)> = Vec::new();
        for (ns, step, _) in &costs {
            match totals.iter_mut().find(|(known, _)| known == step) {
                Some((_, total)) => *total += ns,
                None => totals.push((*step, *ns)),
            }
        }
        for (ns, step, _) in &mut costs {
            *ns /= totals.iter().find(|(known, _)| known == step).map_or(1.0, |(_, total)| total.max(1.0));
        }
        costs.sort_by(|a, b| b.0.total_cmp(&a.0));
        (self.listen)(Event::Stage("kernels", costs.len()));
        let begun = Instant::now();
        let budget = self.share(shares::KERNELS);
        let mut claimed = 0.0;
        let total: f64 = costs.iter().map(|(share, ..)| share).sum();
        for (share, _, group) in costs {
            claimed += share / total.max(1e-9);
            let deadline = begun + budget.mul_f64(claimed.min(1.0));
            let screened = screen.run(&group, &mut self.journal, deadline)?;
            let gain = screened.default_ns / screened.best_ns;
            let told = match &screened.winner {
                Some(c) => {
                    format!("{}: {} {} (x{gain:.2}, {} tried)", group.class, c.variant, c.tunables, screened.tried)
                }
                None => format!("{}: default stays ({} tried)", group.class, screened.tried),
            };
            plan.choices.extend(screened.winner);
            (self.listen)(Event::Done(told));
        }
        let speed_after = self.canary(screen.clock, canary)?;
        if let Some(Block::Void { drift }) = drift::judge(&speed_before, &speed_after, drift::TOLERANCE) {
            let drift = 100.0 * drift;
            let text =
                format!("the device's speed changed by {drift:.0} % while screening; races are interleaved and stand");
            (self.listen)(Event::Notice(text));
        }
        Ok(())
    }

    /// What kernels are screened with.
    fn screen<'c>(&self, clock: &'c Clock) -> Screen<'c>
    where
        'a: 'c,
    {
        Screen {
            device: self.device,
            clock,
            sources: &self.options.sources,
            allowed: self.options.allowed,
            exhaustive: self.options.exhaustive,
            rotate_bytes: rotate_bytes(self.device.limits()),
            // An emulated device has no clocks of its own.
            warm_up: if self.device.is_cpu() { Duration::ZERO } else { WARM_UP },
        }
    }

    /// Times a kernel that never changes, to see whether the machine did.
    fn canary(&mut self, clock: &Clock, canary: Option<&Bench>) -> Result<Vec<f64>, SweepError> {
        let Some(canary) = canary else { return Ok(Vec::new()) };
        let time = |_| canary.time(clock, CANARY_REPEATS).map(|t| t.ns);
        let samples_ns = (0..CANARY_SAMPLES).map(time).collect::<Result<Vec<f64>, _>>()?;
        let subject = Subject { op: "canary".to_owned(), variant: canary.label().to_owned(), ..Subject::default() };
        let identity = self.journal.identity(subject, None, CANARY_REPEATS, clock.source());
        self.journal.append(&identity, Outcome::Canary { samples_ns: samples_ns.clone() })?;
        Ok(samples_ns)
    }

    /// A clock, tested on the default kernel of the largest site of decoding; that kernel is the canary.
    fn clock(&mut self) -> Result<(Clock, Option<Bench>), SweepError> {
        let format = |w: Weight| self.default.format_on_gpu(w, self.model.tensor(w).format());
        let decode = groups(self.model.shape(), Step::DECODE, &self.default.fusions.decode, &format);
        let largest = decode.iter().max_by_key(|group| group.site.bytes());
        let Some(group) = largest else { return Ok((Clock::self_test(self.device, &|_, _| {})?, None)) };
        let (_, _, kernel) = default_kernel(&group.site, self.device.limits(), &self.options.sources)?;
        let bench = Bench::new(self.device, &kernel, &Case::random(&group.site, 0), 1)?;
        let clock = Clock::self_test(self.device, &|pass, n| bench.encode(pass, n))?;
        if let Some(doubt) = &clock.doubt {
            (self.listen)(Event::Notice(format!("kernels are timed by wall clock: {doubt}")));
        }
        Ok((clock, Some(bench)))
    }

    /// Takes out what rounds too much for this model, the roughest first, so that the other kernels still have their race;
    /// the roughest numbers that are left to try.
    fn drop_rough(&mut self, plan: &mut Plan) -> Result<Numerics, SweepError> {
        let mut allowed = self.options.allowed;
        while plan.numerics() > Numerics::F32 {
            let gate = self.track.gate(&mut self.journal, plan)?;
            if gate.passed {
                break;
            }
            let rough = plan.numerics();
            plan.choices.retain(|c| c.numerics() < rough);
            allowed = if rough == Numerics::Int8Activations { Numerics::Int16Activations } else { Numerics::F32 };
            (self.listen)(Event::Notice(format!("kernels with {rough} are dropped: {}", gate.detail)));
        }
        Ok(allowed)
    }

    /// The assembled plan against the default; kernels that do not pay in the step are dropped, and then decoding has the
    /// structure that won with default kernels.
    fn confirm(&mut self, structure: &Plan, mut plan: Plan) -> Result<Plan, SweepError> {
        let mut steps = vec![Step::DECODE, self.prompt()];
        steps.extend(self.options.sequences.map(Step::batch));
        (self.listen)(Event::Stage("tuned plan against the default", 2 * steps.len()));
        let allowance = self.share(shares::CONFIRM) / (3 * steps.len()) as u32;
        for step in steps.iter().copied() {
            let rows = match step.tokens {
                1 => bucket(step.sequences),
                _ => bucket(plan.prefill_chunk),
            };
            let mut bare = Plan {
                choices: plan.choices.iter().filter(|c| c.site.up_to_rows != rows).cloned().collect(),
                ..plan.clone()
            };
            if step == Step::DECODE {
                bare.fusions.decode.clone_from(&structure.fusions.decode);
                bare.persistent = None;
            }
            if bare.choices.len() == plan.choices.len() {
                (self.listen)(Event::Done(format!("{}: default kernels", step.name())));
                continue;
            }
            let mut incumbent = bare;
            let what = format!("tuned kernels in {}", step.name());
            self.challenge(&mut incumbent, plan, &[step], allowance, &what)?;
            plan = incumbent;
        }
        let gate = self.track.gate(&mut self.journal, &plan)?;
        let mut evidence = Vec::new();
        if plan.hash() == self.default.hash() {
            // A race against itself would say nothing, and its arms could not be told apart in the ledger.
            (self.listen)(Event::Done("nothing was faster: the plan is the default".to_owned()));
            steps.clear();
        }
        for step in steps {
            let pair = [&self.default, &plan];
            let result = self.track.race(&mut self.journal, pair, step, true, allowance)?;
            let told = describe(step, &result, result.comparison.verdict);
            (self.listen)(Event::Done(format!("tuned plan: {told}")));
            let interval = result.comparison.interval;
            evidence.push(StepEvidence {
                step: step.name().to_owned(),
                tokens: step.tokens * step.sequences,
                default_us: result.incumbent_ns / 1e3,
                tuned_us: result.candidate_ns / 1e3,
                speedup: (interval.low.exp(), interval.high.exp()),
                pairs: result.comparison.pairs as u32,
            });
        }
        let quality = self.track.reference;
        plan.evidence = Some(Evidence {
            model: self.track.model.to_owned(),
            quality_hash: gate.quality_hash.unwrap_or_default(),
            certified: quality.certified(),
            rms_error: gate.rms,
            steps: evidence,
            ledger: self.options.ledger.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        });
        Ok(plan)
    }
}

fn describe(step: Step, race: &RaceResult, verdict: Verdict) -> String {
    let (before, after) = (race.incumbent_ns / 1e3, race.candidate_ns / 1e3);
    let interval = race.comparison.interval;
    format!(
        "{verdict} ({} {before:.0} -> {after:.0} us, x{:.2} to x{:.2} over {} pairs)",
        step.name(),
        interval.low.exp(),
        interval.high.exp(),
        race.comparison.pairs
    )
}
