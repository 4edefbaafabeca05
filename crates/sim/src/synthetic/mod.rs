//! A simulated device: every job has a true time, samples scatter around it, and a virtual clock adds up the cost. A
//! search is scored without a GPU, in milliseconds, and against the truth.

mod devices;
mod optimum;
mod truth;

pub use devices::{Costs, SimulatedDevice, limits_of_integrated, limits_of_software, simulated_problem, with_limits};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{HashMap, HashSet};
use std::f64::consts::TAU;
use std::time::Duration;
use truth::simulated_bits;
use wgoose_kernels::plan::Checked;
use wgoose_kernels::{Catalogue, Plan, PlanError, PrecisionClass};
use wgoose_measure::job::{Configured, Cost, Job, PlanId, Plans, SiteId};
use wgoose_measure::ledger::{Cause, Clock, Gate, Outcome, Records, Timing};
use wgoose_measure::paired::Effort;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::site_id;
use wgoose_measure::runner::{Assignment, Runner, RunnerError};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::stats::rng::unit;
use wgoose_measure::stats::sequential::{is_decided, is_worth_more};
use wgoose_measure::stats::summary::median;

/// What a gate that looks at decoding only takes of a whole one: lavapipe takes 8 of 25 s.
const DECODE_PART: f64 = 0.33;

/// Seconds that a device may idle and keep its clocks.
const STILL_WARM: f64 = 0.4;

/// Answers jobs as the device would.
pub struct SimulatedRunner<'a> {
    problem: &'a Problem,
    catalogue: &'a Catalogue,
    device: SimulatedDevice,
    now: f64,
    /// Seconds that were spent on waiting for the reference, beside these.
    waited: f64,
    rng: SplitMix64,
    /// The last sample's noise.
    last: f64,
    known: HashMap<(SiteId, String), f64>,
    /// Nanoseconds of the kernels of some sites that a device was seen to take; others of these sites fail.
    recorded: HashMap<SiteId, HashMap<String, f64>>,
    compiled: HashSet<(SiteId, Configured)>,
    /// Plans whose merged steps are compiled.
    prepared: HashSet<PlanId>,
    /// Whether the last thing that it did was to time a kernel.
    is_warm: bool,
    /// What the process that confirms a plan was begun for.
    confirming: Option<([PlanId; 2], u32)>,
}

impl<'a> SimulatedRunner<'a> {
    /// A device for a problem.
    pub fn new(problem: &'a Problem, catalogue: &'a Catalogue, device: SimulatedDevice) -> Self {
        let rng = SplitMix64::seed_from_u64(device.chance);
        SimulatedRunner {
            problem,
            catalogue,
            device,
            now: 0.0,
            waited: 0.0,
            rng,
            last: 0.0,
            known: HashMap::new(),
            recorded: HashMap::new(),
            compiled: HashSet::new(),
            prepared: HashSet::new(),
            is_warm: false,
            confirming: None,
        }
    }

    /// The same with the kernels that a ledger has of some sites: they take what they took, and those that failed do
    /// again. What they are worth more or less in a merged step stays made up, as there are too many steps to time them
    /// all.
    #[must_use]
    pub fn with_records(mut self, records: &Records) -> Self {
        for (_, trial) in records.trials().filter(|(_, trial)| trial.outcome.is_known()) {
            let Job::Kernel { site, kernel } = &trial.identity.tried else { continue };
            let known = self.recorded.entry(site.clone()).or_default();
            known.extend(median(trial.outcome.samples_ns()).map(|ns| (kernel.to_string(), ns)));
        }
        self
    }

    /// A sample of something that truly takes so long.
    fn sample(&mut self, ns: f64, since_pause: usize) -> f64 {
        let SimulatedDevice { noise, autocorrelation: a, ramp, .. } = self.device;
        self.last = a * self.last + (1.0 - a * a).sqrt() * noise * normal(&mut self.rng);
        ns * self.last.exp() * (1.0 + (ramp - 1.0) * 0.5f64.powi(since_pause as i32))
    }

    fn spend(&mut self, cost: Cost) -> Cost {
        self.now += cost.total();
        cost
    }

    fn is_wrong(&self, which: &Configured) -> bool {
        let share = (self.trait_of(&format!("wrong {which}")) + 3.0) / 6.0;
        share < self.device.wrong
    }

