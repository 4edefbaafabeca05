//! One kernel against the reference: every element written, nothing written past the end, the same bits twice, whatever
//! y held before, and after it was timed.

use crate::RuntimeError;
use crate::kernel_bench::bench::{Bench, Ran};
use crate::kernel_bench::case::{Case, Numbers};
use rayon::prelude::*;
use std::borrow::Cow;
use std::fmt;
use wgoose_kernels::{UNKNOWN, UNWRITTEN, ops};

/// How far a kernel is from the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Largest error, relative to the root mean square of the reference's output: of y or of the state, whichever has
    /// the larger share of what is allowed.
    pub worst: f32,
    /// What is allowed there: the op's tolerance, what the kernel's precision adds to it, and storing as f16.
    pub tolerance: f32,
    /// Where that error is.
    pub at: At,
    /// Why it is wrong whatever the numbers: elements not written, guard words overwritten, different bits the second
    /// time.
    pub fault: Option<String>,
    /// Hash of the bits of y and the state, 16 hex digits: kernels with the same one can take each other's place, and
    /// no text changes.
    pub bits: String,
}

/// A value that a kernel computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct At {
    /// Of what: y or the state.
    pub of: &'static str,
    /// Its index.
    pub index: usize,
    /// What it is.
    pub got: f32,
    /// What it is of the reference.
    pub want: f32,
}

/// What is wrong, or how far it is from the reference.
impl fmt::Display for Deviation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Some(fault) => f.write_str(fault),
            None => {
                let At { of, index, got, want } = self.at;
                write!(f, "error {:.1e}, allowed {:.1e}: ", self.worst, self.tolerance)?;
                write!(f, "{of}[{index}] is {got:e} instead of {want:e}")
            }
        }
    }
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
    /// All of y by another kernel, which is right where the reference says something: of a large product it says some
    /// columns only. And what is allowed of that one.
    by_another: Option<(Vec<f32>, f32)>,
}

impl Expected {
    /// Runs the reference.
    pub fn of(case: &Case) -> Self {
        let (y, state) = case.reference();
        let leaves_out = y.par_iter().any(|y| is(*y, UNWRITTEN));
        let tolerance = (ops::kernels(&case.instance.op).tolerance)(&case.instance) * case.numbers.tolerance_factor();
        Expected { y, state, tolerance, leaves_out, by_another: None }
    }

    /// Whether the reference leaves out what a kernel computes.
    pub fn is_partial(&self) -> bool {
        self.y.par_iter().any(|y| is(*y, UNKNOWN))
    }

    /// Completes it with what another kernel makes of the case, unless that one is wrong where the reference says
    /// something, which is logged.
    ///
    /// # Errors
    /// The device fails.
    pub fn complete(&mut self, bench: &Bench, case: &Case) -> Result<(), RuntimeError> {
        let deviation = check(bench, case, self)?;
        if deviation.passed() {
            let mut y = bench.run(case)?.y;
            y.truncate(self.y.len());
            self.by_another = Some((y, self.allowed(bench, case)));
        } else {
            tracing::warn!("{} is wrong, nothing is held against it: {deviation}", bench.label());
        }
        Ok(())
    }

    /// The error that a kernel may have, but for that of storing as f16.
    fn allowed(&self, bench: &Bench, case: &Case) -> f32 {
        self.tolerance + case.instance.rounding_error(bench.precision()) * case.numbers.rounding_factor()
    }

    /// Whether the op writes the value there; what follows y is not to change.
    fn is_written(&self, i: usize) -> bool {
        self.y.get(i).is_none_or(|y| !is(*y, UNWRITTEN))
    }

    /// What an op writes of its y, and the guard words.
    fn written<'y>(&self, y: &'y [f32]) -> Cow<'y, [f32]> {
        match self.leaves_out {
            true => y.iter().enumerate().filter(|(i, _)| self.is_written(*i)).map(|(_, y)| *y).collect(),
            false => Cow::Borrowed(y),
        }
    }

    /// Hash of what a kernel left, 16 hex digits.
    fn bits(&self, Ran { y, state }: &Ran) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::cast_slice(&self.written(y)));
        hasher.update(bytemuck::cast_slice(state.as_deref().unwrap_or(&[])));
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// Whether a value is that mark.
fn is(value: f32, mark: f32) -> bool {
    value.to_bits() == mark.to_bits()
}

/// An error as a share of what is allowed, which may be nothing.
pub(crate) fn share(error: f32, tolerance: f32) -> f32 {
    if error == 0.0 { 0.0 } else { error / tolerance }
}

/// What storing values as packed f16 adds to their error: the largest is cut after 11 bits, for a device may round
/// towards zero.
pub(crate) fn packing_error(values: &[f32]) -> f32 {
    let largest = values.iter().filter(|y| y.is_finite()).fold(0.0f32, |largest, y| largest.max(y.abs()));
    largest / 1024.0 / root_mean_square(values) as f32
}

