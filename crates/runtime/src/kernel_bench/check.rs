//! One kernel against the reference: every element written, nothing written past the end, the same bits twice, whatever
//! y held before.

use crate::RuntimeError;
use crate::kernel_bench::bench::{Bench, Ran};
use crate::kernel_bench::case::Case;
use rayon::prelude::*;
use std::borrow::Cow;
use wgoose_kernels::ops;

/// How far a kernel is from the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Largest error, relative to the root mean square of the reference's output: of y or of the state, whichever has
    /// the larger share of what is allowed.
    pub worst: f32,
    /// What is allowed there: the op's tolerance, what the kernel's precision adds to it, and storing as f16.
    pub tolerance: f32,
    /// Why it is wrong whatever the numbers: elements not written, guard words overwritten, different bits the second
    /// time.
    pub fault: Option<String>,
    /// Hash of the bits of y and the state, 16 hex digits: kernels with the same one can take each other's place, and
    /// no text changes.
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
    /// Whether the op leaves out planes of y: they hold whatever they held.
    leaves_out: bool,
}

impl Expected {
    /// Runs the reference.
    pub fn of(case: &Case) -> Self {
        let (y, state) = case.reference();
        let leaves_out = y.par_iter().any(|y| y.is_nan());
        Expected { y, state, tolerance: (ops::kernels(&case.instance.op).tolerance)(&case.instance), leaves_out }
    }

    /// Whether the op writes the value there; what follows y is not to change.
    fn is_written(&self, i: usize) -> bool {
        self.y.get(i).is_none_or(|y| !y.is_nan())
    }

    /// What an op writes of its y, and the guard words.
    fn written<'y>(&self, y: &'y [f32]) -> Cow<'y, [f32]> {
        match self.leaves_out {
            true => y.iter().enumerate().filter(|(i, _)| self.is_written(*i)).map(|(_, y)| *y).collect(),
            false => Cow::Borrowed(y),
        }
    }
}

/// An error as a share of what is allowed, which may be nothing.
pub(crate) fn share(error: f32, tolerance: f32) -> f32 {
    if error == 0.0 { 0.0 } else { error / tolerance }
}

/// What storing values as packed f16 adds to their error: the largest is cut after 11 bits, for a device may round
/// towards zero.
pub(crate) fn packing_error(values: &[f32]) -> f32 {
    let largest = values.iter().filter(|y| !y.is_nan()).fold(0.0f32, |largest, y| largest.max(y.abs()));
    largest / 1024.0 / root_mean_square(values) as f32
}

/// Runs a kernel twice on the bench's first case and compares with what is expected.
///
/// # Errors
/// The device fails.
pub fn check(bench: &Bench, case: &Case, expected: &Expected) -> Result<Deviation, RuntimeError> {
    // In a step y lies where other ops left numbers: what it holds must not count.
    let (Ran { y, state }, is_same) = bench.run_twice(case, |i| expected.is_written(i))?;
    let (written, guards) = y.split_at(case.instance.output_len());
    let mut fault = None;
    if guards.iter().any(|guard| guard.to_bits() != Bench::GUARD.to_bits()) {
        fault = Some("it wrote past the end of y".to_owned());
    } else if !is_same {
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
    hasher.update(bytemuck::cast_slice(&expected.written(&y)));
    hasher.update(bytemuck::cast_slice(state.as_deref().unwrap_or(&[])));
    let bits = hasher.finalize().to_hex()[..16].to_owned();
    Ok(Deviation { worst, tolerance, fault, bits })
}

/// Races that show more seldom than once in so many runs are not looked for.
const SELDOM: f64 = 100.0;

/// The share of races that may go unnoticed although they show as often as [`SELDOM`] says.
const UNNOTICED: f64 = 1e-4;

/// Nanoseconds that the runs of [`is_steady`] may take.
const COMPARED_NS: f64 = 1e9;

/// Runs that find a race which shows once in `seldom` runs, but for a share of `unnoticed`: n runs all agree with a
/// probability of (1 - 1 / seldom)^n.
fn runs_to_notice(seldom: f64, unnoticed: f64) -> u64 {
    (unnoticed.ln() / (-seldom.recip()).ln_1p()).ceil() as u64
}

/// Whether a kernel whose dispatch takes so many nanoseconds gives the same bits in every run, as long as all agree in
/// 917 runs: for kernels that are about to be used. Of a kernel that takes more than 1.1 ms only as many runs are
/// compared as a second has.
///
/// # Errors
/// The device fails.
pub fn is_steady(bench: &Bench, ns: f64) -> Result<bool, RuntimeError> {
    let runs = runs_to_notice(SELDOM, UNNOTICED).min((COMPARED_NS / ns.max(1.0)) as u64);
    bench.repeats_itself(runs.max(2))
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

/// Of the values that are numbers; not 0. Summed in parts, always the same ones.
fn root_mean_square(values: &[f32]) -> f64 {
    let part = |values: &[f32]| -> (f64, usize) {
        let finite = values.iter().filter(|value| !value.is_nan());
        finite.fold((0.0, 0), |(sum, n), value| (sum + f64::from(*value).powi(2), n + 1))
    };
    let parts: Vec<(f64, usize)> = values.par_chunks(1 << 14).map(part).collect();
    let (squares, n) = parts.into_iter().fold((0.0, 0), |all, part| (all.0 + part.0, all.1 + part.1));
    (squares / n.max(1) as f64).sqrt().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_runs_find_a_seldom_race() {
        assert_eq!(runs_to_notice(SELDOM, UNNOTICED), 917);
        for (seldom, unnoticed) in [(2.0, 0.01), (100.0, 1e-6), (1e4, 1e-3)] {
            let all_agree = |runs: u64| (1.0 - f64::recip(seldom)).powi(runs as i32);
            let runs = runs_to_notice(seldom, unnoticed);
            assert!(all_agree(runs) <= unnoticed && all_agree(runs - 1) > unnoticed, "{runs}");
        }
    }
}
