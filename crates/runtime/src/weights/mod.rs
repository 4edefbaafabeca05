//! Weights on the device: each shard is filled when it is first needed, from the file, as it lies there. Vectors become
//! F32. Within a budget, the first shards that fit stay; the others pass through a ring.

mod repack;
mod route;
mod row_shard;
#[cfg(test)]
mod tests;

pub(crate) use repack::{RepackKernel, Repacker};
pub(crate) use route::{Group, Need, Placed, route};
pub(crate) use row_shard::RowShard;
pub use row_shard::row_shards;

use crate::timeline::Track;
use crate::upload::{Staging, StagingSize};
use crate::{Device, DeviceMemory, RuntimeError};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use wgoose_graph::{Format, Weight};
use wgoose_kernels::Limits;
use wgoose_loader::Model;

/// When weights reach the device, and how long they stay. The results are the same bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Residency {
    /// On first use; they stay.
    #[default]
    Lazy,
    /// All of them at once; they stay.
    Eager,
    /// On first use, within this many bytes of device memory for everything: weights that do not fit pass through a
    /// ring, the least recently used giving way.
    Budget(u64),
}

/// Bytes for weights within a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// For weights that stay.
    pub(crate) pinned: u64,
    /// For those that pass through.
    pub(crate) ring: u64,
    /// Most rows of logits in a pass.
    pub(crate) outputs: u32,
}

/// Where a shard that stays has its place.
struct Own {
    arena: usize,
    offset: u64,
    filled: bool,
}

/// A buffer that holds the shards of several layers, as far as one pass needs them: a thousand small ones take drivers
/// longer to make, and fill blocks of memory badly.
struct Arena {
    buffer: Option<wgpu::Buffer>,
    bytes: u64,
    /// Where the buffer comes from, if another thread is making it.
    coming: Option<Receiver<wgpu::Buffer>>,
}

/// Most bytes of the first arena, but for a shard that alone is larger: little enough to be there before the first weights
/// are.
const FIRST_ARENA: u64 = 256 << 20;

/// Most bytes of the arena with that number: later ones take what can be bound at once.
fn arena_bytes(number: usize, limits: &Limits) -> u64 {
    let most = if number == 0 { FIRST_ARENA } else { u64::MAX };
    most.min(limits.storage_binding).min(limits.buffer)
}

/// The first layer that is like those that follow: the first of all has no value to look back to. An arena begins with it, for
/// layers of one arena can be one dispatch.
const FIRST_ALIKE: u32 = 1;

fn layer_of(shard: &RowShard) -> Option<u32> {
    match shard.weight {
        Weight::Layer(layer, _) => Some(layer),
        _ => None,
    }
}

/// The model's tensors on a device.
pub(crate) struct Weights {
    device: Arc<Device>,
    model: Arc<Model>,
    own: HashMap<RowShard, Own>,
    arenas: Vec<Arena>,
    /// `None`: there is room for everything.
    room: Option<Room>,
    ring: Option<wgpu::Buffer>,
    /// The thread that makes arenas.
    reserving: Option<JoinHandle<()>>,
    staging: Option<Staging>,
    pub(crate) staging_size: StagingSize,
    pub(crate) taken: Taken,
    /// How often everything was dropped: what was bound before is bound to buffers that get no uploads any more.
    pub(crate) dropped: u64,
}

/// What uploads took so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct Taken {
    /// Bytes uploaded.
    pub(crate) bytes: u64,
    /// Seconds during which some were under way.
    pub(crate) seconds: f64,
    /// Most bytes of staging.
    pub(crate) staging: u64,
    /// Most memory of the device.
    pub(crate) device: Option<DeviceMemory>,
}

impl Weights {
    pub(crate) fn new(device: Arc<Device>, model: Arc<Model>) -> Self {
        Weights {
            device,
            model,
            own: HashMap::new(),
            arenas: Vec::new(),
            room: None,
            ring: None,
            reserving: None,
            staging: None,
            staging_size: StagingSize::fast(),
            taken: Taken::default(),
            dropped: 0,
        }
    }

    /// Keeps to a budget from now on; what is there already is dropped.
    pub(crate) fn limit(&mut self, room: Room, staging_size: StagingSize) {
        self.forget();
        (self.room, self.staging_size) = (Some(room), staging_size);
    }

