//! Rows of logits, many at a time: what each says of the token that followed, and how far it is from a reference's.

use super::EvalError;
use rayon::prelude::*;
use wgoose_runtime::logits::{best, divergence_from, log_sum, squares};

/// What one row shows, held against the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    /// Negative log-probability of the token that followed, in nats.
    pub(super) nats: f64,
    /// The same by the reference.
    pub(super) reference_nats: f64,
    /// Divergence from the reference, in nats.
    pub(super) kl: f64,
    /// Whether the likeliest token is the same.
    pub(super) agrees: bool,
    /// Sums of squares of the logits: of the error, and of the reference's.
    pub(super) squares: [f64; 2],
}

/// Negative log-probabilities of the tokens that followed, in nats; `first` is the index of the first of them in the text.
pub(super) fn nats(logits: &[f32], vocab: usize, followed: &[u32], first: u64) -> Result<Vec<f64>, EvalError> {
    let nats: Vec<f64> = logits
        .par_chunks_exact(vocab)
        .zip(followed)
        .map(|(row, id)| log_sum(row) - f64::from(row[*id as usize]))
        .collect();
    check(&nats, "model's", first)?;
    Ok(nats)
}

/// As [`nats`], against the rows of a reference.
pub(super) fn compared(
    logits: &[f32],
    wanted: &[f32],
    vocab: usize,
    followed: &[u32],
    first: u64,
) -> Result<Vec<Compared>, EvalError> {
    let pairs = logits.par_chunks_exact(vocab).zip(wanted.par_chunks_exact(vocab));
    let rows: Vec<Compared> =
        pairs.zip(followed).map(|((row, wanted), id)| compare(row, wanted, *id as usize)).collect();
    check(&rows.iter().map(|row| row.reference_nats).collect::<Vec<_>>(), "reference's", first)?;
    check(&rows.iter().map(|row| row.nats + row.kl).collect::<Vec<_>>(), "model's", first)?;
    Ok(rows)
}

fn compare(row: &[f32], wanted: &[f32], followed: usize) -> Compared {
    let (sum, wanted_sum) = (log_sum(row), log_sum(wanted));
    Compared {
        nats: sum - f64::from(row[followed]),
        reference_nats: wanted_sum - f64::from(wanted[followed]),
        kl: divergence_from(wanted, wanted_sum, row, sum),
        agrees: best(row) == best(wanted),
        squares: squares(row, wanted),
    }
}

fn check(nats: &[f64], whose: &'static str, first: u64) -> Result<(), EvalError> {
    match nats.iter().position(|nats| !nats.is_finite()) {
        Some(i) => Err(EvalError::NoNumbers { whose, token: first + i as u64 }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_by_hand() {
        // Probabilities 1/4, 3/4 and 1/2, 1/2; the reference has 1/2, 1/2 both times.
        let logits = [0.0, 3f32.ln(), 1.0, 1.0];
        let wanted = [0.0, 0.0, 2.0, 2.0];
        let rows = compared(&logits, &wanted, 2, &[1, 0], 7).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        close(rows[0].nats, -0.75f64.ln());
        close(rows[0].reference_nats, 2f64.ln());
        close(rows[0].kl, 0.5 * 2f64.ln() + 0.5 * (0.5f64 / 0.75).ln());
        close(rows[1].kl, 0.0);
        assert!(!rows[0].agrees && rows[1].agrees);
        assert_eq!(rows[1].squares, [2.0, 8.0]);
        assert_eq!(nats(&logits, 2, &[1, 0], 7).unwrap(), rows.iter().map(|row| row.nats).collect::<Vec<_>>());
    }

    #[test]
    fn logits_that_are_not_finite_are_named() {
        let bad = [0.0, 0.0, f32::NAN, 0.0];
        let message = |rows: Result<Vec<Compared>, EvalError>| rows.unwrap_err().to_string();
        assert!(nats(&bad, 2, &[1, 1], 7).unwrap_err().to_string().contains("model's logits before token 8"));
        assert!(message(compared(&bad, &[0.0; 4], 2, &[1, 1], 7)).contains("model's logits before token 8"));
        assert!(message(compared(&[0.0; 4], &bad, 2, &[1, 1], 7)).contains("reference's logits before token 8"));
    }
}
