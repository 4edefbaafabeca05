//! Screening: which kernel is the fastest for one kind of site, alone.
//!
//! Every candidate is checked against the reference before it is timed. Variants are compared at their defaults first;
//! from the best, one tunable at a time is varied for as long as that helps (coordinate descent; `exhaustive` tries
//! every point). The best then races the default in interleaved pairs, twice: the second race decides, on samples that
//! did not choose it. Kernels for the stages of a persistent step are found in the same way, but not raced: only whole
//! steps can say whether they pay.

use crate::journal::Journal;
use crate::ledger::{Cause, Gate, Identity, LedgerError, Outcome, Reason, Subject};
use crate::space::{Point, SiteGroup, neighbours, points};
use crate::stats::schedule::{Arm, abba};
use crate::stats::summary::median;
use crate::stats::verdict::{Criteria, Verdict, compare};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::persistent::can_be_stage;
use wgoose_kernels::plan::{Choice, default_kernel};
use wgoose_kernels::{Kernel, Limits, Numerics, PlanError, Refusal, Sources, SpecialiseError, Tunables};
use wgoose_runtime::lab::{Bench, Case, Clock, Expected, check};
use wgoose_runtime::{Device, RuntimeError};

/// Nanoseconds that one sample should take at least.
const SAMPLE_NS: f64 = 2e6;

/// Dispatches in one sample at most.
const MOST_REPEATS: u32 = 2000;

/// Samples of a candidate while screening.
const SAMPLES: usize = 5;

/// Pairs of each of the two races.
const PAIRS: usize = 8;

/// What stops a screening for good.
#[derive(Debug, thiserror::Error)]
pub enum ScreenError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The device, beyond one candidate's failure.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The kernels.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The kernels' files.
    #[error(transparent)]
    Source(#[from] SpecialiseError),
}

/// What screening found for one kind of site.
#[derive(Clone, Debug)]
pub struct Screened {
    /// What beat the default, if anything did.
    pub winner: Option<Choice>,
    /// Median nanoseconds of the default.
    pub default_ns: f64,
    /// Median nanoseconds of the best.
    pub best_ns: f64,
    /// Candidates measured.
    pub tried: usize,
}

/// The workgroups of a persistent step: what its kernels must suit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageForm {
    /// How many there are.
    pub workgroups: u32,
    /// Invocations of each.
    pub threads: u32,
}

impl StageForm {
    /// Whether a kernel may suit, as far as its tunables say: as wide or a part as wide, and dealt to so many units that
    /// every workgroup has as many.
    fn admits(self, tunables: &Tunables) -> bool {
        let number = |name: &str| tunables.0.get(name).and_then(|value| value.parse::<u32>().ok());
        number("WG").is_none_or(|width| self.threads.is_multiple_of(width))
            && number("UNITS").is_none_or(|units| units.is_multiple_of(self.workgroups))
    }
}

/// The surroundings of a screening.
pub struct Screen<'a> {
    /// The device.
    pub device: &'a Arc<Device>,
    /// Its clock.
    pub clock: &'a Clock,
    /// The kernels' text.
    pub sources: &'a Sources,
    /// The roughest numbers that a kernel may compute with.
    pub allowed: Numerics,
    /// Whether every point is tried.
    pub exhaustive: bool,
    /// Bytes of weights to rotate over, so that they stream from memory.
    pub rotate_bytes: u64,
    /// How long a device is kept busy before it is measured, so that its clocks are up.
    pub warm_up: Duration,
}

