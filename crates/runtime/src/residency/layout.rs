//! The layout of weights on the device, as plain data: resident shards, in arenas that hold the shards of many layers.

use super::{Placed, Room, RowShard};
use crate::schedule::{BufferId, BufferRange};
use std::collections::{HashMap, HashSet};
use wgoose_graph::Weight;
use wgoose_kernels::Limits;

/// Most bytes of the first arena, but for a shard that alone is larger: little enough to be there before the first weights
/// are.
const FIRST_ARENA: u64 = 256 << 20;

/// The first layer that is like those that follow: the first of all has no value to look back to. An arena begins with it, for
/// layers of one arena can be one dispatch.
const FIRST_ALIKE: u32 = 1;

/// Where a shard that stays has its place.
#[derive(Clone, Copy, Debug)]
struct Own {
    arena: usize,
    offset: u64,
}

/// The places of all shards that were seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct WeightLayout {
    own: HashMap<RowShard, Own>,
    /// Bytes of each arena: a thousand small buffers take drivers longer to make, and fill blocks of memory badly.
    arenas: Vec<u64>,
    /// `None`: there is room for everything.
    pub(crate) room: Option<Room>,
}

impl WeightLayout {
    /// One that keeps to a budget.
    pub(crate) fn within(room: Option<Room>) -> Self {
        WeightLayout { room, ..WeightLayout::default() }
    }

    /// Decides, for shards not seen before, which stay: the first that fit. Gives them their places. Those of a layer lie
    /// in one arena, so that one dispatch can bind those of many layers.
    pub(crate) fn assign(&mut self, shards: impl Iterator<Item = RowShard>, limits: &Limits) {
        let mut bytes: u64 = self.arenas.iter().sum();
        let (mut new, mut seen) = (Vec::new(), HashSet::new());
        for shard in shards {
            let room = shard.room();
            let stays = self.room.is_none_or(|r| bytes + room <= r.pinned);
            if stays && !self.own.contains_key(&shard) && seen.insert(shard) {
                bytes += room;
                new.push(shard);
            }
        }
        // The arena that is being filled; older ones may be in use.
        let mut open = usize::MAX;
        for layer in new.chunk_by(|a, b| layer_of(a).is_some() && layer_of(a) == layer_of(b)) {
            let all: u64 = layer.iter().map(RowShard::room).sum();
            for (i, shard) in layer.iter().enumerate() {
                let whole = i == 0 && all <= largest(self.arenas.len(), limits);
                let ahead = if whole { all } else { shard.room() };
                let begins = open == 0 && i == 0 && layer_of(shard) == Some(FIRST_ALIKE);
                if begins || self.arenas.get(open).is_none_or(|bytes| bytes + ahead > largest(open, limits)) {
                    open = self.arenas.len();
                    self.arenas.push(0);
                }
                self.own.insert(*shard, Own { arena: open, offset: self.arenas[open] });
                self.arenas[open] += shard.room();
            }
        }
    }

    /// Whether a shard passes through the ring.
    pub(crate) fn is_streamed(&self, shard: &RowShard) -> bool {
        !self.own.contains_key(shard)
    }

    /// Where a weight is bound.
    pub(crate) fn range(&self, placed: &Placed) -> BufferRange {
        let bytes = placed.shard.bytes;
        match (placed.ring, self.own.get(&placed.shard)) {
            (None, Some(own)) => BufferRange { buffer: BufferId::Weights(own.arena), offset: own.offset, bytes },
            (ring, _) => BufferRange { buffer: BufferId::Ring, offset: ring.unwrap_or(0), bytes },
        }
    }

    /// Bytes of each arena.
    pub(crate) fn arenas(&self) -> &[u64] {
        &self.arenas
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.room.map_or(0, |room| room.ring)
    }
}

/// Most bytes of the arena with that number: later ones take what can be bound at once.
fn largest(number: usize, limits: &Limits) -> u64 {
    let most = if number == 0 { FIRST_ARENA } else { u64::MAX };
    most.min(limits.storage_binding).min(limits.buffer)
}

fn layer_of(shard: &RowShard) -> Option<u32> {
    match shard.weight {
        Weight::Layer(layer, _) => Some(layer),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::residency::shards_of;
    use wgoose_graph::{Format, LoraRanks, ModelShape, WeightClass};

    #[test]
    fn equal_layers_share_an_arena() {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
        let shape = ModelShape {
            layers: 3,
            width: 128,
            ffn: 256,
            head_size: 64,
            vocab: 128,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let limits = Limits::webgpu();
        let format = |weight: Weight| if weight.class() == WeightClass::Matrix { Format::F16 } else { Format::F32 };
        let shards = |w: Weight| shards_of(w, format(w), w.shape(&shape), &limits).unwrap();
        let mut all: Vec<RowShard> = Weight::all(&shape).flat_map(shards).collect();
        // As a step needs them: layer by layer, the head last.
        all.sort_by_key(|shard| match layer_of(shard) {
            Some(layer) => layer + 1,
            None if shard.weight == Weight::Embedding => 0,
            None => shape.layers + 1,
        });
        let mut layout = WeightLayout::default();
        layout.assign(all.iter().copied(), &limits);
        for shard in &all {
            let range = layout.range(&Placed { shard: *shard, ring: None });
            let arena = usize::from(layer_of(shard) != Some(0) && shard.weight != Weight::Embedding);
            assert_eq!(range.buffer, BufferId::Weights(arena), "{shard:?}");
            assert!(range.end() <= layout.arenas()[arena]);
        }
        assert_eq!(layout.arenas().len(), 2);
    }
}
