//! The cost of rounding to other formats: the error of each tensor, relative to its size.

use crate::blocks;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use wgoose_graph::{Format, Weight};

/// Weights decoded at a time.
const PIECE: usize = 4096;

/// The largest error that rounding has made of one weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounding {
    /// Root mean square of the error over that of the source; 0 where no number has changed.
    pub error: f64,
    /// Where that is.
    pub worst: Weight,
}

/// Sums of squares of some rows: of the error, and of the source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundingSums {
    error: f64,
    size: f64,
}

impl RoundingSums {
    /// Of numbers that were encoded as whole blocks of a format.
    pub(super) fn of(numbers: &[f32], format: Format, encoded: &[u8]) -> Self {
        let mut sums = RoundingSums::default();
        let mut rounded = [0.0; PIECE];
        let piece_bytes = PIECE / format.block_weights() * format.block_bytes();
        for (numbers, encoded) in numbers.chunks(PIECE).zip(encoded.chunks(piece_bytes)) {
            let rounded = &mut rounded[..numbers.len()];
            blocks::decode(format, encoded, rounded);
            for (number, rounded) in numbers.iter().zip(rounded) {
                sums.error += f64::from(*number - *rounded).powi(2);
                sums.size += f64::from(*number).powi(2);
            }
        }
        sums
    }

    fn relative(self) -> f64 {
        if self.error == 0.0 { 0.0 } else { (self.error / self.size).sqrt() }
    }
}

/// The sums of every weight, collected by all threads.
#[derive(Debug, Default)]
pub(super) struct Roundings(Mutex<HashMap<Weight, RoundingSums>>);

impl Roundings {
    pub(super) fn add(&self, weight: Weight, sums: RoundingSums) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_weight = all.entry(weight).or_default();
        of_weight.error += sums.error;
        of_weight.size += sums.size;
    }

    /// The weight that rounding has changed most; what is no number is the worst.
    pub(super) fn worst(&self) -> Rounding {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let roundings = all.iter().map(|(weight, sums)| Rounding { error: sums.relative(), worst: *weight });
        let none = Rounding { error: 0.0, worst: Weight::Embedding };
        roundings.fold(none, |worst, next| if next.error.total_cmp(&worst.error).is_gt() { next } else { worst })
    }
}