impl Screen<'_> {
    /// Median nanoseconds of the default kernel: what a group costs before tuning.
    ///
    /// # Errors
    /// The default cannot be run.
    pub fn default_ns(&self, group: &SiteGroup, journal: &mut Journal) -> Result<f64, ScreenError> {
        let mut candidates = Candidates::new(self, group, journal)?;
        let default = candidates.default;
        Ok(candidates.measure(default)?.unwrap_or(f64::INFINITY))
    }

    /// Finds the best kernel that can be a stage, until `deadline`, beginning with what is best for a site like this one;
    /// `None` if there is none that is right.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn best_stage(
        &self,
        group: &SiteGroup,
        journal: &mut Journal,
        form: StageForm,
        (like, deadline): (Option<&Choice>, Instant),
    ) -> Result<Option<Choice>, ScreenError> {
        let mut candidates = Candidates::of_stage(self, group, journal, form)?;
        let is_like = |p: &Point| like.is_some_and(|c| c.variant == p.variant.name && c.tunables == p.tunables);
        let known = match candidates.points.iter().position(is_like) {
            Some(i) => candidates.measure(i)?.map(|ns| (i, ns)),
            None => None,
        };
        let best = candidates.descend(known, deadline)?;
        best.map(|(best, _)| candidates.choice(best)).transpose()
    }

    /// Finds the best kernel until `deadline`.
    ///
    /// # Errors
    /// The ledger or the device fails.
    pub fn run(&self, group: &SiteGroup, journal: &mut Journal, deadline: Instant) -> Result<Screened, ScreenError> {
        let mut candidates = Candidates::new(self, group, journal)?;
        candidates.record_refusals()?;
        let default = candidates.default;
        let default_ns = candidates.measure(default)?.unwrap_or(f64::INFINITY);
        let best = candidates.descend(Some((default, default_ns)), deadline)?.unwrap_or((default, default_ns));
        let won = best.0 != default && candidates.race(default, best.0)? && candidates.race(default, best.0)?;
        let winner = if won { Some(candidates.choice(best.0)?) } else { None };
        Ok(Screened { winner, default_ns, best_ns: best.1, tried: candidates.tried })
    }
}

/// The candidates of one group.
struct Candidates<'a, 'j> {
    screen: &'a Screen<'a>,
    group: &'a SiteGroup,
    journal: &'j mut Journal,
    points: Vec<Point>,
    default: usize,
    /// Operands, and what the reference makes of them; made when they are first needed.
    case: Option<(Case, Expected)>,
    races: u32,
    tried: usize,
    /// What they must suit, if they are to be stages.
    form: Option<StageForm>,
}

impl<'a, 'j> Candidates<'a, 'j> {
    fn new(screen: &'a Screen<'a>, group: &'a SiteGroup, journal: &'j mut Journal) -> Result<Self, ScreenError> {
        let limits = screen.device.limits();
        let points = points(&group.site, limits, screen.allowed, screen.sources)?;
        let (variant, tunables, _) = default_kernel(&group.site, limits, screen.sources)?;
        let is_default = |p: &Point| p.variant.name == variant.name && p.tunables == tunables;
        let default = points.iter().position(is_default).unwrap_or(0);
        Ok(Candidates { screen, group, journal, points, default, case: None, races: 0, tried: 0, form: None })
    }

    /// Those that may be stages, the likeliest first: dealt, computing with what is roughest of what is allowed, wide, and
    /// near their defaults otherwise.
    fn of_stage(
        screen: &'a Screen<'a>,
        group: &'a SiteGroup,
        journal: &'j mut Journal,
        form: StageForm,
    ) -> Result<Self, ScreenError> {
        let mut candidates = Candidates::new(screen, group, journal)?;
        let mut defaults: Vec<Point> = Vec::new();
        for p in &candidates.points {
            if defaults.iter().all(|d| d.variant.name != p.variant.name) {
                defaults.push(p.clone());
            }
        }
        let distance = |p: &Point| {
            let default = defaults.iter().find(|d| d.variant.name == p.variant.name);
            default.map_or(0, |d| {
                p.tunables.0.iter().filter(|(name, value)| d.tunables.0.get(*name) != Some(value)).count()
            })
        };
        candidates.points.retain(|p| form.admits(&p.tunables));
        candidates.points.sort_by_cached_key(|p| {
            let width = p.tunables.0.get("WG").and_then(|n| n.parse::<u32>().ok()).unwrap_or(0);
            let is_dealt = p.tunables.0.contains_key("UNITS");
            (Reverse(is_dealt), Reverse(p.variant.numerics()), Reverse(width), distance(p))
        });
        Ok(Candidates { default: 0, form: Some(form), ..candidates })
    }

