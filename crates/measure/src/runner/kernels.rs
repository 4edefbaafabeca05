//! Kernels alone on a device: checked against the reference, then timed.

use super::pulse::Pulse;
use super::{Assignment, Phase, Runner, RunnerError};
use crate::job::{Configured, Cost, Job, SiteId};
use crate::ledger::{self, Cause, Gate, Outcome, Timing};
use crate::result_cache::site_id;
use crate::space::InstanceGroup;
use crate::stats::schedule::{Arm, abba};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::plan::default_kernel;
use wgoose_kernels::{Catalogue, Instance, Kernel, KernelError, Limits, Precision};
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::sanitize::first_fault;
use wgoose_runtime::kernel_bench::{
    Bench, Case, Ceiling, Clock, ClockSource, Deviation, Expected, Numbers, Operands, bits, check, check_after,
    is_steady,
};
use wgoose_runtime::{Device, RuntimeError};

/// Nanoseconds that one sample should take at least.
const SAMPLE_NS: f64 = 2e6;

/// Dispatches in one sample at most.
const MOST_REPEATS: u32 = 2000;

/// Samples of a candidate.
const SAMPLES: usize = 5;

/// Pairs of a comparison.
const PAIRS: usize = 8;

/// Samples of the control kernel.
const CONTROL_SAMPLES: usize = 9;

/// Rows of a pass that is no multiple of any tile: what is left of a text.
const ODD_ROWS: u32 = 33;

/// A site whose kernels are asked for.
struct Place {
    id: SiteId,
    /// Its instances with their operands: as kernels take it, all of its rows or few.
    setups: Vec<Setup>,
}

/// An instance with its operands on the device, and what the reference makes of them.
struct Setup {
    instance: Instance,
    numbers: Numbers,
    case: Case,
    expected: Expected,
    operands: Operands,
    copies: usize,
}

impl Place {
    /// An instance of the site, its weights so many times.
    fn setup(
        &mut self,
        bench: &KernelRunner,
        instance: &Instance,
        (numbers, copies): (Numbers, usize),
    ) -> Result<&Setup, RunnerError> {
        let is_it = |setup: &Setup| setup.instance == *instance && setup.numbers == numbers;
        let known = self.setups.iter().position(is_it);
        let i = known.unwrap_or(self.setups.len());
        if known.is_none() {
            let case = Case::random(instance, numbers, bench.seed);
            let mut expected = Expected::of(&case);
            let operands = match self.setups.first() {
                Some(first) => first.operands.beside(&case, copies)?,
                None => Operands::upload(&bench.device, &case, copies)?,
            };
            if expected.is_partial() {
                // Values that are packed have kernels in f16 only.
                let (own, limits) = (catalogue::embedded(), bench.device.limits());
                let known = |precision| default_kernel(instance, precision, limits, &own).ok();
                if let Some((_, _, kernel)) = known(Precision::F32).or_else(|| known(Precision::F16)) {
                    expected.complete(&operands.bench(&kernel)?, &case)?;
                }
            }
            self.setups.push(Setup { instance: instance.clone(), numbers, case, expected, operands, copies });
        }
        Ok(&self.setups[i])
    }
}

/// A site's instance where a text ends; `None` if it always has one row, or its rows cannot be fewer.
fn rest_of(instance: &Instance) -> Option<Instance> {
    let rows = if instance.rows > ODD_ROWS { ODD_ROWS } else { instance.rows / 2 + 1 };
    instance.with_rows(rows).filter(|rest| rest.rows < instance.rows)
}

/// Times kernels on a device.
pub struct KernelRunner {
    device: Arc<Device>,
    catalogue: Arc<Catalogue>,
    clock: Clock,
    begun: Instant,
    /// Of the numbers in operands.
    seed: u64,
    /// What the device can do at most; `None` before it was measured, and of a CPU, whose caches hold what a kernel
    /// reads again.
    ceiling: Option<Ceiling>,
    /// What the sanitizer says of variants that are not this program's own: what is wrong, if anything.
    sanitized: BTreeMap<String, Option<String>>,
    /// The site that was asked for last.
    place: Option<Place>,
    control: Option<(Configured, Bench)>,
    pulse: Pulse,
    /// What took the device.
    gone: Option<String>,
}

