//! The least time that a kernel can take: what it must read and compute, at the rates that were measured.

use super::arithmetic;
use super::instrument::Instrument;
use super::memory::Buffers;
use super::{Quantity, Roofline, Scale, unless_refused};
use crate::{Device, RuntimeError};
use std::fmt;
use std::sync::Arc;
use wgoose_graph::{Op, OperandKind};
use wgoose_kernels::{Instance, InstanceInput, ops};

/// A rate may be so much higher than it was measured.
const MARGIN: f64 = 1.25;

/// Bytes that caches may hold from one use to the next.
const CACHED: u64 = 128 << 20;

/// The highest rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// 10^9 bytes read per second.
    pub read_gb_s: f64,
    /// 10^9 operations per second, of whichever kind is fastest.
    pub gop_s: f64,
}

/// A time that no kernel can have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impossible {
    /// The time of a dispatch, in nanoseconds.
    pub ns: f64,
    /// The least that it can take.
    pub least_ns: f64,
    /// Bytes that it must read from memory.
    pub bytes: u64,
    /// Operations that it must do.
    pub operations: u64,
    /// The rates at which that takes so long.
    pub ceiling: Ceiling,
}

impl Ceiling {
    /// Rates at which both were measured; `None` if one is missing.
    pub fn of(roofline: &Roofline) -> Option<Self> {
        let rates = arithmetic::RATES.iter().filter_map(|(quantity, _)| roofline.median(*quantity));
        Some(Ceiling { read_gb_s: roofline.median(Quantity::ReadBandwidth)?, gop_s: rates.reduce(f64::max)? })
    }

    /// Measures a device: about a second on a GPU.
    ///
    /// # Errors
    /// The device fails.
    pub fn measure(device: &Arc<Device>) -> Result<Option<Self>, RuntimeError> {
        let instrument = Instrument::new(device, Scale::of(device))?;
        let read = Buffers::new(&instrument)?.read(&instrument)?;
        let mut rates = Vec::new();
        for (quantity, probe) in arithmetic::RATES {
            rates.extend(unless_refused(quantity, arithmetic::rate(&instrument, quantity, probe))?.value);
        }
        let gop_s = rates.into_iter().map(|spread| spread.median).reduce(f64::max);
        Ok(read.value.zip(gop_s).map(|(read, gop_s)| Ceiling { read_gb_s: read.median, gop_s }))
    }

    /// Whether a kernel of an instance cannot be as fast as that, with so many copies of its matrices in turn.
    pub fn refuses(self, instance: &Instance, copies: u64, ns: f64) -> Option<Impossible> {
        let held = matrix_bytes(instance);
        // What caches hold of all copies is no longer to be read of each.
        let bytes = held.saturating_sub(CACHED / copies.max(1));
        let operations = (ops::kernels(&instance.op).flops)(instance);
        let least_ns = (bytes as f64 / self.read_gb_s).max(operations as f64 / self.gop_s) / MARGIN;
        (ns < least_ns).then_some(Impossible { ns, least_ns, bytes, operations, ceiling: self })
    }
}

/// Bytes of matrices, all of which a product reads.
fn matrix_bytes(instance: &Instance) -> u64 {
    let bytes = |input: &InstanceInput| {
        let format = input.format.filter(|_| input.kind == OperandKind::Matrix && instance.op != Op::Embed)?;
        format.bytes(input.rows as usize, input.cols as usize)
    };
    instance.inputs.iter().filter_map(bytes).sum::<usize>() as u64
}

/// `12.0 us, and 335 MB at 2528 GB/s take 106.0 us at least`.
impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Impossible { ns, least_ns, bytes, operations, ceiling: Ceiling { read_gb_s, gop_s } } = self;
        write!(f, "{:.1} us, and ", ns / 1e3)?;
        match *bytes as f64 / read_gb_s > *operations as f64 / gop_s {
            true => write!(f, "{:.1} MB at {read_gb_s:.0} GB/s", *bytes as f64 / 1e6)?,
            false => write!(f, "{:.1} million operations at {gop_s:.0} Gop/s", *operations as f64 / 1e6)?,
        }
        write!(f, " take {:.1} us at least", least_ns / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::{BatchShape, Format, ModelShape, rwkv7};

    #[test]
    fn a_head_cannot_be_read_faster_than_memory_and_small_matrices_may_be_cached() {
        let shape = ModelShape::preset("2.9B").unwrap();
        let graph = rwkv7::forward(&shape).unwrap();
        let batch = BatchShape { tokens: 1, segments: 1, outputs: 1 };
        let of = |id| Instance::of(&graph, id, &batch, &|_| Format::F16);
        let head = graph.op_ids().map(of).max_by_key(Instance::held_bytes).unwrap();
        let ceiling = Ceiling { read_gb_s: 3000.0, gop_s: 900_000.0 };
        let refused = ceiling.refuses(&head, 1, 15_500.0).unwrap();
        assert!(refused.least_ns > 50_000.0, "{refused}");
        assert_eq!(ceiling.refuses(&head, 1, 130_000.0), None);
        let small =
            graph.op_ids().map(of).filter(|i| i.op.name() == "matmul").min_by_key(Instance::held_bytes).unwrap();
        assert_eq!(ceiling.refuses(&small, 1, 1_000.0), None);
        let many = small.with_rows(512).unwrap_or(small);
        assert!(ceiling.refuses(&many, 1, 10.0).is_some(), "arithmetic takes its time");
    }
}