    /// The first point of each variant that makes a kernel here.
    fn first_of_each_variant(&self) -> Vec<usize> {
        let mut seen: Vec<&str> = Vec::new();
        let mut first = Vec::new();
        for (i, p) in self.points.iter().enumerate().filter(|(_, p)| p.refusal.is_none()) {
            if !seen.contains(&p.variant.name) && self.kernel(i).is_ok() {
                seen.push(p.variant.name);
                first.push(i);
            }
        }
        first
    }

    /// The best point found until `deadline`, and its median nanoseconds, beginning with what is known.
    fn descend(&mut self, known: Option<(usize, f64)>, deadline: Instant) -> Result<Option<(usize, f64)>, ScreenError> {
        let mut best = known;
        if self.screen.exhaustive {
            self.try_all((0..self.points.len()).collect(), &mut best, None)?;
            return Ok(best);
        }
        self.try_all(self.first_of_each_variant(), &mut best, Some(deadline))?;
        while let Some((from, _)) = best.filter(|_| Instant::now() < deadline) {
            let near = neighbours(&self.points, &self.points[from]).collect();
            self.try_all(near, &mut best, Some(deadline))?;
            if best.is_some_and(|(now, _)| now == from) {
                break;
            }
        }
        Ok(best)
    }

    /// Measures points; what is known is enough once the deadline has passed.
    fn try_all(
        &mut self,
        points: Vec<usize>,
        best: &mut Option<(usize, f64)>,
        deadline: Option<Instant>,
    ) -> Result<(), ScreenError> {
        for i in points {
            if best.is_some() && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            if let Some(ns) = self.measure(i)?.filter(|ns| best.is_none_or(|(_, least)| *ns < least)) {
                *best = Some((i, ns));
            }
        }
        Ok(())
    }

    /// One record per variant and reason, with the number of points refused.
    fn record_refusals(&mut self) -> Result<(), ScreenError> {
        let mut reasons: BTreeMap<(&str, String), usize> = BTreeMap::new();
        for p in &self.points {
            if let Some(refusal) = &p.refusal {
                *reasons.entry((p.variant.name, refusal.to_string())).or_default() += 1;
            }
        }
        for ((variant, reason), count) in reasons {
            let mut subject = self.subject(variant, "", BTreeMap::new());
            subject.tunables.insert("refused".into(), reason.clone());
            let identity = self.journal.identity(subject, None, 0, self.screen.clock.source());
            self.refuse(&identity, format!("{count} of {} points: {reason}", self.points.len()))?;
        }
        Ok(())
    }

    /// Records a refusal, once.
    fn refuse(&mut self, identity: &Identity, text: String) -> Result<(), ScreenError> {
        if self.journal.recall(&identity.key()).is_none() {
            self.journal.append(identity, failed(Cause::Constraint, text))?;
        }
        Ok(())
    }

    fn subject(&self, variant: &str, hash: &str, tunables: BTreeMap<String, String>) -> Subject {
        let site = &self.group.site;
        let sizes = [("rows", site.rows), ("k", site.k), ("m", site.m), ("up_to_rows", self.group.class.up_to_rows)];
        Subject {
            op: self.group.class.op.clone(),
            variant: variant.to_owned(),
            tunables,
            shape: sizes.into_iter().map(|(name, n)| (name.to_owned(), u64::from(n))).collect(),
            format: self.group.class.formats.first().copied(),
            kernel_hash: hash.to_owned(),
        }
    }

    fn kernel(&self, i: usize) -> Result<Kernel, Refusal> {
        let p = &self.points[i];
        let kernel =
            Kernel::new(p.variant, &self.group.site, &p.tunables, self.screen.device.limits(), self.screen.sources)?;
        match self.form {
            Some(form) if !can_be_stage(&kernel, form.threads) => {
                Err(Refusal::Shape("its workgroups do not fit those of a persistent step"))
            }
            _ => Ok(kernel),
        }
    }