impl KernelRunner {
    /// A runner whose clock is tested on the default kernel of a site. Its budget is spent from `begun` on, and its
    /// operands are drawn with `seed`.
    ///
    /// # Errors
    /// The device fails, or the site has no kernel here.
    pub fn new(
        device: &Arc<Device>,
        catalogue: &Arc<Catalogue>,
        site: &InstanceGroup,
        (begun, seed): (Instant, u64),
    ) -> Result<Self, RunnerError> {
        let instance = site.unpacked();
        let (_, _, kernel) = default_kernel(&instance, Precision::F16, device.limits(), catalogue)?;
        let bench = Bench::new(device, &kernel, &Case::random(&instance, Numbers::Even, 0), 1)?;
        let clock = Clock::self_test(device, &|pass, n| bench.encode(pass, n))?;
        let pulse = Pulse::new(device, bench);
        let (device, catalogue) = (Arc::clone(device), Arc::clone(catalogue));
        Ok(KernelRunner {
            device,
            catalogue,
            clock,
            begun,
            seed,
            ceiling: None,
            sanitized: BTreeMap::new(),
            place: None,
            control: None,
            pulse,
            gone: None,
        })
    }

    /// What the device can do at most, where that is known already, instead of measuring it.
    #[must_use]
    pub fn under(self, ceiling: Ceiling) -> Self {
        KernelRunner { ceiling: Some(ceiling), ..self }
    }

    /// What an error makes of a candidate. After some nothing can be run any more.
    pub(super) fn failed(&mut self, what: &Job, error: &RuntimeError) -> Outcome {
        let cause = match error {
            RuntimeError::DeviceLost { .. } => Cause::DeviceLost,
            RuntimeError::TimedOut { .. } => Cause::Timeout,
            RuntimeError::OutOfMemory { .. } => Cause::OutOfMemory,
            RuntimeError::Compile { .. } => Cause::Compile,
            _ => Cause::Runtime,
        };
        if matches!(cause, Cause::DeviceLost | Cause::Timeout) {
            self.gone = Some(format!("{}: {error}", what.name()));
        }
        Outcome::failed(cause, error.to_string())
    }

    /// An error, once the device is gone.
    pub(super) fn alive(&self) -> Result<(), RunnerError> {
        self.gone.as_ref().map_or(Ok(()), |why| Err(RunnerError::Gone(why.clone())))
    }

    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// A kernel of a site, and the instance as it takes it.
    fn kernel(&self, site: &InstanceGroup, which: &Configured) -> Result<(Kernel, Instance), RunnerError> {
        let unknown = || RunnerError::Unknown(format!("{}/{which}", site.key.op));
        let variant = self.catalogue.variant(&site.key.op, &which.variant).ok_or_else(unknown)?;
        let config = variant.config(&which.config).map_err(|_| unknown())?;
        let instance = site.instance_for(variant, &config, self.device.limits());
        let kernel = self.kernel_at(&instance, which)?;
        if kernel.hash.to_string() == which.text { Ok((kernel, instance)) } else { Err(unknown()) }
    }

    /// What a variant makes at an instance.
    fn kernel_at(&self, instance: &Instance, which: &Configured) -> Result<Kernel, RunnerError> {
        let op = instance.op.name();
        let unknown = || RunnerError::Unknown(format!("{op}/{which}"));
        let variant = self.catalogue.variant(op, &which.variant).ok_or_else(unknown)?;
        let config = variant.config(&which.config).map_err(|_| unknown())?;
        Ok(Kernel::new(variant, instance, &config, self.device.limits())?)
    }

    /// An instance of a site, its operands on the device.
    fn setup(&mut self, site: &InstanceGroup, instance: &Instance, numbers: Numbers) -> Result<&Setup, RunnerError> {
        let id = site_id(site);
        // What another site held makes room first.
        let mut place = self.place.take().filter(|known| known.id == id).unwrap_or(Place { id, setups: Vec::new() });
        // So many copies of the operands that weights stream, as far as the bytes to rotate over go; what is only
        // checked has one.
        let copies = match instance.rows == site.instance.rows && numbers == Numbers::Even {
            true => rotate_bytes(self.device.limits()) / instance.held_bytes().max(1),
            false => 1,
        };
        place.setup(self, instance, (numbers, copies.clamp(1, 16) as usize))?;
        let place = self.place.insert(place);
        let is_it = |setup: &&Setup| setup.instance == *instance && setup.numbers == numbers;
        place.setups.iter().find(is_it).ok_or_else(|| RunnerError::Unknown("no such operands".to_owned()))
    }

