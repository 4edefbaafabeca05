//! The numbers of a case: even ones, and those with which a kernel that is right for even ones goes wrong.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::fmt;
use wgoose_graph::OperandKind;
use wgoose_kernels::{Domain, Precision};

/// What numbers the operands of a case have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Numbers {
    /// Evenly drawn from the range in which an operand lies.
    #[default]
    Even,
    /// As trained models have them: activations a thousand times as large in a few channels, exact zeros of both signs,
    /// subnormals, rows whose halves cancel; matrices with blocks of zeros.
    Trained,
    /// Matrices with the largest number of f16 in every row, and with scales that are subnormal or negative.
    Extreme,
    /// Even, but for one NaN or infinity in an activation.
    NotFinite,
}

impl Numbers {
    /// All of them, from the plainest on.
    pub const ALL: [Numbers; 4] = [Numbers::Even, Numbers::Trained, Numbers::Extreme, Numbers::NotFinite];

    /// Those with which a kernel of a precision is tested: what the coarser ones round is known for numbers that models
    /// have.
    #[must_use]
    pub fn for_precision(self, precision: Precision) -> Numbers {
        match (self, precision) {
            (Numbers::Extreme | Numbers::NotFinite, Precision::Q15 | Precision::F16 | Precision::Q8) => {
                Numbers::Trained
            }
            _ => self,
        }
    }

    /// Those with which values are packed as f16: what is beyond it is no number any more.
    #[must_use]
    pub(crate) fn packed(self) -> Numbers {
        match self {
            Numbers::Extreme | Numbers::NotFinite => Numbers::Trained,
            _ => self,
        }
    }

    /// How many times as large the error of rounding activations may be as for even ones
    /// ([`wgoose_kernels::Instance::rounding_error`]): an outlier takes the scale of up to 128 values, whose errors are
    /// then those of a step of `max / 127` each, beside a sum that is next to this one value times its weight:
    /// `sqrt(128) / (127 sqrt(12))` instead of `sqrt(3) / (127 sqrt(12))`.
    pub(crate) fn rounding_factor(self) -> f32 {
        match self {
            Numbers::Trained => (128.0f32 / 3.0).sqrt(),
            _ => 1.0,
        }
    }

    /// How many times as large the error of f32 may be as for even ones, over the root mean square of y: errors are
    /// those of the largest values, `sqrt(32)` times this where one channel in 32 has them, and `sqrt(3)` times where
    /// values are even.
    pub(crate) fn tolerance_factor(self) -> f32 {
        match self {
            Numbers::Trained => (CHANNELS_PER_OUTLIER as f32 / 3.0).sqrt(),
            _ => 1.0,
        }
    }
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Numbers::Even => "even numbers",
            Numbers::Trained => "numbers as trained models have them",
            Numbers::Extreme => "extreme weights",
            Numbers::NotFinite => "a number that is not finite",
        })
    }
}

/// One channel in so many is an outlier, one at least.
const CHANNELS_PER_OUTLIER: u64 = 32;

/// How far out it is.
const OUTLIER: f32 = 1000.0;

/// The same where values are stored as packed f16, which hold no more than a million.
const PACKED_OUTLIER: f32 = 20.0;

/// A subnormal f32.
const SUBNORMAL: f32 = 1e-40;

/// Numbers of a range, the same for the same seed.
pub(crate) struct Draws(SplitMix64);

impl Draws {
    pub(crate) fn new(seed: u64) -> Self {
        Draws(SplitMix64::seed_from_u64(seed))
    }

    /// Others for each part of the same thing.
    pub(super) fn part(seed: u64, part: u64) -> Self {
        Draws::new(seed ^ part.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }

    pub(crate) fn float(&mut self, (low, high): (f32, f32)) -> f32 {
        low + (high - low) * (self.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    pub(super) fn floats(&mut self, n: usize, range: (f32, f32)) -> Vec<f32> {
        (0..n).map(|_| self.float(range)).collect()
    }
}

/// What is drawn of an operand: its kind, its values' range, its columns, and whether it is stored as packed f16.
pub(super) struct Drawn {
    pub(super) kind: OperandKind,
    pub(super) domain: Domain,
    pub(super) cols: usize,
    pub(super) is_packed: bool,
}

impl Drawn {
    /// So many values.
    pub(super) fn values(&self, len: usize, numbers: Numbers, rng: &mut Draws) -> Vec<f32> {
        let mut values = rng.floats(len, self.domain.range());
        let is_activation = matches!(self.kind, OperandKind::Value | OperandKind::Planes)
            && matches!(self.domain, Domain::Activations(_));
        if is_activation && numbers == Numbers::Trained && len > 0 {
            self.as_trained(&mut values, rng);
        }
        values
    }

    fn as_trained(&self, values: &mut [f32], rng: &mut Draws) {
        let outlier = if self.is_packed { PACKED_OUTLIER } else { OUTLIER };
        let cols = self.cols.max(1);
        let channels = (cols as u64 / CHANNELS_PER_OUTLIER).max(1);
        let outliers: Vec<usize> = (0..channels).map(|_| rng.below(cols as u64) as usize).collect();
        for (i, row) in values.chunks_mut(cols).enumerate() {
            for value in &mut *row {
                match rng.below(64) {
                    0..6 => *value = 0.0,
                    6..8 => *value = -0.0,
                    8 => *value = SUBNORMAL,
                    _ => {}
                }
            }
            for channel in &outliers {
                if let Some(value) = row.get_mut(*channel) {
                    *value = outlier * rng.float(self.domain.range());
                }
            }
            // The second half takes back what the first one adds where weights repeat (`matrix`). Errors are told as a
            // share of y: one row at least has some.
            if i > 0 && rng.below(4) == 0 && row.len().is_multiple_of(2) {
                let (first, second) = row.split_at_mut(row.len() / 2);
                second.iter_mut().zip(first).for_each(|(second, first)| *second = -*first);
            }
        }
    }
}