    fn kernel(&mut self, site: &InstanceGroup, which: &Configured) -> (Outcome, Cost) {
        let Costs { kernel: compile, check, warm_up, .. } = self.device.costs;
        let is_compiled = !self.compiled.insert((site_id(site), which.clone()));
        let compile = if is_compiled { 0.0 } else { compile };
        let warm_up = if is_compiled && self.is_warm { 0.01 } else { warm_up };
        self.is_warm = true;
        if self.is_wrong(which) {
            let cost = self.spend(Cost { compile, check, ..Cost::default() });
            return (Outcome::failed(Cause::WrongResult, "error 1, allowed 1e-5".to_owned()), cost);
        }
        let ns = self.kernel_ns(site, which);
        if ns.is_infinite() {
            let cost = self.spend(Cost { compile, check, ..Cost::default() });
            return (Outcome::failed(Cause::WrongResult, "it failed where it was recorded".to_owned()), cost);
        }
        let samples_ns: Vec<f64> = (0..5).map(|i| self.sample(ns, i + 6)).collect();
        let repeats = (2e6 / ns).ceil().clamp(1.0, 2000.0);
        let timed = warm_up + 5.0 * repeats * ns * 1e-9;
        let cost = self.spend(Cost { compile, check, timed, waited: 0.0 });
        let gate = Gate { bits: Some(simulated_bits(which)), ..Gate::passed([0.0; 2], String::new()) };
        (Outcome::Kernel(Timing { samples_ns, repeats: repeats as u32, copies: 1, gate: Some(gate) }), cost)
    }

    /// So many more samples of two things, interleaved, or as many as are enough.
    fn pair(
        &mut self,
        true_ns: [f64; 2],
        more: usize,
        is_enough: &dyn Fn(&[Vec<f64>; 2]) -> bool,
        mut samples_ns: [Vec<f64>; 2],
    ) -> [Vec<f64>; 2] {
        for i in 0..more {
            if is_enough(&samples_ns) {
                break;
            }
            for arm in if i % 2 == 0 { [0, 1] } else { [1, 0] } {
                let ns = self.sample(true_ns[arm], i + 6);
                samples_ns[arm].push(ns);
            }
        }
        samples_ns
    }

    fn steps(&mut self, plans: [&Plan; 2], scenario: Scenario, effort: Effort) -> Result<(Outcome, Cost), PlanError> {
        let true_ns = [self.true_ns(plans[0], scenario)?, self.true_ns(plans[1], scenario)?];
        let longest = true_ns[0].max(true_ns[1]) * 1e-9;
        let steps = match scenario.tokens {
            1 if longest < 0.05 => (0.05 / longest).ceil().clamp(4.0, 32.0),
            _ => 1.0,
        };
        let each = 2.0 * longest * steps;
        // Both arms are sampled until they are warm: at once, where a sample takes long.
        let sample = longest * steps;
        let warm_up = 0.25 + sample * (2.0 * (1.0 + (0.5 / sample).ceil())).min(6.0);
        let left = effort.allowance.as_secs_f64() - effort.instances as f64 * warm_up;
        let asked = effort.pairs();
        let pairs = ((left / each).max(0.0) as usize / effort.instances).clamp(*asked.start(), *asked.end());
        let mut samples_ns = [Vec::new(), Vec::new()];
        for instance in 1..=effort.instances {
            let own = true_ns.map(|ns| ns * (self.device.instance * normal(&mut self.rng)).exp());
            let (criteria, question) = (effort.criteria(), effort.question);
            let (is_last, fewest) = (instance == effort.instances, samples_ns[0].len() + *asked.start());
            let is_spent = |samples: &[Vec<f64>; 2]| {
                let taken = instance as f64 * warm_up + samples[0].len() as f64 * each;
                samples[0].len() >= fewest && effort.share.is_some_and(|share| taken >= share.as_secs_f64())
            };
            let is_enough = |samples: &[Vec<f64>; 2]| {
                is_spent(samples) || (is_last && is_decided(&samples[0], &samples[1], &criteria, question))
            };
            let mut next = pairs;
            while next > 0 {
                samples_ns = self.pair(own, next, &is_enough, samples_ns);
                let is_open = is_worth_more(&samples_ns[0], &samples_ns[1], &criteria, question);
                let goes_on = is_last && is_open && !is_spent(&samples_ns);
                next = if goes_on { effort.more(samples_ns[0].len()) } else { 0 };
            }
        }
        let pairs = samples_ns[0].len();
        let compile: f64 = plans.iter().map(|plan| self.prepare(plan)).sum();
        let timed = effort.instances as f64 * warm_up + pairs as f64 * each;
        let cost = self.spend(Cost { compile, timed, ..Cost::default() });
        Ok((Outcome::Pair { samples_ns, repeats: steps as u32, copies: 0 }, cost))
    }