    fn case(&mut self) -> &(Case, Expected) {
        self.case.get_or_insert_with(|| {
            let case = Case::random(&self.group.site, 0);
            let expected = Expected::of(&case);
            (case, expected)
        })
    }

    /// So many copies of the operands that weights stream, as far as the bytes to rotate over go.
    fn copies(&self) -> usize {
        (self.screen.rotate_bytes / self.group.site.held_bytes().max(1)).clamp(1, 16) as usize
    }

    /// Median nanoseconds of a candidate; `None` if it is refused, fails or is wrong.
    fn measure(&mut self, i: usize) -> Result<Option<f64>, ScreenError> {
        let p = &self.points[i];
        let kernel = match self.kernel(i) {
            Ok(kernel) => kernel,
            // It may well do where it is no stage.
            Err(_) if self.form.is_some() => return Ok(None),
            Err(refusal) => {
                let subject = self.subject(p.variant.name, "", p.tunables.0.clone());
                let identity = self.journal.identity(subject, None, 0, self.screen.clock.source());
                self.refuse(&identity, refusal.to_string())?;
                return Ok(None);
            }
        };
        self.tried += 1;
        let subject = self.subject(p.variant.name, &kernel.hash.to_string(), p.tunables.0.clone());
        let identity = self.journal.identity(subject, None, 0, self.screen.clock.source());
        if self.journal.recall(&identity.key()).is_none() {
            self.case();
        }
        let (screen, copies, case) = (self.screen, self.copies(), self.case.as_ref());
        let outcome = self.journal.experiment(&identity, || {
            let Some((case, expected)) = case else { return failed(Cause::Runtime, "no reference".into()) };
            measure(screen, &kernel, (case, copies), expected)
        })?;
        match &outcome {
            Outcome::Failed(reason) if reason.cause == Cause::DeviceLost => {
                Err(RuntimeError::Device { during: "screening", why: format!("{}: {}", kernel.label, reason.text) }
                    .into())
            }
            outcome => Ok(median(outcome.samples_ns())),
        }
    }

    /// Whether the candidate beats the incumbent in interleaved pairs.
    fn race(&mut self, incumbent: usize, candidate: usize) -> Result<bool, ScreenError> {
        self.races += 1;
        let (Ok(a), Ok(b)) = (self.kernel(incumbent), self.kernel(candidate)) else { return Ok(false) };
        let race = format!("{}", self.races);
        let arm = |this: &Self, i: usize, own: &Kernel, other: &Kernel| {
            let mut tunables = this.points[i].tunables.0.clone();
            tunables.insert("race".into(), race.clone());
            tunables.insert("against".into(), other.hash.to_string());
            let subject = this.subject(this.points[i].variant.name, &own.hash.to_string(), tunables);
            this.journal.identity(subject, None, 0, this.screen.clock.source())
        };
        let (id_a, id_b) = (arm(self, incumbent, &a, &b), arm(self, candidate, &b, &a));
        let known = [&id_a, &id_b].map(|id| self.journal.recall(&id.key()).map(|o| o.samples_ns().to_vec()));
        let [samples_a, samples_b] = match known {
            [Some(a), Some(b)] => [a, b],
            _ => {
                let (screen, copies) = (self.screen, self.copies());
                let pair = pairs(screen, &a, &b, (&self.case().0, copies))?;
                for (id, samples) in [&id_a, &id_b].into_iter().zip(&pair) {
                    self.journal.append(id, Outcome::Kernel { samples_ns: samples.clone(), gate: None })?;
                }
                pair
            }
        };
        let comparison = compare(&samples_a, &samples_b, &Criteria::kernel());
        Ok(comparison.is_ok_and(|c| c.verdict == Verdict::Fast))
    }

