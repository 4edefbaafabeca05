//! A device: adapters, features, limits, buffers, waits, and the errors it reports later on.

mod adapter;
#[cfg(not(target_vendor = "apple"))]
mod dedicated;
pub(crate) mod identity;
mod key;
mod options;
mod wait;

pub use adapter::{AdapterSummary, adapters};
pub(crate) use adapter::{backend, enumerate, identity_of, summary};
pub use identity::AdapterIdentity;
pub(crate) use key::device_key;
pub use options::{DeviceLimits, DeviceOptions};

use crate::RuntimeError;
use crate::timeline::Timeline;
use parking_lot::Mutex;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wait::{Fault, Patience};
use wgoose_kernels::{DeviceFingerprint, Limits};

/// Version of wgpu that is built in, part of a device's identity: its shader translation changes results and speed.
pub const WGPU_VERSION: &str = "30.0.1";

/// An open device.
pub struct Device {
    /// Kept: some drivers take milliseconds to let go of it.
    _adapter: wgpu::Adapter,
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) summary: AdapterSummary,
    /// Nanoseconds of a timestamp tick.
    pub(crate) timestamp_period: Option<f64>,
    timeline: Timeline,
    cache: Option<PathBuf>,
    /// Bytes of buffers with dedicated memory, which wgpu does not count.
    dedicated_bytes: Arc<AtomicU64>,
    /// Bytes of memory that the device is pretended to have.
    memory_limit: Option<u64>,
    fault: Arc<Mutex<Option<Fault>>>,
    patience: Patience,
}

/// Memory of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Bytes in use by buffers.
    pub used: u64,
    /// Bytes reserved for them, which comes in blocks.
    pub reserved: u64,
}

