//! Property tests of one variant: at random models, batches, formats and configurations it equals the reference of its
//! op.
//!
//! A case that fails is shrunk: to the smallest model and batch seen at which it still fails, as plain data that
//! reproduces it.

mod drawn;
mod rows;

pub use drawn::DrawnCase;
pub use rows::test_rows;

use crate::kernel_bench::{Bench, Case, Deviation, Expected, check, share};
use crate::{Device, RuntimeError};
pub(super) use drawn::where_all_suits;
use drawn::{Draw, Placed, draws};
use proptest::test_runner::{Config as Runs, RngSeed, TestCaseError, TestError, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::{
    Catalogue, Config, Feature, Instance, Kernel, KernelError, Limits, Packed, PlanError, Refusal, Variant,
};

/// Draws that may be refused for each case that runs.
const REFUSED_PER_CASE: u32 = 20;

/// How much to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amount {
    /// Cases that run.
    pub cases: u32,
    /// What they are drawn with: the same seed draws the same cases.
    pub seed: u64,
    /// How long a case that fails is shrunk.
    pub shrinking: Duration,
}

impl Amount {
    /// A second of shrinking: people and programs wait for the verdict.
    pub fn new(cases: u32, seed: u64) -> Self {
        Amount { cases, seed, shrinking: Duration::from_secs(1) }
    }
}

/// What a property test found.
#[derive(Clone, Debug, Default)]
pub struct Tested {
    /// Cases that ran.
    pub cases: u32,
    /// The largest error, as a share of what is allowed.
    pub worst: f32,
    /// Why cases were skipped, and how many.
    pub skipped: BTreeMap<String, u32>,
    /// How many of them the device's limits and features refuse.
    pub beyond_device: u32,
    /// The smallest case seen that fails, and how.
    pub failure: Option<(DrawnCase, String)>,
}

/// A kernel at the instance of a case.
struct Made {
    case: DrawnCase,
    instance: Instance,
    kernel: Kernel,
}