    /// Checks a kernel against the reference, then times it.
    fn measure(
        &mut self,
        site: &InstanceGroup,
        which: &Configured,
        progress: &dyn Fn(Phase),
    ) -> Result<(Outcome, Cost), RunnerError> {
        let (kernel, instance) = self.kernel(site, which)?;
        let mut lap = Lap::begin();
        if let Some(why) = self.race(&site.key.op, which) {
            return Ok((Outcome::failed(Cause::Race, why), Cost { check: lap.end(), ..Cost::default() }));
        }
        let setup = self.setup(site, &instance, Numbers::Even)?;
        let prepared = lap.end();
        let bench = setup.operands.bench(&kernel)?;
        let compile = lap.end();
        progress(Phase::Running);
        let deviation = check(&bench, &setup.case, &setup.expected)?;
        let copies = setup.copies as u32;
        let mut wrong = fault_of(&deviation);
        if wrong.is_none() {
            wrong = self.fault_of_others(site, &instance, which, progress)?;
        }
        let mut cost = Cost { compile, check: prepared + lap.end(), ..Cost::default() };
        if let Some(why) = wrong {
            return Ok((Outcome::failed(Cause::WrongResult, why), cost));
        }
        let (worst, tolerance) = (f64::from(deviation.worst), deviation.tolerance);
        let repeats = self.repeats(&bench)?;
        let samples_ns = self.samples(&bench, repeats, SAMPLES)?;
        cost.timed = lap.end();
        let fault = self.fault_after(site, (&instance, &bench), &deviation.bits, &samples_ns)?;
        cost.check += lap.end();
        if let Some((cause, why)) = fault {
            return Ok((Outcome::failed(cause, why), cost));
        }
        let detail = format!("largest error relative to rms, allowed {tolerance:.1e}");
        let gate = Gate { bits: Some(deviation.bits), ..Gate::passed([worst; 2], detail) };
        Ok((Outcome::Kernel(Timing { samples_ns, repeats, copies, gate: Some(gate) }), cost))
    }

    /// What the sanitizer finds in a variant that is not this program's own, in the kernel nearest to its default:
    /// those of this program are held by its tests.
    fn race(&mut self, op: &str, which: &Configured) -> Option<String> {
        let variant =
            self.catalogue.variant(op, &which.variant).filter(|variant| self.catalogue.is_brought(variant))?;
        let found = || first_fault(op, variant).map(|fault| fault.to_string());
        self.sanitized.entry(format!("{op}/{}", which.variant)).or_insert_with(found).clone()
    }

    /// What is wrong with a kernel once it was timed, if anything: what it left, or times that nothing can have.
    fn fault_after(
        &mut self,
        site: &InstanceGroup,
        (instance, bench): (&Instance, &Bench),
        bits: &str,
        samples_ns: &[f64],
    ) -> Result<Option<(Cause, String)>, RunnerError> {
        let setup = self.setup(site, instance, Numbers::Even)?;
        let copies = setup.copies as u64;
        if let Some(why) = check_after(bench, &setup.case, &setup.expected, bits)? {
            return Ok(Some((Cause::WrongResult, why)));
        }
        let fastest = samples_ns.iter().copied().fold(f64::INFINITY, f64::min);
        let refused = self.ceiling()?.and_then(|ceiling| ceiling.refuses(instance, copies, fastest));
        Ok(refused.map(|refused| (Cause::Impossible, refused.to_string())))
    }

    /// What the device can do at most.
    fn ceiling(&mut self) -> Result<Option<Ceiling>, RuntimeError> {
        if self.ceiling.is_none() && !self.device.is_cpu() {
            self.ceiling = Ceiling::measure(&self.device)?;
        }
        Ok(self.ceiling)
    }