    /// Starts of processes until their first token.
    fn starts(&mut self, plans: [&Plan; 2], scenario: Scenario, effort: Effort) -> Result<(Outcome, Cost), PlanError> {
        let start = self.device.costs.start * 1e9;
        let true_ns = [start + self.true_ns(plans[0], scenario)?, start + self.true_ns(plans[1], scenario)?];
        let samples_ns = self.pair(true_ns, *effort.pairs().start(), &|_| false, Default::default());
        let timed = samples_ns.iter().flatten().sum::<f64>() * 1e-9;
        let cost = self.spend(Cost { timed, ..Cost::default() });
        Ok((Outcome::Pair { samples_ns, repeats: 1, copies: 0 }, cost))
    }

    /// Seconds to begin a process for a plan, unless that was done.
    fn begin(&mut self, plans: &[PlanId; 2], process: u32) -> f64 {
        let confirming = Some((plans.clone(), process));
        if self.confirming == confirming {
            return 0.0;
        }
        self.confirming = confirming;
        self.device.costs.start
    }

    fn screen(&mut self, plans: [&Plan; 2], scenario: Scenario) -> Result<(Outcome, Cost), PlanError> {
        let true_ns = [self.true_ns(plans[0], scenario)?, self.true_ns(plans[1], scenario)?];
        let own = true_ns.map(|ns| ns * (self.device.instance * normal(&mut self.rng)).exp());
        let repeats = if scenario.tokens == 1 { 16 } else { 1 };
        let samples_ns = self.pair(own, 4, &|_| false, Default::default());
        let compile = self.prepare(plans[1]);
        let timed = 0.15 + 5.0 * f64::from(repeats) * (own[0] + own[1]) * 1e-9;
        let cost = self.spend(Cost { compile, timed, ..Cost::default() });
        Ok((Outcome::Pair { samples_ns, repeats, copies: 0 }, cost))
    }

    /// Seconds that a plan's kernels take to compile, unless they were before.
    fn prepare(&mut self, plan: &Plan) -> f64 {
        let Costs { plan: apart, merged, .. } = self.device.costs;
        match self.prepared.insert(PlanId::of(plan)) {
            true if plan.persistent.is_some() => merged,
            true => apart,
            false => 0.0,
        }
    }
}