impl Tested {
    /// Runs a kernel, and its form for packed values if it has one; says what is wrong, if anything.
    fn run(&mut self, device: &Arc<Device>, variant: &Variant, made: Made) -> Result<Option<String>, RuntimeError> {
        self.cases += 1;
        for made in [packed(device, variant, &made)?, Some(made)].into_iter().flatten() {
            let (share, wrong) = run(device, &made)?;
            self.worst = self.worst.max(share);
            if let Some(why) = wrong {
                self.failure = Some((made.case, why.clone()));
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn skip(&mut self, refusal: &Refusal) {
        *self.skipped.entry(refusal.to_string()).or_default() += 1;
        self.beyond_device += u32::from(refusal.is_of_device());
    }
}

/// Tests a variant of the op of that name at random cases.
///
/// # Errors
/// The variant's text is wrong, or the device fails beyond one kernel.
pub fn test_variant(device: &Arc<Device>, op: &str, variant: &Variant, amount: Amount) -> Result<Tested, RuntimeError> {
    let (tested, stopped) = (RefCell::new(Tested::default()), RefCell::new(None));
    let formats = formats(device, op, variant, &mut tested.borrow_mut())?;
    if formats.is_empty() {
        return Ok(tested.into_inner());
    }
    let runs = Runs {
        cases: amount.cases,
        max_global_rejects: amount.cases.saturating_mul(REFUSED_PER_CASE),
        max_shrink_iters: u32::MAX,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(amount.seed),
        ..Runs::default()
    };
    let one = |draw: Draw| -> Result<Option<String>, Unmade> {
        let mut tested = tested.borrow_mut();
        let placed = draw.placed(op).ok_or(Refusal::None("the model has no such op instance"))?;
        let made = made(device, op, variant, &placed, &draw.configs(variant))?;
        Ok(tested.run(device, variant, made)?)
    };
    let first_failed = Cell::new(None::<Instant>);
    // Once it is over, a smaller case counts as one that passes.
    let is_over = || first_failed.get().is_some_and(|at| at.elapsed() >= amount.shrinking);
    let unless_over = |draw| if is_over() { Ok(None) } else { one(draw) };
    let result = TestRunner::new(runs).run(&draws(variant, formats), |draw| match unless_over(draw) {
        Ok(None) => Ok(()),
        Ok(Some(wrong)) => {
            first_failed.set(first_failed.get().or_else(|| Some(Instant::now())));
            Err(TestCaseError::fail(wrong))
        }
        Err(Unmade::Refused(refusal)) => {
            tested.borrow_mut().skip(&refusal);
            Err(TestCaseError::reject("refused"))
        }
        Err(Unmade::Broken(error)) => {
            // The first one: proptest goes on to shrink.
            stopped.borrow_mut().get_or_insert(error);
            Err(TestCaseError::fail("stopped"))
        }
    });
    if let Some(error) = stopped.into_inner() {
        return Err(error);
    }
    // The last case that failed is the smallest. A test that ran out of draws has tested fewer cases, and says how
    // many.
    let tested = tested.into_inner();
    debug_assert_eq!(tested.failure.is_some(), matches!(result, Err(TestError::Fail(..))));
    Ok(tested)
}

/// Tests a variant where every size suits: the configuration nearest to its default, and with `every` more until each
/// choice of each tunable has run, the one that takes most new choices next. Each runs at an even and at an odd number
/// of groups along a product's sums.
///
/// # Errors
/// The variant's text is wrong, or the device fails beyond one kernel.
pub fn test_choices(device: &Arc<Device>, op: &str, variant: &Variant, every: bool) -> Result<Tested, RuntimeError> {
    let (mut tested, mut covered) = (Tested::default(), BTreeSet::<(usize, u8)>::new());
    let places = where_all_suits(op);
    let mut left = variant.configs();
    while !left.is_empty() && (tested.cases == 0 || every) {
        // Before anything has run, the nearest to the default is first; of equals the nearest.
        let new_choices = |config: &Config| choices(config).filter(|choice| !covered.contains(choice)).count();
        let next = match tested.cases {
            0 => 0,
            _ => (0..left.len()).rev().max_by_key(|i| new_choices(&left[*i])).unwrap_or(0),
        };
        let config = left.remove(next);
        if new_choices(&config) == 0 && tested.cases > 0 {
            break;
        }
        let (mut refusal, mut parity, first) = (None, None, 7 * tested.cases as usize);
        for placed in in_turn(&places, first, device.is_cpu()) {
            let own = groups_parity(&placed.instance);
            // Products of an even and of an odd number of groups: loops that take several at once end differently.
            if parity.is_some_and(|parity| own.is_none() || own == parity) {
                continue;
            }
            match made(device, op, variant, placed, std::slice::from_ref(&config)) {
                Ok(made) => {
                    covered.extend(choices(&config));
                    refusal = None;
                    if tested.run(device, variant, made)?.is_some() {
                        return Ok(tested);
                    }
                    if parity.is_some() || own.is_none() {
                        break;
                    }
                    parity = Some(own);
                }
                Err(Unmade::Refused(why)) if parity.is_none() => {
                    let is_refused_everywhere = matches!(why, Refusal::Feature(_));
                    refusal = refusal.or(Some(why));
                    if is_refused_everywhere {
                        break;
                    }
                }
                Err(Unmade::Refused(_)) => {}
                Err(Unmade::Broken(error)) => return Err(error),
            }
        }
        refusal.iter().for_each(|refusal| tested.skip(refusal));
    }
    Ok(tested)
}

/// Whether the columns of a product's matrix are an odd number of groups of 32; `None` for other ops.
fn groups_parity(instance: &Instance) -> Option<bool> {
    instance.input("w").map(|w| w.cols / 32 % 2 == 1)
}

/// The choices that a configuration takes: the index of each tunable, and of its choice.
fn choices(config: &Config) -> impl Iterator<Item = (usize, u8)> + '_ {
    config.choices().iter().copied().enumerate()
}

/// Formats and shapes take turns. Where kernels are compiled for a CPU, blocks come last: unrolled, they take its
/// compiler up to a minute each.
fn in_turn(places: &[Placed], first: usize, floats_first: bool) -> impl Iterator<Item = &Placed> {
    let (first_of_all, last): (Vec<&Placed>, Vec<&Placed>) =
        places.iter().partition(|placed| !floats_first || !placed.format().is_quantised());
    let rotated = move |mut list: Vec<_>| {
        let by = first % list.len().max(1);
        list.rotate_left(by);
        list
    };
    rotated(first_of_all).into_iter().chain(rotated(last))
}

/// Runs a case that was saved; what is wrong with it, if anything.
///
/// # Errors
/// There is no such variant or configuration, its text is wrong, or the device fails.
pub fn run_case(device: &Arc<Device>, catalogue: &Catalogue, case: &DrawnCase) -> Result<Option<String>, RuntimeError> {
    let variant = catalogue.variant(&case.op, &case.variant);
    let variant = variant.ok_or_else(|| PlanError::Unknown(format!("{}/{}", case.op, case.variant)))?;
    let config = variant.config(&case.config);
    let config = config.map_err(|error| PlanError::Config { key: "the case".to_owned(), error: Box::new(error) })?;
    let Some(instance) = case.instance() else {
        return Ok(Some("the case has no such op instance".to_owned()));
    };
    match Kernel::new(variant, &instance, &config, device.limits()) {
        Ok(kernel) => Ok(run(device, &Made { case: case.clone(), instance, kernel })?.1),
        Err(KernelError::Refused(refusal)) => Ok(Some(format!("refused: {refusal}"))),
        Err(KernelError::Text(error)) => Err(PlanError::from(error).into()),
    }
}

/// The formats that a variant takes anywhere; where it takes none, why.
fn formats(
    device: &Device,
    op: &str,
    variant: &Variant,
    tested: &mut Tested,
) -> Result<BTreeSet<wgoose_graph::Format>, RuntimeError> {
    let (mut formats, mut refusal) = (BTreeSet::new(), None);
    for placed in where_all_suits(op) {
        if !formats.contains(&placed.format()) {
            match made(device, op, variant, &placed, &variant.configs()) {
                Ok(_) => drop(formats.insert(placed.format())),
                Err(Unmade::Refused(why)) => refusal = refusal.or(Some(why)),
                Err(Unmade::Broken(error)) => return Err(error),
            }
        }
    }
    if formats.is_empty() {
        tested.skip(&refusal.unwrap_or(Refusal::None("no model has that op")));
    }
    Ok(formats)
}

/// Why there is no case.
enum Unmade {
    /// No configuration is admitted.
    Refused(Refusal),
    /// Nothing can be tested.
    Broken(RuntimeError),
}

impl From<Refusal> for Unmade {
    fn from(refusal: Refusal) -> Self {
        Unmade::Refused(refusal)
    }
}

impl From<RuntimeError> for Unmade {
    fn from(error: RuntimeError) -> Self {
        Unmade::Broken(error)
    }
}

/// The kernel of the first configuration that is admitted, or why the first of them is not. Where speed heuristics
/// leave none a legal one is taken: large tiles are for more tokens than a case has. Compilers for a CPU take minutes
/// for some that are pruned, but for none on matrix units.
fn made(device: &Device, op: &str, variant: &Variant, placed: &Placed, configs: &[Config]) -> Result<Made, Unmade> {
    let (instance, mut first) = (&placed.instance, None);
    let admitted = |config: &Config| variant.admits(instance, config, device.limits());
    let takes_pruned = !device.is_cpu() || variant.may_need(Feature::CooperativeMatrix8);
    let is_pruned =
        |config: &Config| takes_pruned && matches!(admitted(config), Err(KernelError::Refused(Refusal::Pruned { .. })));
    let judged = configs.iter().map(|config| (config, admitted(config)));
    let pruned = configs.iter().filter(|config| is_pruned(config)).map(|config| (config, Ok(())));
    for (config, admitted) in judged.chain(pruned) {
        match admitted.and_then(|()| Kernel::new(variant, instance, config, device.limits())) {
            Ok(kernel) => {
                let case = placed.saved(op, variant, config, kernel.facts.precision);
                let instance = instance.clone();
                return Ok(Made { case, instance, kernel });
            }
            Err(KernelError::Refused(refusal)) => first = first.or(Some(refusal)),
            Err(KernelError::Text(error)) => return Err(Unmade::Broken(PlanError::from(error).into())),
        }
    }
    Err(first.unwrap_or(Refusal::None("the variant has no configurations")).into())
}

/// The same with x, y and the state packed, as far as the variant can.
fn packed(device: &Device, variant: &Variant, made: &Made) -> Result<Option<Made>, RuntimeError> {
    let config = variant.config(&made.case.config);
    let config = config.map_err(|error| PlanError::Config { key: "the case".to_owned(), error: Box::new(error) })?;
    let packed = packable(variant, &made.instance, &config, device.limits());
    if packed == Packed::default() {
        return Ok(None);
    }
    let instance = Instance { packed, ..made.instance.clone() };
    match Kernel::new(variant, &instance, &config, device.limits()) {
        Ok(kernel) => {
            let Packed { x, y, state } = packed;
            let numbers = made.case.numbers.packed();
            let case = DrawnCase { numbers, x_packed: x, y_packed: y, state_packed: state, ..made.case.clone() };
            Ok(Some(Made { case, instance, kernel }))
        }
        Err(KernelError::Refused(_)) => Ok(None),
        Err(KernelError::Text(error)) => Err(PlanError::from(error).into()),
    }
}

/// What of an instance the kernel of a configuration can take packed.
pub(super) fn packable(variant: &Variant, instance: &Instance, config: &Config, limits: &Limits) -> Packed {
    let can = |packed: Packed| {
        let instance = Instance { packed, ..instance.clone() };
        let takes_x = instance.inputs.iter().any(|i| i.name == "x") || !packed.x;
        let has_state = instance.op.updates_wkv() || !packed.state;
        takes_x && has_state && variant.is_legal(&instance, config, limits).is_ok()
    };
    let none = Packed::default();
    let (x, y) = (can(Packed { x: true, ..none }), can(Packed { y: true, ..none }));
    Packed { x, y, state: can(Packed { state: true, ..none }) }
}

/// The largest error of a kernel as a share of what is allowed, and what is wrong.
fn run(device: &Arc<Device>, made: &Made) -> Result<(f32, Option<String>), RuntimeError> {
    let Made { case, instance, kernel } = made;
    let operands = Case::random(instance, case.numbers, case.seed);
    let bench = match Bench::new(device, kernel, &operands, 1) {
        Err(RuntimeError::Compile { kernel, why }) => return Ok((0.0, Some(format!("{kernel}: {why}")))),
        other => other?,
    };
    let deviation = check(&bench, &operands, &Expected::of(&operands))?;
    let share = share(deviation.worst, deviation.tolerance);
    Ok((share, wrong(kernel, &deviation)))
}

/// What is wrong with a kernel, if anything.
fn wrong(kernel: &Kernel, deviation: &Deviation) -> Option<String> {
    (!deviation.passed()).then(|| format!("{}: {deviation}", kernel.label))
}
