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
    /// Makes what is missing or too small; says whether one took the place of another.
    pub(super) fn grow(&mut self, device: &Device, sizes: impl Iterator<Item = (BufferId, u64)>) -> bool {
        let mut replaced = false;
        for (id, bytes) in sizes {
            if self.made.get(&id).is_none_or(|buffer| buffer.size() < bytes) {
                replaced |= self.made.insert(id, device.storage(&id.to_string(), bytes)).is_some();
            }
        }
        self.generation += u64::from(replaced);
        replaced
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
