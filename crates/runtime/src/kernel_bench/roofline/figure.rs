//! One figure of a device: what it is, how large, how it was measured.

use serde::{Deserialize, Serialize};

/// What can be measured of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Reading memory, nothing written.
    ReadBandwidth,
    /// A kernel that copies; bytes read and bytes written both count.
    CopyBandwidth,
    /// The API's own copy of a buffer; bytes read and bytes written both count.
    CopyCommand,
    /// f32 multiply-adds, each two operations.
    FmaF32,
    /// f16 multiply-adds in vectors of two.
    FmaF16x2,
    /// f16 multiply-adds in vectors of four.
    FmaF16x4,
    /// `dot4I8Packed` and an addition, together eight operations.
    DotInt8,
    /// Products of f16 matrices on the matrix units, f32 sums.
    MatrixF16,
    /// A tiny dispatch that waits for the one before.
    DispatchDependent,
    /// A tiny dispatch that waits for none.
    DispatchIndependent,
    /// What waiting adds: the difference of the two above.
    DispatchBoundary,
    /// Submitting no work and waiting for it.
    SubmitEmpty,
    /// Submitting a tiny dispatch and waiting for it.
    SubmitDispatch,
    /// Copying 4 bytes to the CPU and reading them.
    ReadBack4,
    /// Copying 256 KiB to the CPU and reading them.
    ReadBack256Ki,
    /// Most workgroups that compute as fast as one.
    Multiprocessors,
    /// Most workgroups of 256 threads that run at once.
    ResidentWorkgroups,
    /// A barrier among an eighth of these workgroups.
    GridBarrierEighth,
    /// A barrier among all of these workgroups.
    GridBarrierAll,
}

impl Quantity {
    /// All of them, in the order of reports.
    pub const ALL: [Quantity; 19] = [
        Quantity::ReadBandwidth,
        Quantity::CopyBandwidth,
        Quantity::CopyCommand,
        Quantity::FmaF32,
        Quantity::FmaF16x2,
        Quantity::FmaF16x4,
        Quantity::DotInt8,
        Quantity::MatrixF16,
        Quantity::DispatchDependent,
        Quantity::DispatchIndependent,
        Quantity::DispatchBoundary,
        Quantity::SubmitEmpty,
        Quantity::SubmitDispatch,
        Quantity::ReadBack4,
        Quantity::ReadBack256Ki,
        Quantity::Multiprocessors,
        Quantity::ResidentWorkgroups,
        Quantity::GridBarrierEighth,
        Quantity::GridBarrierAll,
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Quantity::ReadBandwidth => "read-only bandwidth",
            Quantity::CopyBandwidth => "copy bandwidth, read + write",
            Quantity::CopyCommand => "buffer copy command, read + write",
            Quantity::FmaF32 => "f32 multiply-add",
            Quantity::FmaF16x2 => "f16 multiply-add, vec2",
            Quantity::FmaF16x4 => "f16 multiply-add, vec4",
            Quantity::DotInt8 => "int8 dot4I8Packed",
            Quantity::MatrixF16 => "f16 matrix units",
            Quantity::DispatchDependent => "tiny dispatch, dependent",
            Quantity::DispatchIndependent => "tiny dispatch, independent",
            Quantity::DispatchBoundary => "dispatch boundary",
            Quantity::SubmitEmpty => "submit + wait, nothing",
            Quantity::SubmitDispatch => "submit + wait, one dispatch",
            Quantity::ReadBack4 => "read-back of 4 bytes",
            Quantity::ReadBack256Ki => "read-back of 256 KiB",
            Quantity::Multiprocessors => "multiprocessors",
            Quantity::ResidentWorkgroups => "resident workgroups of 256",
            Quantity::GridBarrierEighth => "grid barrier, an eighth of them",
            Quantity::GridBarrierAll => "grid barrier, all of them",
        }
    }

    /// The unit in which it is given.
    pub const fn unit(self) -> &'static str {
        match self {
            Quantity::ReadBandwidth | Quantity::CopyBandwidth | Quantity::CopyCommand => "GB/s",
            Quantity::FmaF32 | Quantity::FmaF16x2 | Quantity::FmaF16x4 | Quantity::MatrixF16 => "GFLOP/s",
            Quantity::DotInt8 => "Gop/s",
            Quantity::Multiprocessors => "multiprocessors",
            Quantity::ResidentWorkgroups => "workgroups",
            _ => "us",
        }
    }
}

/// The spread of a list of samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Number of samples.
    pub n: usize,
}

impl Spread {
    /// Of samples, to six digits; `None` where there is none or one is not finite.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = samples.iter().copied().map(six_digits).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let n = sorted.len();
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = six_digits(sorted[(n - 1) / 2].midpoint(sorted[n / 2]));
        (sorted.iter().all(|x| x.is_finite())).then_some(Spread { median, min, max, n })
    }
}

/// More digits would be noise, and serde_json reads short numbers back exactly.
fn six_digits(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}

/// One figure of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// What it is.
    pub quantity: Quantity,
    /// [`Quantity::unit`].
    pub unit: String,
    /// The samples' spread; `None` if it cannot be measured on this device.
    pub value: Option<Spread>,
    /// How it was measured, or why it was not.
    pub how: String,
}

impl Figure {
    /// A figure from samples in its unit.
    pub(super) fn new(quantity: Quantity, samples: &[f64], how: impl Into<String>) -> Self {
        let value = Spread::of(samples);
        let how = if value.is_some() { how.into() } else { "the clock gave no usable sample".to_owned() };
        Figure { quantity, unit: quantity.unit().to_owned(), value, how }
    }

    /// A figure that this device cannot give.
    pub(super) fn missing(quantity: Quantity, why: impl Into<String>) -> Self {
        Figure { quantity, unit: quantity.unit().to_owned(), value: None, how: why.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert_eq!(Spread::of(&[3.0, 1.0, 8.0]), Some(Spread { median: 3.0, min: 1.0, max: 8.0, n: 3 }));
        assert_eq!(Spread::of(&[3.0, 1.0]).unwrap().median, 2.0);
        assert_eq!((Spread::of(&[]), Spread::of(&[1.0, f64::INFINITY])), (None, None));
    }
}
