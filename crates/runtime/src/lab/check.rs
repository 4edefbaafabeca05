//! One kernel against the reference: every element written, nothing written past the end, the same bits twice, whatever y held
//! before.

use crate::RuntimeError;
use crate::lab::bench::{Before, Bench};
use crate::lab::case::Case;
use rayon::prelude::*;
use wgoose_kernels::ops;

/// How far a kernel is from the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Largest error, relative to the root mean square of the reference's output: of y or of the state, whichever has the
    /// larger share of what is allowed.
    pub worst: f32,
    /// What is allowed there: the op's tolerance, what the kernel's precision adds to it, and storing as f16.
    pub tolerance: f32,
    /// Why it is wrong whatever the numbers: elements not written, guard words overwritten, different bits the second time.
    pub fault: Option<String>,
    /// Hash of the bits of y and the state, 16 hex digits: kernels with the same one can take each other's place, and no text changes.
    pub bits: String,
}

impl Deviation {
    /// Whether the kernel may be used.
    pub fn passed(&self) -> bool {
        self.fault.is_none() && self.worst <= self.tolerance
    }
}

/// What the reference makes of a case; computed once, compared with many kernels.
#[derive(Clone, Debug)]
pub struct Expected {
    y: Vec<f32>,
    state: Option<Vec<f32>>,
    tolerance: f32,
}

impl Expected {
    /// Runs the reference.
    pub fn of(case: &Case) -> Self {
        let (y, state) = case.reference();
        Expected { y, state, tolerance: (ops::kernels(&case.instance.op).tolerance)(&case.instance) }
    }
}

/// An error as a share of what is allowed, which may be nothing.
pub(crate) fn share(error: f32, tolerance: f32) -> f32 {
    if error == 0.0 { 0.0 } else { error / tolerance }
}

/// What storing values as packed f16 adds to their error: the largest is cut after 11 bits, for a device may round towards zero.
pub(crate) fn packing_error(values: &[f32]) -> f32 {
    let largest = values.iter().filter(|y| !y.is_nan()).fold(0.0f32, |largest, y| largest.max(y.abs()));
    largest / 1024.0 / root_mean_square(values) as f32
}

/// Runs a kernel twice on the bench's first case and compares with what is expected.
///
/// # Errors
/// The device fails.
pub fn check(bench: &Bench, case: &Case, expected: &Expected) -> Result<Deviation, RuntimeError> {
    let (y, state) = bench.run(case)?;
    // In a step y lies where other ops left numbers: what it holds must not count.
    let again = bench.run_over(case, Before::Stale)?;
    let (written, guards) = y.split_at(case.instance.output_len());
    let mut fault = None;
    if guards.iter().any(|guard| guard.to_bits() != Bench::GUARD.to_bits()) {
        fault = Some("it wrote past the end of y".to_owned());
    } else if !same_bits(&defined(&y, &expected.y), &defined(&again.0, &expected.y))
        || !same_bits(state.as_deref().unwrap_or(&[]), again.1.as_deref().unwrap_or(&[]))
    {
        fault = Some("two runs on the same data differ".to_owned());
    }
    let allowed = expected.tolerance + case.instance.rounding_error(bench.precision());
    let of = |got: &[f32], want: &[f32], is_packed: bool| {
        let stored = if is_packed { packing_error(want) } else { 0.0 };
        (largest_error(got, want).1, allowed + stored)
    };
    let packed = case.instance.packed;
    let (mut worst, mut tolerance) = of(written, &expected.y, packed.y);
    if let (Some(got), Some(want)) = (&state, &expected.state) {
        let of_state = of(got, want, packed.state);
        if share(of_state.0, of_state.1) > share(worst, tolerance) {
            (worst, tolerance) = of_state;
        }
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytemuck::cast_slice(&defined(&y, &expected.y)));
    hasher.update(bytemuck::cast_slice(state.as_deref().unwrap_or(&[])));
    let bits = hasher.finalize().to_hex()[..16].to_owned();
    Ok(Deviation { worst, tolerance, fault, bits })
}

/// Bytes of results that [`is_steady`] compares at most.
const COMPARED_BYTES: u64 = 32 << 20;

/// Nanoseconds that it may take.
const COMPARED_NS: f64 = 1e9;

/// Runs that a race which is lost once in a hundred times does not survive, where bytes and time allow so many.
const RUNS: u64 = 256;

/// Whether a kernel whose dispatch takes so many nanoseconds gives the same bits over and over: for those that are to be used, as it
/// costs as much as hundreds of dispatches.
///
/// # Errors
/// The device fails.
pub fn is_steady(bench: &Bench, case: &Case, ns: f64) -> Result<bool, RuntimeError> {
    let runs = RUNS.min(COMPARED_BYTES / bench.result_bytes(case)).min((COMPARED_NS / ns.max(1.0)) as u64);
    bench.repeats_itself(case, runs.max(2) as u32)
}

/// Where the largest error is, and how large relative to the root mean square of what is wanted; infinite where one is
/// NaN and the other is not.
pub(crate) fn largest_error(got: &[f32], want: &[f32]) -> (usize, f32) {
    let rms = root_mean_square(want);
    let error = |(g, w): (&f32, &f32)| match (g.is_nan(), w.is_nan()) {
        (true, true) => 0.0,
        (false, false) => f64::from((g - w).abs()) / rms,
        _ => f64::INFINITY,
    };
    // The first of equals, however the work is cut.
    let largest = |a: (usize, f64), b: (usize, f64)| if (b.1, a.0) > (a.1, b.0) { b } else { a };
    let all = got.par_iter().zip(want).map(error).enumerate();
    let (at, error) = all.with_min_len(1 << 14).reduce(|| (0, 0.0), largest);
    (at, error as f32)
}

/// What an op writes of its y, and the guard words: planes that it leaves out hold whatever they held.
fn defined(y: &[f32], want: &[f32]) -> Vec<f32> {
    let (written, guards) = y.split_at(want.len());
    let of_op = written.iter().zip(want).filter(|(_, want)| !want.is_nan()).map(|(y, _)| *y);
    of_op.chain(guards.iter().copied()).collect()
}

/// Whether both are the same to the bit, NaN or not.
fn same_bits(a: &[f32], b: &[f32]) -> bool {
    bytemuck::cast_slice::<f32, u8>(a) == bytemuck::cast_slice::<f32, u8>(b)
}

/// Of the values that are numbers; not 0.
fn root_mean_square(values: &[f32]) -> f64 {
    let finite = values.iter().filter(|value| !value.is_nan());
    let squares: f64 = finite.clone().map(|value| f64::from(*value).powi(2)).sum();
    (squares / finite.count().max(1) as f64).sqrt().max(1e-6)
}
