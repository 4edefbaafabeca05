//! Weights on the device: each window is filled when it is first needed, from the file, as it lies there. Vectors become
//! F32. Within a budget, the first windows that fit stay; the others pass through a ring.

mod repack;
mod route;
mod window;

pub(crate) use repack::Repacker;
pub(crate) use route::{Group, Need, Placed, route};
pub(crate) use window::Window;
pub use window::windows;

use crate::upload::{Staging, StagingSize};
use crate::{Device, DeviceMemory, RuntimeError};
use std::collections::HashMap;
use std::sync::Arc;
use wgoose_graph::{Format, Weight};
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

/// A window with a buffer of its own.
#[derive(Default)]
struct Own {
    buffer: Option<wgpu::Buffer>,
    filled: bool,
}

/// The model's tensors on a device.
pub(crate) struct Weights {
    device: Arc<Device>,
    model: Arc<Model>,
    own: HashMap<Window, Own>,
    own_bytes: u64,
    /// `None`: there is room for everything.
    room: Option<Room>,
    ring: Option<wgpu::Buffer>,
    staging: Option<Staging>,
    pub(crate) staging_size: StagingSize,
    pub(crate) taken: Taken,
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
            own_bytes: 0,
            room: None,
            ring: None,
            staging: None,
            staging_size: StagingSize::fast(),
            taken: Taken::default(),
        }
    }

    /// Keeps to a budget from now on; what is there already is dropped.
    pub(crate) fn limit(&mut self, room: Room, staging_size: StagingSize) {
        self.forget();
        (self.room, self.staging_size) = (Some(room), staging_size);
    }

    /// Decides, for windows not seen before, which stay: the first that fit.
    pub(crate) fn admit(&mut self, windows: impl Iterator<Item = Window>) {
        for window in windows {
            let fits = self.room.is_none_or(|room| self.own_bytes + window.bytes <= room.pinned);
            if fits && !self.own.contains_key(&window) {
                self.own_bytes += window.bytes;
                self.own.insert(window, Own::default());
            }
        }
    }

    /// Whether a window passes through the ring.
    pub(crate) fn is_streamed(&self, window: &Window) -> bool {
        !self.own.contains_key(window)
    }

    /// What a budget leaves for weights, if there is one.
    pub(crate) fn capacity(&self) -> Option<Room> {
        self.room
    }

    /// Bytes of the ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.room.map_or(0, |room| room.ring)
    }

    /// Whether a window is there to stay.
    pub(crate) fn is_filled(&self, window: &Window) -> bool {
        self.own.get(window).is_some_and(|own| own.filled)
    }

    /// All parts of these windows are on their way to buffers of their own.
    pub(crate) fn fill(&mut self, windows: impl Iterator<Item = Window>) {
        for window in windows {
            if let Some(own) = self.own.get_mut(&window) {
                own.filled = true;
            }
        }
    }

    /// Where a weight is bound: its buffer, and its first byte there.
    ///
    /// # Errors
    /// The device has no memory left.
    pub(crate) fn buffer(&mut self, placed: &Placed) -> Result<(wgpu::Buffer, u64), RuntimeError> {
        let window = placed.window;
        let (slot, bytes, offset) = match (placed.ring, self.own.get_mut(&window)) {
            (None, Some(own)) => (&mut own.buffer, window.bytes, 0),
            (offset, _) => (&mut self.ring, self.room.map_or(window.bytes, |r| r.ring), offset.unwrap_or(0)),
        };
        if let Some(buffer) = slot {
            return Ok((buffer.clone(), offset));
        }
        let label = if placed.ring.is_some() { "ring".to_owned() } else { window.weight.to_string() };
        let buffer = self.device.storage(&label, bytes);
        self.device.check("allocating weights")?;
        *slot = Some(buffer.clone());
        Ok((buffer, offset))
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
        let own = self.own.values().filter_map(|own| own.buffer.as_ref()).map(size).sum();
        (own, self.ring.as_ref().map_or(0, size), self.staging.as_ref().map_or(0, Staging::bytes))
    }

    /// Drops everything: an upload went wrong.
    pub(crate) fn forget(&mut self) {
        self.own.clear();
        self.own_bytes = 0;
        self.ring = None;
        self.staging = None;
    }

    /// The windows of a weight that has that format on the device.
    ///
    /// # Errors
    /// A single row is larger than the largest binding.
    pub(crate) fn windows(&self, weight: Weight, format: Format) -> Result<Vec<Window>, RuntimeError> {
        let view = self.model.tensor(weight);
        let row_bytes = view.cols() / format.block_weights() * format.block_bytes();
        let rows = windows(weight, view.rows() as u32, row_bytes as u64, self.device.limits())?;
        let window = |(index, rows): (usize, std::ops::Range<u32>)| {
            let rows_here = rows.end - rows.start;
            let bytes = format.bytes(rows_here as usize, view.cols()).unwrap_or_default() as u64;
            Window { weight, format, index, first: rows.start, rows: rows_here, bytes: bytes.next_multiple_of(16) }
        };
        Ok(rows.into_iter().enumerate().map(window).collect())
    }
}
