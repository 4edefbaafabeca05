//! Liveness and the activation arena: which values may share a buffer.
//!
//! Slots are separate buffers, not ranges of one: wgpu tracks whole buffers, so that independent ops on separate
//! slots run without a barrier between them, and a buffer cannot be read and written by one dispatch.

use crate::{Graph, NodeId, Rows};
use std::collections::HashMap;

/// The sizes that symbolic rows stand for in one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchShape {
    /// Tokens over all sequences (T).
    pub tokens: u32,
    /// Segments: sequences with tokens in this batch.
    pub segments: u32,
    /// Rows whose logits or hidden states are asked for (R); 0 leaves out what is computed of them alone.
    pub outputs: u32,
}

impl BatchShape {
    /// How many rows a value has in this batch.
    pub const fn rows(&self, rows: Rows) -> u32 {
        match rows {
            Rows::Tokens => self.tokens,
            Rows::Outputs => self.outputs,
            Rows::Segments => self.segments,
            Rows::Fixed(n) => n,
        }
    }
}

/// Where each value lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arena {
    /// The ops in order; those without rows in this batch are left out.
    pub order: Vec<NodeId>,
    /// Slot of each op's value, where the op makes one.
    pub slot: HashMap<NodeId, usize>,
    /// Floats that each slot must hold.
    pub slot_len: Vec<u64>,
}

/// Assigns every value a slot so that no two values alive at once share one. An op's value never shares a slot with
/// what the op reads, unless it writes in place. `None` if the graph has a cycle.
pub fn arena(graph: &Graph, batch: &BatchShape) -> Option<Arena> {
    let mut order = graph.schedule()?;
    order.retain(|id| batch.rows(graph.op(*id).shape.rows) > 0);
    let position: HashMap<NodeId, usize> = order.iter().enumerate().map(|(i, id)| (*id, i)).collect();
    let last_read = |id: NodeId| -> usize {
        let reads = graph.readers(id).into_iter().filter_map(|(reader, _)| position.get(&reader).copied());
        let kept = if graph.output() == Some(id) { usize::MAX } else { position[&id] };
        reads.fold(kept, usize::max)
    };

    let mut slot = HashMap::new();
    let mut slot_len: Vec<u64> = Vec::new();
    let mut busy_until: Vec<usize> = Vec::new();
    for (now, &id) in order.iter().enumerate() {
        let node = graph.op(id);
        let shape = node.shape;
        if shape.planes == 0 {
            continue;
        }
        let len = u64::from(shape.planes) * u64::from(batch.rows(shape.rows)) * u64::from(shape.cols);
        let taken_over = node.op.in_place().and_then(|operand| slot.get(&graph.input(id, operand)?.node).copied());
        let free = |s: &usize| busy_until[*s] < now;
        let chosen = taken_over.unwrap_or_else(|| {
            // The smallest that is large enough; else the largest, which then grows; else a new one.
            let fits = (0..slot_len.len()).filter(free).filter(|s| slot_len[*s] >= len).min_by_key(|s| slot_len[*s]);
            fits.or_else(|| (0..slot_len.len()).filter(free).max_by_key(|s| slot_len[*s])).unwrap_or(slot_len.len())
        });
        if chosen == slot_len.len() {
            slot_len.push(0);
            busy_until.push(0);
        }
        slot_len[chosen] = slot_len[chosen].max(len);
        busy_until[chosen] = last_read(id);
        slot.insert(id, chosen);
    }
    Some(Arena { order, slot, slot_len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fusion, FusionSet, ModelShape, rewrite, rwkv7};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_alive_at_once_do_not_share(tokens in 1u32..70, outputs in 0u32..3, fused in 0usize..1 << Fusion::ALL.len()) {
            let mut shape = ModelShape::preset("0.1B").unwrap();
            shape.layers = 3;
            let mut graph = rwkv7::forward(&shape).unwrap();
            let fusions: FusionSet = Fusion::ALL.into_iter().enumerate().filter(|(i, _)| fused >> i & 1 == 1).map(|(_, f)| f).collect();
            rewrite::apply(&mut graph, &fusions).unwrap();
            let arena = arena(&graph, &BatchShape { tokens, segments: 1, outputs }).unwrap();
            // Walk the schedule and remember whose value each slot holds.
            let mut holds: HashMap<usize, NodeId> = HashMap::new();
            for id in &arena.order {
                for (_, input) in graph.inputs(*id) {
                    if let Some(slot) = arena.slot.get(&input.node) {
                        prop_assert_eq!(holds[slot], input.node);
                        let in_place = graph.op(*id).op.in_place().and_then(|o| graph.input(*id, o)) == Some(input);
                        prop_assert!(in_place == (arena.slot.get(id) == Some(slot)));
                    }
                }
                prop_assert!(arena.slot.contains_key(id) != graph.op(*id).op.only_updates_state());
                holds.extend(arena.slot.get(id).map(|slot| (*slot, *id)));
            }
            prop_assert!(arena.slot_len.len() < 24, "{} slots", arena.slot_len.len());
        }
    }
}