impl Device {
    /// Opens an adapter, whose features are taken at their word.
    ///
    /// # Errors
    /// The driver refuses.
    pub(crate) fn connect(
        adapter: &wgpu::Adapter,
        summary: AdapterSummary,
        options: &DeviceOptions,
    ) -> Result<Device, RuntimeError> {
        let (features, limits) = options.limits.required(adapter);
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            required_limits: limits,
            experimental_features: experimental(features),
            // The largest tensors get memory of their own; small blocks leave little of the rest unused.
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|e| RuntimeError::Open { adapter: summary.fingerprint.adapter.clone(), why: e.to_string() })?;
        let fault: Arc<Mutex<Option<Fault>>> = Arc::default();
        let remember = |fault: &Arc<Mutex<Option<Fault>>>, what: Fault| {
            fault.lock().get_or_insert(what);
        };
        let seen = Arc::clone(&fault);
        device.on_uncaptured_error(Arc::new(move |e| {
            let out_of_memory = matches!(e, wgpu::Error::OutOfMemory { .. });
            remember(&seen, if out_of_memory { Fault::OutOfMemory } else { Fault::Other(e.to_string()) });
        }));
        let seen = Arc::clone(&fault);
        device.set_device_lost_callback(move |reason, why| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                remember(&seen, Fault::Lost(why));
            }
        });
        let timestamp_period =
            features.contains(wgpu::Features::TIMESTAMP_QUERY).then(|| f64::from(queue.get_timestamp_period()));
        let cache = options.cache.clone().filter(|_| features.contains(wgpu::Features::PIPELINE_CACHE));
        let memory_limit = options.memory;
        let patience = Patience::new(options.patience, summary.limits.is_cpu);
        Ok(Device {
            _adapter: adapter.clone(),
            device,
            queue,
            summary,
            timestamp_period,
            timeline: options.timeline.clone(),
            cache,
            dedicated_bytes: Arc::default(),
            memory_limit,
            fault,
            patience,
        })
    }

    /// What kernels may use: matrix units only if they stood their check.
    pub fn limits(&self) -> &Limits {
        &self.summary.limits
    }

    /// The device with that number of multiprocessors, if there is no other holder yet.
    pub(crate) fn with_multiprocessors(mut self: Arc<Self>, multiprocessors: u32) -> Arc<Self> {
        if let Some(device) = Arc::get_mut(&mut self) {
            device.summary.limits.multiprocessors = multiprocessors;
        }
        self
    }

    /// Discrete, integrated, CPU, ...
    pub fn kind(&self) -> &str {
        &self.summary.kind
    }

    /// Whether it is a software adapter.
    pub fn is_cpu(&self) -> bool {
        self.limits().is_cpu
    }

    /// Identity.
    pub fn fingerprint(&self) -> &DeviceFingerprint {
        &self.summary.fingerprint
    }

    /// Where spans are collected.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Folder of the pipeline cache, if pipelines are to be kept and the device can.
    pub fn cache(&self) -> Option<&Path> {
        self.cache.as_deref()
    }

    /// Bytes in use by buffers, and bytes reserved from the device for them; `None` where the backend does not say.
    pub fn memory(&self) -> Option<DeviceMemory> {
        let report = self.device.generate_allocator_report()?;
        let dedicated = self.dedicated_bytes.load(Ordering::Relaxed);
        Some(DeviceMemory {
            used: report.total_allocated_bytes + dedicated,
            reserved: report.total_reserved_bytes + dedicated,
        })
    }

    /// A storage buffer that can be copied from and to.
    pub(crate) fn storage(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        self.buffer(label, bytes, wgpu::BufferUsages::STORAGE)
    }

    /// The same for a table of a batch, which kernels may bind as a uniform block as well.
    pub(crate) fn table(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        self.buffer(label, bytes, wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::UNIFORM)
    }

    fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages) -> wgpu::Buffer {
        // Kernels load 16 bytes at a time.
        let size = bytes.next_multiple_of(16).max(16);
        let usage = usage | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        if self.memory_limit.zip(self.memory()).is_some_and(|(limit, memory)| memory.used + size > limit) {
            self.fault.lock().get_or_insert(Fault::OutOfMemory);
        }
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        self.dedicated(&descriptor).unwrap_or_else(|| self.device.create_buffer(&descriptor))
    }

    /// Reads a buffer back after `during`, which may still run.
    pub(crate) fn read(
        &self,
        buffer: &wgpu::Buffer,
        offset: u64,
        bytes: u64,
        during: impl Display,
    ) -> Result<Vec<u8>, RuntimeError> {
        let staging = self.staging(bytes);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, bytes);
        self.queue.submit([encoder.finish()]);
        self.read_staging(&staging, bytes, during)
    }

    /// A buffer to copy results into and map.
    pub(crate) fn staging(&self, bytes: u64) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let descriptor =
            wgpu::BufferDescriptor { label: Some("staging"), size: bytes, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    /// Waits for the work submitted, maps a staging buffer and copies it out once, in bulk: the mapping is uncached.
    pub(crate) fn read_staging(
        &self,
        staging: &wgpu::Buffer,
        bytes: u64,
        during: impl Display,
    ) -> Result<Vec<u8>, RuntimeError> {
        staging.map_async(wgpu::MapMode::Read, 0..bytes, |_| {});
        self.wait(during)?;
        self.mapped(staging, bytes, <[u8]>::to_vec)
    }

    /// Copies a buffer out that was asked to be mapped before a submission that is done, and unmaps it. The mapping is
    /// uncached: copy it in bulk.
    pub(crate) fn mapped<T>(
        &self,
        staging: &wgpu::Buffer,
        bytes: u64,
        copy: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, RuntimeError> {
        let fail =
            |why: wgpu::MapRangeError| RuntimeError::Device { during: "mapping results".into(), why: why.to_string() };
        let copied = copy(&staging.get_mapped_range(0..bytes).map_err(fail)?);
        staging.unmap();
        Ok(copied)
    }
}

#[cfg(target_vendor = "apple")]
impl Device {
    /// Metal's heaps need no such care.
    fn dedicated(&self, _: &wgpu::BufferDescriptor<'_>) -> Option<wgpu::Buffer> {
        None
    }
}

/// wgpu's consent to features that it calls experimental, where one is asked for.
fn experimental(features: wgpu::Features) -> wgpu::ExperimentalFeatures {
    if !features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) {
        return wgpu::ExperimentalFeatures::disabled();
    }
    // SAFETY: such features may have bugs that lead to undefined behaviour. The one that we ask for is used only by
    // kernels that need `Feature::CooperativeMatrix` or `CooperativeMatrix8`, with the shapes and types that the
    // adapter lists. Those of this program use it in uniform control flow, at addresses within their arrays, as tests
    // show; one from a folder is code that the user chose to run (SECURITY.md). Other kernels are translated as they
    // are without it.
    #[allow(unsafe_code)]
    unsafe {
        wgpu::ExperimentalFeatures::enabled()
    }
}

#[cfg(test)]
mod tests {
    use super::WGPU_VERSION;

    #[test]
    fn the_wgpu_version_equals_the_lock_file() {
        let lock = include_str!("../../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wgpu\"\nversion = \"{WGPU_VERSION}\"")));
    }
}