impl Runner for SimulatedRunner<'_> {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        let Assignment { job, site, plans, effort, .. } = assignment;
        self.is_warm &= matches!(job, Job::Kernel { .. } | Job::Kernels { .. });
        let site = || site.ok_or_else(|| RunnerError::Unknown("no site".to_owned()));
        let plan =
            |id, plans: &'_ Plans| plans.get(id).cloned().ok_or_else(|| RunnerError::Unknown(format!("plan {id}")));
        let costs = self.device.costs;
        Ok(match job {
            Job::Kernel { kernel, .. } => self.kernel(site()?, kernel),
            Job::Kernels { kernels: both @ [a, b], .. } => {
                let site = site()?;
                let true_ns = [self.kernel_ns(site, a), self.kernel_ns(site, b)];
                let samples_ns = self.pair(true_ns, 8, &|_| false, Default::default());
                let new = both.iter().filter(|kernel| self.compiled.insert((site_id(site), (*kernel).clone()))).count();
                let warm_up = if new == 0 && self.is_warm { 0.01 } else { 2.0 * costs.warm_up };
                self.is_warm = true;
                let timed = warm_up + true_ns.iter().map(|ns| 8.0 * (ns * 1e-9).max(2e-3)).sum::<f64>();
                let cost = self.spend(Cost { compile: new as f64 * costs.kernel, timed, ..Cost::default() });
                (Outcome::Pair { samples_ns, repeats: 1, copies: 1 }, cost)
            }
            Job::Compile { .. } => (Outcome::Done, Cost::default()),
            Job::Control { kernel, .. } => {
                let ns = self.kernel_ns(site()?, kernel);
                let samples_ns = (0..9).map(|i| self.sample(ns, i + 6)).collect();
                let cost = self.spend(Cost { timed: costs.warm_up, ..Cost::default() });
                (Outcome::Control(Timing { samples_ns, repeats: 1, copies: 1, gate: None }), cost)
            }
            Job::Gate { plan: id, only_decode } => {
                let part = if *only_decode { DECODE_PART } else { 1.0 };
                let compile = part * self.prepare(&plan(id, plans)?);
                let waited = (costs.reference - self.now - self.waited).max(0.0);
                self.waited += waited;
                let cost = self.spend(Cost { compile, check: part * costs.gate, waited, ..Cost::default() });
                (Outcome::Gate(passed(Checked { tokens: 87, sequences: 4 })), cost)
            }
            Job::ExtendedGate { only_decode, .. } => {
                let part = if *only_decode { DECODE_PART } else { 1.0 };
                let cost = self.spend(Cost { check: part * costs.gate, ..Cost::default() });
                let [tokens, sequences] = if *only_decode { [64, 1] } else { [4611, 128] };
                (Outcome::Gate(passed(Checked { tokens, sequences })), cost)
            }
            Job::Resident { plan: id } => {
                let plan = plan(id, plans)?;
                let workgroups = plan.persistent.unwrap_or_default();
                let compile = self.prepare(&plan);
                let cost = self.spend(Cost { compile, ..Cost::default() });
                match workgroups <= self.device.resident {
                    true => (Outcome::Done, cost),
                    false => (Outcome::failed(Cause::NotResident, format!("{workgroups} workgroups")), cost),
                }
            }
            Job::Prepare { plans: ids } => {
                let mut slowest = 0f64;
                for id in ids {
                    slowest = slowest.max(self.prepare(&plan(id, plans)?));
                }
                let compile = slowest * ids.len().div_ceil(costs.cores) as f64;
                (Outcome::Done, self.spend(Cost { compile, ..Cost::default() }))
            }
            Job::Screen { plans: [a, b], scenario } => self.screen([&plan(a, plans)?, &plan(b, plans)?], *scenario)?,
            Job::Steps { plans: [a, b], scenario, .. } => {
                self.steps([&plan(a, plans)?, &plan(b, plans)?], *scenario, effort)?
            }
            Job::Confirm { plans: [a, b], scenario, .. } if scenario.from_start => {
                self.starts([&plan(a, plans)?, &plan(b, plans)?], *scenario, effort)?
            }
            Job::Confirm { plans: ids @ [a, b], scenario, process } => {
                let start = self.begin(ids, *process);
                self.spend(Cost { compile: start, ..Cost::default() });
                let (outcome, cost) = self.steps([&plan(a, plans)?, &plan(b, plans)?], *scenario, effort)?;
                (outcome, Cost { compile: cost.compile + start, ..cost })
            }
        })
    }

    fn compile_ahead(&mut self, site: &InstanceGroup, kernels: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        self.compiled.extend(kernels.iter().map(|kernel| (site_id(site), kernel.clone())));
        let compile = self.device.costs.kernel * kernels.len().div_ceil(self.device.costs.cores) as f64;
        self.is_warm &= compile < STILL_WARM;
        Ok((Outcome::Done, self.spend(Cost { compile, ..Cost::default() })))
    }

    fn spent(&self) -> Duration {
        Duration::from_secs_f64(self.now)
    }

    fn clock(&self) -> Clock {
        Clock::Simulated
    }

    fn start(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(self.device.costs.start))
    }
}

/// A draw from the normal distribution (Box and Muller).
fn normal(rng: &mut SplitMix64) -> f64 {
    // A draw in the loop: an unlucky seed gives a logarithm of zero otherwise.
    let radius = loop {
        let u = unit(rng);
        if u > 0.0 {
            break (-2.0 * u.ln()).sqrt();
        }
        rng.next_u64();
    };
    radius * (TAU * unit(rng)).cos()
}

/// A gate of a whole model that is passed.
fn passed(checked: Checked) -> Gate {
    Gate {
        quality_hash: Some("0123456789abcdef".to_owned()),
        class: Some(PrecisionClass::default()),
        certified: Some((183, 184)),
        agreeing: Some((5000, 5000)),
        checked: Some(checked),
        ..Gate::passed([1e-6; 2], "f32: 5000 of 5000 decisions agree, 183 of 184 positions certified".to_owned())
    }
}
