//! The buffers that all passes of an executor share: activations, tables, the counters of persistent kernels.

use crate::Device;
use crate::schedule::BufferId;
use std::collections::BTreeMap;
use std::ops::Index;

/// Buffers by what they hold.
#[derive(Default)]
pub(super) struct Buffers {
    made: BTreeMap<BufferId, wgpu::Buffer>,
    /// How often one took the place of another: what was bound before is bound to what is gone.
    pub(super) generation: u64,
}

impl Buffers {
    /// Lets go of what is too small for these sizes; says whether anything was.
    pub(super) fn drop_outgrown(&mut self, sizes: &BTreeMap<BufferId, u64>) -> bool {
        let before = self.made.len();
        self.made.retain(|id, buffer| sizes.get(id).is_none_or(|bytes| buffer.size() >= *bytes));
        let outgrown = self.made.len() < before;
        self.generation += u64::from(outgrown);
        outgrown
    }

    /// Makes what is missing.
    pub(super) fn make(&mut self, device: &Device, sizes: &BTreeMap<BufferId, u64>) {
        for (id, bytes) in sizes {
            self.made.entry(*id).or_insert_with(|| match id {
                BufferId::Table(_) => device.table(&id.to_string(), *bytes),
                _ => device.storage(&id.to_string(), *bytes),
            });
        }
    }

    /// Each buffer.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BufferId, &wgpu::Buffer)> {
        self.made.iter().map(|(id, buffer)| (*id, buffer))
    }
}

impl Index<BufferId> for Buffers {
    type Output = wgpu::Buffer;

    fn index(&self, id: BufferId) -> &wgpu::Buffer {
        &self.made[&id]
    }
}
