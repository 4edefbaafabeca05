//! The device: an adapter opened with every limit and feature the kernels can use.

use crate::RuntimeError;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use wgoose_kernels::{DeviceFingerprint, Feature, Limits};

/// Version of wgpu that is built in, part of a device's identity: its shader translation changes results and speed.
pub const WGPU_VERSION: &str = "30.0.1";

/// An adapter, as `wgoose devices` shows it.
#[derive(Clone, Debug)]
pub struct AdapterSummary {
    /// Identity.
    pub fingerprint: DeviceFingerprint,
    /// Discrete, integrated, CPU, ...
    pub kind: String,
    /// What kernels may use.
    pub limits: Limits,
    /// Whether kernels can be timed with timestamps.
    pub timestamps: bool,
}

/// An open device.
pub struct Device {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    summary: AdapterSummary,
    /// Nanoseconds of a timestamp tick.
    pub(crate) timestamp_period: Option<f64>,
    fault: Arc<Mutex<Option<String>>>,
}

fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    // WGPU_VALIDATION=1 turns the validation layers on.
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    wgpu::Instance::new(descriptor)
}

/// Adapters, the most capable first: real GPUs before CPU emulation, native APIs before OpenGL.
fn enumerate() -> Vec<wgpu::Adapter> {
    for backends in [wgpu::Backends::PRIMARY, wgpu::Backends::GL] {
        let mut adapters = pollster::block_on(instance(backends).enumerate_adapters(backends));
        adapters.retain(|a| a.get_downlevel_capabilities().flags.contains(wgpu::DownlevelFlags::COMPUTE_SHADERS));
        adapters.sort_by_key(|a| match a.get_info().device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::VirtualGpu => 1,
            wgpu::DeviceType::IntegratedGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        });
        if !adapters.is_empty() {
            return adapters;
        }
    }
    Vec::new()
}

/// The features asked for wherever the adapter has them.
const WANTED: wgpu::Features =
    wgpu::Features::TIMESTAMP_QUERY.union(wgpu::Features::SUBGROUP).union(wgpu::Features::SHADER_F16);

fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let optional = [(Feature::Subgroups, wgpu::Features::SUBGROUP), (Feature::F16, wgpu::Features::SHADER_F16)];
    let has = optional.into_iter().filter(|(_, f)| features.contains(*f)).map(|(feature, _)| feature);
    AdapterSummary {
        fingerprint: DeviceFingerprint {
            adapter: info.name,
            vendor: info.vendor,
            device: info.device,
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            backend: info.backend.to_string(),
            wgpu: WGPU_VERSION.to_owned(),
        },
        kind: format!("{:?}", info.device_type),
        limits: Limits {
            workgroup_invocations: limits
                .max_compute_invocations_per_workgroup
                .min(limits.max_compute_workgroup_size_x),
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            workgroups_per_dimension: limits.max_compute_workgroups_per_dimension,
            storage_binding: limits.max_storage_buffer_binding_size,
            buffer: limits.max_buffer_size,
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            storage_alignment: limits.min_storage_buffer_offset_alignment,
            uniform_alignment: limits.min_uniform_buffer_offset_alignment,
            min_subgroup: info.subgroup_min_size,
            features: has.collect::<BTreeSet<_>>(),
        },
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
    }
}

/// Every adapter of this machine, the default first.
pub fn adapters() -> Vec<AdapterSummary> {
    enumerate().iter().map(summary).collect()
}

impl Device {
    /// Opens an adapter: by index, by a part of its name, or the most capable one.
    ///
    /// # Errors
    /// No adapter, none that matches, or the driver refuses.
    pub fn open(wanted: Option<&str>) -> Result<Arc<Device>, RuntimeError> {
        Device::open_limited(wanted, &|_| {})
    }

