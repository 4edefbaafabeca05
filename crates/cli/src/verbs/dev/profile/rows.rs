//! Costs of dispatches, their sums, and how far they are from what the device can do.

use serde::Serialize;
use wgoose_runtime::DispatchProfile;
use wgoose_runtime::kernel_bench::roofline::{Quantity, Roofline};

/// What a device can do at most, as far as kernels are set against it. A kernel with int8 dot products or matrix units
/// is set against their rate, all others against that of f32.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Ceilings {
    pub(super) read_gb_s: f64,
    pub(super) f32_gflop_s: f64,
    pub(super) int8_gop_s: Option<f64>,
    pub(super) matrix_gflop_s: Option<f64>,
}

impl Ceilings {
    /// Those of a roofline; `None` if it lacks the two that every kernel needs.
    pub(super) fn of(roofline: &Roofline) -> Option<Self> {
        Some(Ceilings {
            read_gb_s: roofline.median(Quantity::ReadBandwidth)?,
            f32_gflop_s: roofline.median(Quantity::FmaF32)?,
            int8_gop_s: roofline.median(Quantity::DotInt8),
            matrix_gflop_s: roofline.median(Quantity::MatrixF16),
        })
    }

    /// Microseconds that a dispatch takes at least.
    fn least_us(&self, dispatch: &DispatchProfile) -> f64 {
        let rate = match dispatch.arithmetic {
            Quantity::DotInt8 => self.int8_gop_s,
            Quantity::MatrixF16 => self.matrix_gflop_s,
            _ => None,
        };
        let moving = dispatch.bytes as f64 / self.read_gb_s;
        let computing = dispatch.flops as f64 / rate.unwrap_or(self.f32_gflop_s);
        moving.max(computing) / 1e3
    }
}

/// What dispatches cost.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Cost {
    /// Microseconds, without the timestamps'.
    pub(super) us: f64,
    /// Bytes that must be moved at least.
    pub(super) bytes: u64,
    /// Arithmetic operations.
    pub(super) flops: u64,
    /// Microseconds that the ceilings allow; absent without ceilings.
    pub(super) least_us: Option<f64>,
}

impl Cost {
    /// That of a dispatch whose timestamp takes `timestamp_us`.
    pub(super) fn new(dispatch: &DispatchProfile, timestamp_us: f64, ceilings: Option<&Ceilings>) -> Self {
        Cost {
            us: (dispatch.ns / 1e3 - timestamp_us).max(0.0),
            bytes: dispatch.bytes,
            flops: dispatch.flops,
            least_us: ceilings.map(|c| c.least_us(dispatch)),
        }
    }

    /// The sum of costs.
    pub(super) fn sum<'a>(costs: impl Iterator<Item = &'a Cost>) -> Cost {
        costs.fold(Cost { least_us: Some(0.0), ..Cost::default() }, |sum, cost| Cost {
            us: sum.us + cost.us,
            bytes: sum.bytes + cost.bytes,
            flops: sum.flops + cost.flops,
            least_us: sum.least_us.zip(cost.least_us).map(|(a, b)| a + b),
        })
    }
}

/// The dispatches of one name.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) dispatches: usize,
    #[serde(flatten)]
    pub(super) cost: Cost,
    /// Of all dispatches' time, 0 to 1.
    pub(super) share: f64,
    pub(super) gb_s: f64,
    pub(super) gflop_s: f64,
    /// Of what the ceilings allow; above 100 where what is read lies in a cache. Absent without ceilings.
    pub(super) percent_of_roofline: Option<f64>,
}

impl Row {
    /// A row of a table whose rows add up to `all`.
    pub(super) fn new(name: String, dispatches: usize, cost: Cost, all: &Cost) -> Self {
        let per = |what: f64, of: f64| if of > 0.0 { what / of } else { 0.0 };
        Row {
            name,
            dispatches,
            share: per(cost.us, all.us),
            gb_s: per(cost.bytes as f64 / 1e3, cost.us),
            gflop_s: per(cost.flops as f64 / 1e3, cost.us),
            percent_of_roofline: cost.least_us.map(|least| 100.0 * per(least, cost.us)),
            cost,
        }
    }
}

/// A row for each name, in the order in which names first come.
pub(super) fn rows<'a>(dispatches: impl Iterator<Item = (String, &'a Cost)>, all: &Cost) -> Vec<Row> {
    let mut groups: Vec<(String, Vec<&Cost>)> = Vec::new();
    for (name, cost) in dispatches {
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, costs)) => costs.push(cost),
            None => groups.push((name, vec![cost])),
        }
    }
    let row = |(name, costs): (String, Vec<&Cost>)| Row::new(name, costs.len(), Cost::sum(costs.iter().copied()), all);
    groups.into_iter().map(row).collect()
}
