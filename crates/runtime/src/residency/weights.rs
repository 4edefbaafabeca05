//! The buffers of weights: arenas for those that stay, the ring, staging.

use super::upload::{Staging, StagingSize};
use super::{Room, RowShard, WeightLayout};
use crate::schedule::BufferId;
use crate::timeline::Track;
use crate::{Device, DeviceMemory, RuntimeError};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

/// The buffer of an arena.
#[derive(Default)]
struct Arena {
    buffer: Option<wgpu::Buffer>,
    /// Where the buffer comes from, if another thread is making it.
    coming: Option<Receiver<wgpu::Buffer>>,
}

/// The model's tensors on a device.
pub(crate) struct Weights {
    device: Arc<Device>,
    /// Where everything lies.
    pub(crate) layout: WeightLayout,
    /// Those of [`WeightLayout::arenas`] that were asked for.
    arenas: Vec<Arena>,
    /// The shards that are there to stay.
    filled: HashSet<RowShard>,
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
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Weights {
            device,
            layout: WeightLayout::default(),
            arenas: Vec::new(),
            filled: HashSet::new(),
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
        (self.layout.room, self.staging_size) = (Some(room), staging_size);
    }

    /// What a budget leaves for weights, if there is one.
    pub(crate) fn capacity(&self) -> Option<Room> {
        self.layout.room
    }

    /// Whether a shard is there to stay.
    pub(crate) fn is_filled(&self, shard: &RowShard) -> bool {
        self.filled.contains(shard)
    }

    /// All parts of these shards are on their way to buffers of their own.
    pub(crate) fn fill(&mut self, shards: impl Iterator<Item = RowShard>) {
        let layout = &self.layout;
        self.filled.extend(shards.filter(|shard| !layout.is_streamed(shard)));
    }

    /// Has another thread make the buffers for all of the model, if there is no budget to keep to: drivers take their time
    /// to clear memory, and hold up everything else meanwhile. Nothing is uploaded.
    pub(crate) fn reserve(&mut self, shards: impl Iterator<Item = RowShard>) {
        if self.layout.room.is_some() {
            return;
        }
        self.layout.assign(shards, self.device.limits());
        let mut orders = Vec::new();
        self.arenas.resize_with(self.layout.arenas().len(), Arena::default);
        let missing = |(arena, _): &(&mut Arena, &u64)| arena.buffer.is_none() && arena.coming.is_none();
        for (arena, bytes) in self.arenas.iter_mut().zip(self.layout.arenas()).filter(missing) {
            let (made, coming) = std::sync::mpsc::channel();
            arena.coming = Some(coming);
            orders.push((*bytes, made));
        }
        if orders.is_empty() {
            return;
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

    /// A buffer of weights: an arena or the ring.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(crate) fn buffer(&mut self, id: BufferId) -> Result<wgpu::Buffer, RuntimeError> {
        let BufferId::Weights(number) = id else {
            return made(&self.device, &mut self.ring, "ring", self.layout.ring_bytes());
        };
        if self.arenas.len() <= number {
            self.arenas.resize_with(number + 1, Arena::default);
        }
        let Arena { buffer, coming } = &mut self.arenas[number];
        if let Some(coming) = coming.take() {
            *buffer = coming.recv().ok();
            self.device.check("allocating weights")?;
        }
        made(&self.device, buffer, "weights", self.layout.arenas()[number])
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
        self.staging = Some(staging).filter(|_| self.layout.room.is_some());
    }

    /// Bytes on the device: weights that stay, ring, staging.
    pub(crate) fn on_device(&self) -> (u64, u64, u64) {
        let size = |buffer: &wgpu::Buffer| buffer.size();
        let own = self.arenas.iter().filter_map(|arena| arena.buffer.as_ref()).map(size).sum();
        (own, self.ring.as_ref().map_or(0, size), self.staging.as_ref().map_or(0, Staging::bytes))
    }

    /// Drops everything: an upload went wrong.
    pub(crate) fn forget(&mut self) {
        self.layout = WeightLayout::within(self.layout.room);
        self.filled.clear();
        self.arenas.clear();
        self.ring = None;
        self.staging = None;
        self.dropped += 1;
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
