//! How far two results are apart.

use wgoose_runtime::StateData;

/// Allowed deviations of two ways to compute the same, root mean square relative to the size.
#[derive(Clone, Copy)]
pub(crate) struct Tolerance {
    /// Of the logits of token 0 of a fresh sequence: the group norm there leaves little more than a sign.
    pub(crate) first: f64,
    /// Of every later token and of every tensor of the state.
    pub(crate) later: f64,
}

impl Tolerance {
    /// Kernels against references that sum in double precision.
    pub(crate) const REFERENCE: Tolerance = Tolerance { first: 5e-4, later: 1e-4 };
    /// The same sums in another order, in single precision.
    pub(crate) const ROUNDING: Tolerance = Tolerance { first: 2e-5, later: 2e-5 };
    /// Rounding of the state between passes, nothing else.
    pub(crate) const REFERENCE_SPLIT: Tolerance = Tolerance { first: 0.0, later: 1e-6 };
}

/// All logits of a sequence from its first token on, and the state after it.
pub(crate) type Result = (Vec<f32>, StateData);

/// The first deviation beyond the tolerance, in words.
pub(crate) fn disagreement(vocab: u32, got: &Result, want: &Result, tolerance: Tolerance) -> Option<String> {
    if got.0.len() != want.0.len() {
        return Some(format!("{} logits instead of {}", got.0.len(), want.0.len()));
    }
    let rows = got.0.chunks(vocab as usize).zip(want.0.chunks(vocab as usize));
    let logits = rows.enumerate().map(|(t, (got, want))| {
        let allowed = if t == 0 { tolerance.first } else { tolerance.later };
        (format!("the logits of token {t}"), deviation(got, want), allowed)
    });
    let state = got.1.0.iter().zip(&want.1.0).map(|((tensor, got), (other, want))| {
        assert_eq!(tensor, other);
        (tensor.to_string(), deviation(got, want), tolerance.later)
    });
    let off = logits.chain(state).find(|(_, off, allowed)| off.is_nan() || off > allowed);
    off.map(|(what, off, allowed)| format!("{what}: off by {off:.1e}, allowed {allowed:.0e}"))
}

/// Asserts that two results agree.
#[track_caller]
pub(crate) fn assert_agree(what: &str, vocab: u32, got: &Result, want: &Result, tolerance: Tolerance) {
    if let Some(why) = disagreement(vocab, got, want, tolerance) {
        panic!("{what}: {why}");
    }
}

/// Root mean square of the difference over that of what is wanted.
fn deviation(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let square = |x: f64| x * x;
    let difference: f64 = got.iter().zip(want).map(|(g, w)| square(f64::from(*g) - f64::from(*w))).sum();
    let size: f64 = want.iter().map(|w| square(f64::from(*w))).sum();
    if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }
}