    /// Decides, for shards not seen before, which stay: the first that fit. Gives them their places. Those of a layer lie
    /// in one arena, so that one dispatch can bind those of many layers.
    pub(crate) fn assign(&mut self, shards: impl Iterator<Item = RowShard>) {
        let mut bytes: u64 = self.arenas.iter().map(|s| s.bytes).sum();
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
                let largest = |number| arena_bytes(number, self.device.limits());
                let whole = i == 0 && all <= largest(self.arenas.len());
                let ahead = if whole { all } else { shard.room() };
                let largest = largest(open);
                let begins = open == 0 && i == 0 && layer_of(shard) == Some(FIRST_ALIKE);
                if begins || self.arenas.get(open).is_none_or(|s| s.bytes + ahead > largest) {
                    open = self.arenas.len();
                    self.arenas.push(Arena { buffer: None, bytes: 0, coming: None });
                }
                self.own.insert(*shard, Own { arena: open, offset: self.arenas[open].bytes, filled: false });
                self.arenas[open].bytes += shard.room();
            }
        }
    }

    /// Whether a shard passes through the ring.
    pub(crate) fn is_streamed(&self, shard: &RowShard) -> bool {
        !self.own.contains_key(shard)
    }

    /// What a budget leaves for weights, if there is one.
    pub(crate) fn capacity(&self) -> Option<Room> {
        self.room
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.room.map_or(0, |room| room.ring)
    }

    /// Whether a shard is there to stay.
    pub(crate) fn is_filled(&self, shard: &RowShard) -> bool {
        self.own.get(shard).is_some_and(|own| own.filled)
    }

    /// All parts of these shards are on their way to buffers of their own.
    pub(crate) fn fill(&mut self, shards: impl Iterator<Item = RowShard>) {
        for shard in shards {
            if let Some(own) = self.own.get_mut(&shard) {
                own.filled = true;
            }
        }
    }

    /// Has another thread make the buffers for all of the model, if there is no budget to keep to: drivers take their time
    /// to clear memory, and hold up everything else meanwhile. Nothing is uploaded.
    pub(crate) fn reserve(&mut self, shards: impl Iterator<Item = RowShard>) {
        if self.room.is_some() {
            return;
        }
        self.assign(shards);
        let mut orders = Vec::new();
        for arena in self.arenas.iter_mut().filter(|arena| arena.buffer.is_none() && arena.coming.is_none()) {
            let (made, coming) = std::sync::mpsc::channel();
            arena.coming = Some(coming);
            orders.push((arena.bytes, made));
        }
        let device = Arc::clone(&self.device);
        self.stop_reserving();
        self.reserving = Some(std::thread::spawn(move || {
            for (bytes, made) in orders {
                let _span = device.timeline().span(Track::Allocate, "weights");
                // Nothing waits for it once an upload has failed.
                if made.send(device.storage("weights", bytes)).is_err() {
                    return;
                }
            }
        }));
    }

    /// Waits for the thread that makes arenas; it ends early once they are not needed.
    fn stop_reserving(&mut self) {
        if let Some(thread) = self.reserving.take() {
            // It does not panic; if it did, its arenas are made where they are needed.
            let _ = thread.join();
        }
    }

    /// Where a weight is bound: its buffer, and its first byte there.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(crate) fn buffer(&mut self, placed: &Placed) -> Result<(wgpu::Buffer, u64), RuntimeError> {
        if let (None, Some(own)) = (placed.ring, self.own.get(&placed.shard)) {
            let Arena { buffer, bytes, coming } = &mut self.arenas[own.arena];
            if let Some(coming) = coming.take() {
                *buffer = coming.recv().ok();
                self.device.check("allocating weights")?;
            }
            return Ok((made(&self.device, buffer, "weights", *bytes)?, own.offset));
        }
        let bytes = self.room.map_or(placed.shard.room(), |r| r.ring);
        Ok((made(&self.device, &mut self.ring, "ring", bytes)?, placed.ring.unwrap_or(0)))
    }

    /// Staging for jobs, the largest of `largest` bytes.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(crate) fn take_staging(&mut self, jobs: usize, largest: usize) -> Result<Staging, RuntimeError> {
        match self.staging.take() {
            Some(staging) if staging.serves(jobs.min(self.staging_size.slots), largest as u64) => Ok(staging),
            _ => {
                let bytes = match jobs > self.staging_size.slots {
                    true => largest.max(self.staging_size.slot_bytes),
                    false => largest,
                };
                Staging::new(&self.device, jobs.min(self.staging_size.slots), bytes.next_multiple_of(16) as u64)
            }
        }
    }

    /// Gives staging back; it is kept only where weights go on passing through.
    pub(crate) fn keep_staging(&mut self, staging: Staging) {
        self.staging = Some(staging).filter(|_| self.room.is_some());
    }

    /// Bytes on the device: weights that stay, ring, staging.
    pub(crate) fn on_device(&self) -> (u64, u64, u64) {
        let size = |buffer: &wgpu::Buffer| buffer.size();
        let own = self.arenas.iter().filter_map(|arena| arena.buffer.as_ref()).map(size).sum();
        (own, self.ring.as_ref().map_or(0, size), self.staging.as_ref().map_or(0, Staging::bytes))
    }

    /// Drops everything: an upload went wrong.
    pub(crate) fn forget(&mut self) {
        self.own.clear();
        self.arenas.clear();
        self.ring = None;
        self.staging = None;
        self.dropped += 1;
    }

    /// The shards of a weight that has that format on the device.
    ///
    /// # Errors
    /// A single row is larger than the largest binding.
    pub(crate) fn shards(&self, weight: Weight, format: Format) -> Result<Vec<RowShard>, RuntimeError> {
        let view = self.model.tensor(weight);
        let row_bytes = view.cols() / format.block_weights() * format.block_bytes();
        let rows = row_shards(weight, view.rows() as u32, row_bytes as u64, self.device.limits())?;
        let shard = |(index, rows): (usize, std::ops::Range<u32>)| {
            let rows_here = rows.end - rows.start;
            let bytes = format.bytes(rows_here as usize, view.cols()).unwrap_or_default() as u64;
            let (cols, bytes) = (view.cols() as u32, bytes.next_multiple_of(16));
            RowShard { weight, format, index, first: rows.start, rows: rows_here, cols, bytes }
        };
        Ok(rows.into_iter().enumerate().map(shard).collect())
    }
}

impl Drop for Weights {
    fn drop(&mut self) {
        self.arenas.clear();
        // Some drivers crash when a process ends amid a call.
        self.stop_reserving();
    }
}

/// The buffer in its place, made now if it is not there.
fn made(
    device: &Device,
    place: &mut Option<wgpu::Buffer>,
    label: &str,
    bytes: u64,
) -> Result<wgpu::Buffer, RuntimeError> {
    if let Some(buffer) = place {
        return Ok(buffer.clone());
    }
    let buffer = device.storage(label, bytes);
    device.check("allocating weights")?;
    *place = Some(buffer.clone());
    Ok(buffer)
}