    /// What is wrong with a kernel of a site, if anything, with numbers as trained models have them: where a pass has
    /// fewer rows, if it may. Where its file says that it has no kernel for so few, another one stands there.
    fn fault_of_others(
        &mut self,
        site: &InstanceGroup,
        instance: &Instance,
        which: &Configured,
        progress: &dyn Fn(Phase),
    ) -> Result<Option<String>, RunnerError> {
        let rest = rest_of(instance).unwrap_or_else(|| instance.clone());
        let kernel = match self.kernel_at(&rest, which) {
            Err(RunnerError::Kernel(KernelError::Refused(_))) => return Ok(None),
            Err(RunnerError::Kernel(wrong)) => return Ok(Some(wrong.to_string())),
            kernel => kernel?,
        };
        progress(Phase::Compiling);
        let setup = self.setup(site, &rest, Numbers::Trained)?;
        let bench = setup.operands.bench(&kernel)?;
        progress(Phase::Running);
        let fault = fault_of(&check(&bench, &setup.case, &setup.expected)?);
        Ok(fault.map(|fault| format!("at {} rows, with {}: {fault}", rest.rows, Numbers::Trained)))
    }

    fn samples(&self, bench: &Bench, repeats: u32, count: usize) -> Result<Vec<f64>, RuntimeError> {
        (0..count).map(|_| bench.time(&self.clock, repeats).map(|t| t.ns)).collect()
    }

    /// Interleaved samples of two kernels on the same data, the same number of dispatches in both.
    fn pair(
        &mut self,
        site: &InstanceGroup,
        (which, held_out): (&[Configured; 2], bool),
        progress: &dyn Fn(Phase),
    ) -> Result<(Outcome, Cost), RunnerError> {
        let kernels = [self.kernel(site, &which[0])?, self.kernel(site, &which[1])?];
        let mut cost = Cost::default();
        let (mut benches, mut copies) = (Vec::new(), 1);
        let mut lap = Lap::begin();
        let mut before = String::new();
        for (kernel, instance) in &kernels {
            let setup = self.setup(site, instance, Numbers::Even)?;
            cost.check += lap.end();
            copies = setup.copies as u32;
            let bench = setup.operands.bench(kernel)?;
            cost.compile += lap.end();
            before = bits(&bench, &setup.case, &setup.expected)?;
            benches.push(bench);
            cost.check += lap.end();
        }
        progress(Phase::Running);
        let repeats = self.repeats(&benches[0])?.max(self.repeats(&benches[1])?);
        cost.timed += lap.end();
        let mut samples_ns = [Vec::new(), Vec::new()];
        for pair in abba(PAIRS) {
            for arm in pair {
                progress(Phase::Running);
                let i = usize::from(arm == Arm::Candidate);
                samples_ns[i].push(benches[i].time(&self.clock, repeats)?.ns);
            }
        }
        cost.timed += lap.end();
        // A race that is seldom lost was right when it was checked; it is looked for in what has won, which is compared
        // twice. The fastest sample says how many runs there is time for, however busy this machine is.
        progress(Phase::Running);
        let ns = samples_ns[1].iter().copied().fold(f64::INFINITY, f64::min);
        let is_steady = !held_out || is_steady(&benches[1], ns)?;
        cost.check += lap.end();
        if !is_steady {
            let why = "some of many runs on the same data differ".to_owned();
            return Ok((Outcome::failed(Cause::WrongResult, why), cost));
        }
        // Both have the same y: what the candidate leaves in it is seen after a pass of its own.
        benches[1].time(&self.clock, repeats)?;
        let fault = self.fault_after(site, (&kernels[1].1, &benches[1]), &before, &samples_ns[1])?;
        cost.check += lap.end();
        if let Some((cause, why)) = fault {
            return Ok((Outcome::failed(cause, why), cost));
        }
        Ok((Outcome::Pair { samples_ns, repeats, copies }, cost))
    }

    /// Times the control kernel.
    fn control(&mut self, site: &InstanceGroup, which: &Configured) -> Result<(Outcome, Cost), RunnerError> {
        let mut lap = Lap::begin();
        let (known, bench) = match self.control.take() {
            Some((known, bench)) if known == *which => (known, bench),
            _ => {
                let (kernel, instance) = self.kernel(site, which)?;
                (which.clone(), Bench::new(&self.device, &kernel, &Case::random(&instance, Numbers::Even, 0), 1)?)
            }
        };
        let compile = lap.end();
        let repeats = self.repeats(&bench)?;
        let samples_ns = self.samples(&bench, repeats, CONTROL_SAMPLES)?;
        self.control = Some((known, bench));
        let outcome = Outcome::Control(Timing { samples_ns, repeats, copies: 1, gate: None });
        Ok((outcome, Cost { compile, timed: lap.end(), ..Cost::default() }))
    }