/// Runs a kernel twice on the bench's first case and compares with what is expected.
///
/// # Errors
/// The device fails.
pub fn check(bench: &Bench, case: &Case, expected: &Expected) -> Result<Deviation, RuntimeError> {
    // In a step y lies where other ops left numbers, as partials do: what they hold must not count.
    bench.spoil_partials();
    let (Ran { y, state }, is_same) = bench.run_twice(case, |i| expected.is_written(i))?;
    let (written, guards) = y.split_at(case.instance.output_len());
    let mut fault = None;
    if guards.iter().any(|guard| guard.to_bits() != Bench::GUARD.to_bits()) {
        fault = Some("it wrote past the end of y".to_owned());
    } else if !is_same {
        fault = Some("two runs on the same data differ".to_owned());
    }
    if fault.is_none()
        && let Some((at, n)) = bench.arrivals_left()?
    {
        fault = Some(format!("it leaves {n} in arrivals[{at}], where every launch finds 0"));
    }
    let allowed = expected.allowed(bench, case);
    let of = |name: &'static str, got: &[f32], want: &[f32], is_packed: bool, allowed: f32| {
        let stored = if is_packed { packing_error(want) } else { 0.0 };
        let got = match case.numbers {
            _ if case.may_spread() => Cow::Owned(without_spread(got, want)),
            Numbers::NotFinite => Cow::Owned(without_unknown(got, want)),
            _ => Cow::Borrowed(got),
        };
        let (index, error) = largest_error(&got, want);
        let value = |values: &[f32]| values.get(index).copied().unwrap_or_default();
        (error, allowed + stored, At { of: name, index, got: value(&got), want: value(want) })
    };
    let packed = case.instance.packed;
    let (mut worst, mut tolerance, mut at) = of("y", written, &expected.y, packed.y, allowed);
    let mut keep = |other: (f32, f32, At)| {
        if share(other.0, other.1) > share(worst, tolerance) {
            (worst, tolerance, at) = other;
        }
    };
    if let (Some(got), Some(want)) = (&state, &expected.state) {
        keep(of("state", got, want, packed.state, allowed));
    }
    if let Some((want, of_another)) = &expected.by_another {
        keep(of("y", written, want, packed.y, allowed + of_another));
    }
    let bits = expected.bits(&Ran { y, state });
    Ok(Deviation { worst, tolerance, at, fault, bits })
}

/// Hash of what a run of the first data set leaves, 16 hex digits, as of [`Deviation::bits`].
///
/// # Errors
/// The device fails.
pub fn bits(bench: &Bench, case: &Case, expected: &Expected) -> Result<String, RuntimeError> {
    Ok(expected.bits(&bench.run(case)?))
}

/// What a kernel left, but for NaN and infinities where the reference has numbers.
fn without_spread(got: &[f32], want: &[f32]) -> Vec<f32> {
    let seen = |(got, want): (&f32, &f32)| if want.is_finite() && !got.is_finite() { *want } else { *got };
    got.iter().zip(want).map(seen).collect()
}

/// What a kernel left, but for NaN and infinities where the reference says nothing: it does not say where the number
/// that is not finite reaches. Another kernel does.
fn without_unknown(got: &[f32], want: &[f32]) -> Vec<f32> {
    let seen = |(got, want): (&f32, &f32)| if is(*want, UNKNOWN) && !got.is_finite() { 0.0 } else { *got };
    got.iter().zip(want).map(seen).collect()
}

/// Runs of the first data set after a kernel was timed: one that counts its runs is seen to.
const RUNS_AFTER: usize = 3;

/// What is wrong with a kernel that was right before it was timed, if anything: what the last timed pass left in y,
/// what further runs make, and what it leaves in its counters. `bits` are those of the check.
///
/// # Errors
/// The device fails.
pub fn check_after(
    bench: &Bench,
    case: &Case,
    expected: &Expected,
    bits: &str,
) -> Result<Option<String>, RuntimeError> {
    let goes_on = case.instance.op.in_place().is_some() || expected.state.is_some();
    if !goes_on && expected.bits(&bench.as_left(case)?) != bits {
        return Ok(Some("after the timed runs y holds something else than after a run alone".to_owned()));
    }
    for run in 1..=RUNS_AFTER {
        if expected.bits(&bench.run(case)?) != bits {
            return Ok(Some(format!("run {run} after the timed ones gives other bits than a run before them")));
        }
    }
    let left = bench.arrivals_left()?;
    Ok(left.map(|(at, n)| format!("it leaves {n} in arrivals[{at}], where every launch finds 0")))
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
/// finite and the other is not. Where the reference says nothing, every finite number will do.
pub(crate) fn largest_error(got: &[f32], want: &[f32]) -> (usize, f32) {
    let rms = root_mean_square(want);
    let error = |(g, w): (&f32, &f32)| match (g.is_finite(), w.is_finite()) {
        (true, true) => f64::from((g - w).abs()) / rms,
        (true, false) if is(*w, UNKNOWN) => 0.0,
        (false, false) if !is(*w, UNKNOWN) => 0.0,
        _ => f64::INFINITY,
    };
    // The first of equals, however the work is cut.
    let largest = |a: (usize, f64), b: (usize, f64)| if (b.1, a.0) > (a.1, b.0) { b } else { a };
    let all = got.par_iter().zip(want).map(error).enumerate();
    let (at, error) = all.with_min_len(1 << 14).reduce(|| (0, 0.0), largest);
    (at, error as f32)
}

/// Of the values that are finite; not 0. Summed in parts, always the same ones.
fn root_mean_square(values: &[f32]) -> f64 {
    let part = |values: &[f32]| -> (f64, usize) {
        let finite = values.iter().filter(|value| value.is_finite());
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