    fn choice(&self, i: usize) -> Result<Choice, ScreenError> {
        let p = &self.points[i];
        Ok(Choice {
            site: self.group.class.clone(),
            variant: p.variant.name.to_owned(),
            tunables: p.tunables.clone(),
            source: p.variant.source_hash(&self.group.class.formats, self.screen.sources)?,
        })
    }
}

fn failed(cause: Cause, text: String) -> Outcome {
    Outcome::Failed(Reason { cause, text })
}

/// Checks a kernel against the reference, then times it.
fn measure(screen: &Screen<'_>, kernel: &Kernel, (case, copies): (&Case, usize), expected: &Expected) -> Outcome {
    let error = |e: RuntimeError| {
        let text = e.to_string();
        let cause = match &e {
            RuntimeError::Device { why, .. } if why.contains("device lost") => Cause::DeviceLost,
            RuntimeError::Device { during: "compiling a kernel", .. } => Cause::Compile,
            _ => Cause::Runtime,
        };
        failed(cause, text)
    };
    let bench = match Bench::new(screen.device, kernel, case, copies) {
        Ok(bench) => bench,
        Err(e) => return error(e),
    };
    let deviation = match check(&bench, case, expected) {
        Ok(deviation) => deviation,
        Err(e) => return error(e),
    };
    let (worst, tolerance) = (f64::from(deviation.worst), deviation.tolerance);
    if !deviation.passed() {
        let why = deviation.fault.unwrap_or_else(|| format!("error {worst:.1e}, allowed {tolerance:.1e}"));
        return failed(Cause::WrongResult, why);
    }
    let timed = repeats(&bench, screen)
        .and_then(|n| (0..SAMPLES).map(|_| bench.time(screen.clock, n).map(|t| t.ns)).collect::<Result<Vec<f64>, _>>());
    match timed {
        Err(e) => error(e),
        Ok(samples_ns) => {
            let detail = format!("largest error relative to rms, allowed {tolerance:.1e}");
            let gate = Gate { passed: true, rms: worst, max: worst, quality_hash: None, detail };
            Outcome::Kernel { samples_ns, gate: Some(gate) }
        }
    }
}

/// Warms the device up, then finds how many dispatches make a sample long enough.
fn repeats(bench: &Bench, screen: &Screen<'_>) -> Result<u32, RuntimeError> {
    let begun = Instant::now();
    let mut n = 1;
    loop {
        let ns = bench.time(screen.clock, n)?.ns * f64::from(n);
        if ns >= SAMPLE_NS || n >= MOST_REPEATS {
            // Clocks fall while a kernel is compiled; a count found on a slow clock is found again on a fast one.
            if begun.elapsed() >= screen.warm_up {
                return Ok(n);
            }
            n = n.div_ceil(2);
            continue;
        }
        let factor = (1.2 * SAMPLE_NS / ns.max(1.0)).clamp(2.0, 50.0);
        n = ((f64::from(n) * factor) as u32).min(MOST_REPEATS);
    }
}

/// Interleaved samples of two kernels on the same data, the same number of dispatches in both.
fn pairs(
    screen: &Screen<'_>,
    a: &Kernel,
    b: &Kernel,
    (case, copies): (&Case, usize),
) -> Result<[Vec<f64>; 2], RuntimeError> {
    let benches = [Bench::new(screen.device, a, case, copies)?, Bench::new(screen.device, b, case, copies)?];
    let n = repeats(&benches[0], screen)?.max(repeats(&benches[1], screen)?);
    let mut samples = [Vec::new(), Vec::new()];
    for pair in abba(PAIRS) {
        for arm in pair {
            let i = usize::from(arm == Arm::Candidate);
            samples[i].push(benches[i].time(screen.clock, n)?.ns);
        }
    }
    Ok(samples)
}

/// Weight bytes over which to rotate: beyond the last-level cache of a GPU, within reason on a CPU.
pub fn rotate_bytes(limits: &Limits) -> u64 {
    (limits.storage_binding / 8).min(256 << 20)
}