    /// Finds how many dispatches make a sample long enough, on a device whose clocks are up.
    fn repeats(&mut self, bench: &Bench) -> Result<u32, RuntimeError> {
        self.pulse.raise(&self.clock)?;
        let mut n = 1;
        // The first touch of its operands tells nothing.
        bench.time(&self.clock, n)?;
        loop {
            let ns = bench.time(&self.clock, n)?.ns * f64::from(n);
            if ns >= SAMPLE_NS || n >= MOST_REPEATS {
                return Ok(n);
            }
            let factor = (1.2 * SAMPLE_NS / ns.max(1.0)).clamp(1.2, 50.0);
            n = ((f64::from(n) * factor).ceil() as u32).min(MOST_REPEATS);
        }
    }

    /// Raises the clocks of a device that was idle.
    pub(super) fn raise_clocks(&mut self) -> Result<(), RuntimeError> {
        self.pulse.raise(&self.clock)
    }
}

impl Runner for KernelRunner {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        self.alive()?;
        let job = assignment.job;
        let known = || assignment.site.ok_or_else(|| RunnerError::Unknown("no site".to_owned()));
        let ran = match job {
            Job::Kernel { kernel, .. } => self.measure(known()?, kernel, assignment.progress),
            Job::Kernels { kernels, held_out, .. } => self.pair(known()?, (kernels, *held_out), assignment.progress),
            Job::Control { kernel, .. } => self.control(known()?, kernel),
            Job::Compile { .. } => Ok((Outcome::Done, Cost::default())),
            Job::Gate { .. }
            | Job::ExtendedGate { .. }
            | Job::Resident { .. }
            | Job::Prepare { .. }
            | Job::Screen { .. }
            | Job::Steps { .. }
            | Job::Confirm { .. } => Err(RunnerError::Unknown("a model".to_owned())),
        };
        match ran {
            Err(RunnerError::Runtime(error)) => Ok((self.failed(job, &error), Cost::default())),
            ran => ran,
        }
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.alive()?;
        let mut lap = Lap::begin();
        // What cannot be made says so when it is asked for.
        let made: Vec<_> = kernels.iter().filter_map(|which| Some((self.kernel(site, which).ok()?, which))).collect();
        let Some(((_, instance), _)) = made.first() else { return Ok((Outcome::Done, Cost::default())) };
        let instance = instance.clone();
        // Few rows have kernels of their own, where rows are in the text.
        let rests = made.iter().filter_map(|((_, instance), which)| self.kernel_at(&rest_of(instance)?, which).ok());
        let all: Vec<Kernel> =
            rests.collect::<Vec<_>>().into_iter().chain(made.into_iter().map(|((k, _), _)| k)).collect();
        let outcome = match self.setup(site, &instance, Numbers::Even) {
            Ok(setup) => {
                setup.operands.compile_ahead(&all.iter().collect::<Vec<_>>());
                Outcome::Done
            }
            Err(RunnerError::Runtime(error)) => self.failed(&Job::Compile { site: site_id(site) }, &error),
            Err(error) => return Err(error),
        };
        Ok((outcome, Cost { compile: lap.end(), ..Cost::default() }))
    }

    fn spent(&self) -> Duration {
        self.begun.elapsed()
    }

    fn clock(&self) -> ledger::Clock {
        match self.clock.source() {
            ClockSource::Timestamps => ledger::Clock::Timestamps,
            ClockSource::Wall => ledger::Clock::Wall,
        }
    }

    fn doubt(&self) -> Option<&str> {
        self.clock.doubt.as_deref()
    }
}

/// What is wrong with a result, if anything.
fn fault_of(deviation: &Deviation) -> Option<String> {
    (!deviation.passed()).then(|| deviation.to_string())
}

/// Seconds between two moments.
pub(super) struct Lap(Instant);

impl Lap {
    pub(super) fn begin() -> Self {
        Lap(Instant::now())
    }

    /// Seconds since the lap before ended.
    pub(super) fn end(&mut self) -> f64 {
        let now = Instant::now();
        now.duration_since(std::mem::replace(&mut self.0, now)).as_secs_f64()
    }
}

/// Weight bytes over which to rotate: beyond the last-level cache of a GPU, within reason on a CPU.
fn rotate_bytes(limits: &Limits) -> u64 {
    (limits.storage_binding / 8).min(256 << 20)
}