    /// As [`Device::open`], pretending that the device can do less: how a model runs on a lesser one.
    ///
    /// # Errors
    /// No adapter, none that matches, or the driver refuses.
    pub fn open_limited(wanted: Option<&str>, restrict: &dyn Fn(&mut Limits)) -> Result<Arc<Device>, RuntimeError> {
        let adapters = enumerate();
        let matches = |(i, a): &(usize, &wgpu::Adapter)| match wanted {
            None => true,
            Some(w) => w.parse() == Ok(*i) || a.get_info().name.to_lowercase().contains(&w.to_lowercase()),
        };
        let Some((_, adapter)) = adapters.iter().enumerate().find(matches) else {
            let Some(wanted) = wanted.filter(|_| !adapters.is_empty()) else { return Err(RuntimeError::NoAdapter) };
            let names: Vec<_> = adapters.iter().map(|a| a.get_info().name).collect();
            return Err(RuntimeError::UnknownAdapter { wanted: wanted.to_owned(), available: names.join(", ") });
        };
        let mut summary = summary(adapter);
        restrict(&mut summary.limits);
        let features = adapter.features() & WANTED;
        let descriptor = wgpu::DeviceDescriptor {
            label: None,
            required_features: features,
            required_limits: adapter.limits(),
            experimental_features: wgpu::ExperimentalFeatures::disabled(),
            memory_hints: wgpu::MemoryHints::Performance,
            trace: wgpu::Trace::Off,
        };
        let (device, queue) = pollster::block_on(adapter.request_device(&descriptor))
            .map_err(|e| RuntimeError::Open { adapter: summary.fingerprint.adapter.clone(), why: e.to_string() })?;
        let fault: Arc<Mutex<Option<String>>> = Arc::default();
        let remember = |fault: &Arc<Mutex<Option<String>>>, why: String| {
            fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(why);
        };
        let seen = Arc::clone(&fault);
        device.on_uncaptured_error(Arc::new(move |e| remember(&seen, e.to_string())));
        let seen = Arc::clone(&fault);
        device.set_device_lost_callback(move |reason, why| {
            if reason != wgpu::DeviceLostReason::Destroyed {
                remember(&seen, format!("device lost: {why}"));
            }
        });
        let timestamp_period =
            features.contains(wgpu::Features::TIMESTAMP_QUERY).then(|| f64::from(queue.get_timestamp_period()));
        Ok(Arc::new(Device { device, queue, summary, timestamp_period, fault }))
    }

    /// What kernels may use.
    pub fn limits(&self) -> &Limits {
        &self.summary.limits
    }

    /// Discrete, integrated, CPU, ...
    pub fn kind(&self) -> &str {
        &self.summary.kind
    }

    /// Identity.
    pub fn fingerprint(&self) -> &DeviceFingerprint {
        &self.summary.fingerprint
    }

    /// Waits until the device has done everything submitted.
    ///
    /// # Errors
    /// Whatever the device has failed at since the last call.
    pub(crate) fn wait(&self, during: &'static str) -> Result<(), RuntimeError> {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check(during)?;
        polled.map(|_| ()).map_err(|e| RuntimeError::Device { during, why: e.to_string() })
    }

    /// Whatever the device has failed at since the last call.
    pub(crate) fn check(&self, during: &'static str) -> Result<(), RuntimeError> {
        let fault = self.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        fault.map_or(Ok(()), |why| Err(RuntimeError::Device { during, why }))
    }

    /// A storage buffer that can be copied from and to.
    pub(crate) fn storage(&self, label: &str, bytes: u64) -> wgpu::Buffer {
        use wgpu::BufferUsages as U;
        // Kernels load 16 bytes at a time.
        let size = bytes.next_multiple_of(16).max(16);
        let usage = U::STORAGE | U::COPY_SRC | U::COPY_DST;
        self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        })
    }

    /// Reads a buffer back.
    pub(crate) fn read(&self, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> Result<Vec<u8>, RuntimeError> {
        let staging = self.staging(bytes);
        let mut encoder = self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(buffer, offset, &staging, 0, bytes);
        self.queue.submit([encoder.finish()]);
        self.read_staging(&staging, bytes)
    }

    /// A buffer to copy results into and map.
    pub(crate) fn staging(&self, bytes: u64) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let descriptor =
            wgpu::BufferDescriptor { label: Some("staging"), size: bytes, usage, mapped_at_creation: false };
        self.device.create_buffer(&descriptor)
    }

    /// Waits for the work submitted, maps a staging buffer and copies it out once, in bulk: the mapping is uncached.
    pub(crate) fn read_staging(&self, staging: &wgpu::Buffer, bytes: u64) -> Result<Vec<u8>, RuntimeError> {
        staging.map_async(wgpu::MapMode::Read, 0..bytes, |_| {});
        self.wait("reading results back")?;
        let view = staging.get_mapped_range(0..bytes);
        let data = view.map_err(|e| RuntimeError::Device { during: "mapping results", why: e.to_string() })?.to_vec();
        staging.unmap();
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::WGPU_VERSION;

    #[test]
    fn the_version_is_the_one_built_in() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains(&format!("name = \"wgpu\"\nversion = \"{WGPU_VERSION}\"")));
    }
}
