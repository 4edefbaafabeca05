//! Staging: a bounded ring of mapped buffers through which weights pass on their way to the device.

use super::DURING;
use crate::timeline::Track;
use crate::{Device, RuntimeError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much of the machine an upload may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingSize {
    /// Threads that fill buffers.
    pub workers: usize,
    /// Buffers.
    pub slots: usize,
    /// Bytes of each.
    pub slot_bytes: usize,
}

impl StagingSize {
    /// What fills a fast bus: two buffers of 4 MiB for each of at most 8 threads (measured on an H200, see
    /// `optimization_plan/model_loading.md`).
    pub(crate) fn fast() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        StagingSize { workers, slots: 2 * workers, slot_bytes: 4 << 20 }
    }

    /// The same within a share of a memory budget, in bytes; buffers have at least 256 KiB.
    pub(crate) fn within(bytes: u64) -> Self {
        let mut size = Self::fast();
        while size.bytes() > bytes && size.slot_bytes > 256 << 10 {
            size.slot_bytes /= 2;
        }
        size
    }

    /// Bytes of all buffers, and of one more on the device where blocks are repacked.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.slots + 1) * self.slot_bytes) as u64
    }
}

struct Slot {
    buffer: wgpu::Buffer,
    /// Whether the device has taken what was in it, so that it can be filled.
    mapped: Arc<AtomicBool>,
    /// Given to a worker, or filled and not yet copied.
    lent: bool,
}

/// The ring.
pub(crate) struct Staging {
    slots: Vec<Slot>,
    /// Submissions that copy from buffers, the oldest first.
    copying: VecDeque<wgpu::SubmissionIndex>,
}

impl Staging {
    /// `count` buffers of `bytes` each, ready to be filled.
    ///
    /// # Errors
    /// There is no memory left.
    pub(crate) fn new(device: &Device, count: usize, bytes: u64) -> Result<Self, RuntimeError> {
        let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let descriptor = wgpu::BufferDescriptor { label: Some("upload"), size: bytes, usage, mapped_at_creation: true };
        let _span = device.timeline().span(Track::Allocate, "staging");
        // A fresh mapping is cleared on the CPU, which takes long enough to share it out.
        let slots = std::thread::scope(|scope| {
            let make = || scope.spawn(|| device.device.create_buffer(&descriptor));
            let making: Vec<_> = (0..count).map(|_| make()).collect();
            let made = making.into_iter().filter_map(|thread| thread.join().ok());
            made.map(|buffer| Slot { buffer, mapped: Arc::new(AtomicBool::new(true)), lent: false }).collect()
        });
        device.check("allocating staging memory")?;
        Ok(Staging { slots, copying: VecDeque::new() })
    }

    /// Bytes of all buffers.
    pub(crate) fn bytes(&self) -> u64 {
        self.slots.iter().map(|s| s.buffer.size()).sum()
    }

    /// Whether it has `count` buffers of at least `bytes` each.
    pub(crate) fn serves(&self, count: usize, bytes: u64) -> bool {
        self.slots.len() >= count && self.slots.iter().all(|s| s.buffer.size() >= bytes)
    }

    /// Lends a buffer that can be filled.
    pub(crate) fn lend(&mut self) -> Option<(usize, wgpu::Buffer)> {
        let free = |s: &Slot| !s.lent && s.mapped.load(Ordering::Acquire);
        let at = self.slots.iter().position(free)?;
        self.slots[at].lent = true;
        Some((at, self.slots[at].buffer.clone()))
    }

    /// The buffer of a slot that is to be copied from; it is mapped again once the encoder's work is done.
    pub(crate) fn copy_from(&mut self, slot: usize, encoder: &wgpu::CommandEncoder) -> wgpu::Buffer {
        let slot = &mut self.slots[slot];
        slot.buffer.unmap();
        slot.mapped.store(false, Ordering::Release);
        slot.map_after(encoder);
        slot.buffer.clone()
    }

    /// The copies from these slots were submitted.
    pub(crate) fn submitted(&mut self, slots: &[usize], index: wgpu::SubmissionIndex) {
        for &slot in slots {
            self.slots[slot].lent = false;
        }
        self.copying.push_back(index);
    }

    /// Waits until the device has taken what the oldest submission copies.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn wait(&mut self, device: &Device) -> Result<(), RuntimeError> {
        match self.copying.pop_front() {
            Some(index) => device.wait_for(index, DURING),
            None => device.wait(DURING),
        }
    }
}

impl Slot {
    fn map_after(&self, encoder: &wgpu::CommandEncoder) {
        let mapped = Arc::clone(&self.mapped);
        encoder.map_buffer_on_submit(&self.buffer, wgpu::MapMode::Write, .., move |result| {
            mapped.store(result.is_ok(), Ordering::Release);
        });
    }
}
