//! An op instance as text: names and kinds of operands are the op's, and are not written.

use crate::{Instance, InstanceInput, Packed};
use serde::{Deserialize, Serialize};
use wgoose_graph::{Format, Op};

/// What is written of an [`Instance`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenInstance {
    op: Op,
    /// In the op's order.
    inputs: Vec<WrittenInput>,
    planes: u32,
    rows: u32,
    k: u32,
    m: u32,
    heads: u32,
    head_size: u32,
    segments: u32,
    ranks: [u32; 4],
    first: u32,
    shard_rows: u32,
    packed: Packed,
}

/// What is written of an operand.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenInput {
    planes: u32,
    rows: u32,
    cols: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<Format>,
}

/// Operands that are not the op's.
#[derive(Debug, thiserror::Error)]
#[error("{op} has {want} operands, {got} are written")]
pub(crate) struct WrongOperands {
    op: &'static str,
    want: usize,
    got: usize,
}

impl From<Instance> for WrittenInstance {
    fn from(instance: Instance) -> Self {
        let Instance { op, inputs, planes, rows, k, m, heads, head_size, segments, .. } = instance;
        let Instance { ranks, first, shard_rows, packed, .. } = instance;
        let written = |input: InstanceInput| {
            let InstanceInput { name: _, kind: _, planes, rows, cols, format } = input;
            WrittenInput { planes, rows, cols, format }
        };
        let inputs = inputs.into_iter().map(written).collect();
        WrittenInstance { op, inputs, planes, rows, k, m, heads, head_size, segments, ranks, first, shard_rows, packed }
    }
}

impl TryFrom<WrittenInstance> for Instance {
    type Error = WrongOperands;

    fn try_from(written: WrittenInstance) -> Result<Self, WrongOperands> {
        let WrittenInstance { op, inputs, planes, rows, k, m, heads, head_size, segments, .. } = written;
        let WrittenInstance { ranks, first, shard_rows, packed, .. } = written;
        let operands = op.operands();
        if operands.len() != inputs.len() {
            return Err(WrongOperands { op: op.name(), want: operands.len(), got: inputs.len() });
        }
        let read = |(operand, input): (&wgoose_graph::Operand, WrittenInput)| {
            let WrittenInput { planes, rows, cols, format } = input;
            InstanceInput { name: operand.name, kind: operand.kind, planes, rows, cols, format }
        };
        let inputs = operands.iter().zip(inputs).map(read).collect();
        Ok(Instance { op, inputs, planes, rows, k, m, heads, head_size, segments, ranks, first, shard_rows, packed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::{BatchShape, Fusion, ModelShape, rewrite, rwkv7};

    #[test]
    fn every_instance_round_trips_through_its_text() {
        let (shape, batch) = (ModelShape::preset("0.1B").unwrap(), BatchShape { tokens: 5, segments: 2, outputs: 2 });
        for fusions in Fusion::covering_sets() {
            let mut graph = rwkv7::forward(&shape).unwrap();
            rewrite::apply(&mut graph, &fusions).unwrap();
            for id in graph.op_ids() {
                let instance = Instance::of(&graph, id, &batch, &|_| Format::Q8_0);
                let text = ron::to_string(&instance).unwrap();
                assert_eq!(ron::from_str::<Instance>(&text).unwrap(), instance);
            }
        }
        let mul = "(op: mul, inputs: [], planes: 1, rows: 1, k: 1, m: 1, heads: 1, head_size: 1, segments: 1,
            ranks: (0, 0, 0, 0), first: 0, shard_rows: 1, packed: (x: false, y: false, state: false))";
        let error = ron::from_str::<Instance>(mul).unwrap_err().to_string();
        assert!(error.contains("mul has 2 operands, 0 are written"), "{error}");
    }
}
