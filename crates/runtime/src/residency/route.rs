//! The route of a pass: its dispatches in groups, each with the weights it needs, and the place in the ring of streamed
//! weights while they are needed.

use super::RowShard;
use crate::RuntimeError;
use std::ops::Range;

/// The weights of one dispatch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Need {
    pub(crate) shards: Vec<RowShard>,
}

impl Need {
    /// Bytes that all of them take in a ring.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(RowShard::room).sum()
    }
}

/// A weight that a group needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) shard: RowShard,
    /// First byte in the ring, for one that is streamed; the others have buffers of their own.
    pub(crate) ring: Option<u64>,
}

/// Consecutive dispatches that are submitted together, as soon as their weights are there.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) dispatches: Range<usize>,
    pub(crate) weights: Vec<Placed>,
    /// Its streamed weights overwrite what groups up to this one need: those must have been submitted.
    pub(crate) after: Option<usize>,
}

/// Groups the dispatches of a pass: by layer, and so that what a group streams fits twice into a ring of `ring` bytes
/// wherever a group can be split, so that one group's weights arrive while another computes.
///
/// # Errors
/// The streamed weights of a single dispatch exceed the ring.
pub(crate) fn route(
    needs: &[Need],
    streamed: &dyn Fn(&RowShard) -> bool,
    ring: u64,
) -> Result<Vec<Group>, RuntimeError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut stage = 0;
    let mut in_group = 0;
    for (i, need) in needs.iter().enumerate() {
        let bytes: u64 = need.shards.iter().filter(|w| streamed(w)).map(RowShard::room).sum();
        if bytes > ring {
            return Err(RuntimeError::RingTooSmall { need: bytes, ring });
        }
        let own_stage = need.shards.first().map_or(stage, RowShard::stage);
        if groups.is_empty() || own_stage != stage || (in_group > 0 && in_group + bytes > ring / 2) {
            groups.push(Group { dispatches: i..i, weights: Vec::new(), after: None });
            in_group = 0;
        }
        (stage, in_group) = (own_stage, in_group + bytes);
        if let Some(group) = groups.last_mut() {
            group.dispatches.end = i + 1;
            for &shard in &need.shards {
                if !group.weights.iter().any(|p| p.shard == shard) {
                    group.weights.push(Placed { shard, ring: None });
                }
            }
        }
    }
    place(&mut groups, streamed, ring);
    Ok(groups)
}

/// Lays the streamed weights around the ring, from its start.
fn place(groups: &mut [Group], streamed: &dyn Fn(&RowShard) -> bool, ring: u64) {
    // What lies in the ring, and the group that needs it.
    let mut live: Vec<(Range<u64>, usize)> = Vec::new();
    let (mut at, mut after) = (0, None);
    for (number, group) in groups.iter_mut().enumerate() {
        let size = |p: &Placed| p.shard.room();
        let total: u64 = group.weights.iter().filter(|p| streamed(&p.shard)).map(size).sum();
        if at + total > ring {
            at = 0;
        }
        for placed in group.weights.iter_mut().filter(|p| streamed(&p.shard)) {
            let range = at..at + size(placed);
            placed.ring = Some(at);
            at = range.end;
            live.retain(|(other, owner)| {
                let overlaps = other.start < range.end && range.start < other.end;
                if overlaps {
                    after = after.max(Some(*owner));
                }
                !overlaps
            });
            live.push((range, number));
        }
        // What overwrites the rest of something must wait as whatever overwrote its beginning.
        group.after = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wgoose_graph::{Format, LayerWeight, Weight};

    fn shard(layer: u32, which: usize, bytes: u64) -> RowShard {
        let weight = Weight::Layer(layer, LayerWeight::Key);
        RowShard { weight, format: Format::F32, index: which, first: 0, rows: 1, cols: 1, bytes }
    }

    proptest! {
        #[test]
        fn needed_shards_are_never_overwritten(
            sizes in prop::collection::vec((0u32..4, 1u64..5000, any::<bool>()), 1..40),
            ring in 1u64..20_000,
        ) {
            let mut layer = 0;
            let needs: Vec<Need> = sizes.iter().enumerate().map(|(i, &(step, bytes, _))| {
                layer += step / 3;
                Need { shards: vec![shard(layer, i, bytes)] }
            }).collect();
            let streamed = |w: &RowShard| sizes[w.index].2;
            let largest = sizes.iter().filter(|s| s.2).map(|s| s.1.next_multiple_of(256)).max().unwrap_or(0);
            let routed = route(&needs, &streamed, ring);
            prop_assert_eq!(routed.is_err(), largest > ring);
            let Ok(groups) = routed else { return Ok(()) };
            prop_assert_eq!(groups.iter().flat_map(|g| g.dispatches.clone()).collect::<Vec<_>>(), (0..needs.len()).collect::<Vec<_>>());
            // An upload as early as allowed must not touch what an unsubmitted group needs.
            for (g, group) in groups.iter().enumerate() {
                prop_assert!(group.after.is_none_or(|a| a < g));
                let first_unsubmitted = group.after.map_or(0, |a| a + 1);
                for placed in &group.weights {
                    let Some(at) = placed.ring else { continue };
                    prop_assert!(at + placed.shard.bytes <= ring);
                    for other in groups[first_unsubmitted..=g].iter().flat_map(|o| &o.weights) {
                        let Some(other_at) = other.ring.filter(|_| other.shard != placed.shard) else { continue };
                        prop_assert!(other_at + other.shard.bytes <= at || at + placed.shard.bytes <= other_at);
                    }
                }
            }
        }
    }
}
