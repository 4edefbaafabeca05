//! How to open a device.

use super::adapter::WANTED;
use crate::RuntimeError;
use crate::timeline::Timeline;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;
use wgoose_kernels::Limits;

/// What kernels may use of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeviceLimits {
    /// All that it has.
    #[default]
    Own,
    /// No more than every WebGPU device has, and no optional feature: how a model runs where there is nothing else.
    /// Times are still taken on the device, and compiled pipelines are kept.
    WebGpu,
    /// As [`DeviceLimits::WebGpu`], with nothing beyond WebGPU around the kernels either: no timestamps, no pipeline
    /// cache.
    Low,
}

/// Environment variable with the limits of devices for which none are asked.
const LIMITS: &str = "WGOOSE_LIMITS";

impl DeviceLimits {
    /// These limits, or in place of [`DeviceLimits::Own`] those that the environment variable `WGOOSE_LIMITS` names:
    /// `webgpu` or `low`. So a whole test suite runs as on a lesser device.
    ///
    /// # Errors
    /// The variable names no limits.
    pub fn or_of_environment(self) -> Result<DeviceLimits, RuntimeError> {
        let named = std::env::var_os(LIMITS).filter(|_| self == DeviceLimits::Own);
        named.map_or(Ok(self), |name| DeviceLimits::named(&name.to_string_lossy()))
    }

    fn named(name: &str) -> Result<DeviceLimits, RuntimeError> {
        match name {
            "" | "own" => Ok(DeviceLimits::Own),
            "webgpu" => Ok(DeviceLimits::WebGpu),
            "low" => Ok(DeviceLimits::Low),
            _ => Err(RuntimeError::UnknownLimits { variable: LIMITS, wanted: name.to_owned() }),
        }
    }

    /// The limits of a device that is opened so.
    pub fn of(self, own: Limits) -> Limits {
        let least = match self {
            DeviceLimits::Own => return own,
            DeviceLimits::WebGpu | DeviceLimits::Low => Limits::webgpu(),
        };
        Limits {
            workgroup_threads: own.workgroup_threads.min(least.workgroup_threads),
            workgroup_memory: own.workgroup_memory.min(least.workgroup_memory),
            workgroups_per_dimension: own.workgroups_per_dimension.min(least.workgroups_per_dimension),
            storage_binding: own.storage_binding.min(least.storage_binding),
            buffer: own.buffer.min(least.buffer),
            storage_buffers: own.storage_buffers.min(least.storage_buffers),
            storage_alignment: own.storage_alignment.max(least.storage_alignment),
            uniform_alignment: own.uniform_alignment.max(least.uniform_alignment),
            min_subgroup: own.min_subgroup,
            multiprocessors: own.multiprocessors,
            is_cpu: own.is_cpu,
            vendor: own.vendor,
            features: BTreeSet::new(),
        }
    }

    /// What wgpu is asked for: it refuses what goes beyond.
    pub(super) fn required(self, adapter: &wgpu::Adapter) -> (wgpu::Features, wgpu::Limits) {
        const AROUND_KERNELS: wgpu::Features = wgpu::Features::TIMESTAMP_QUERY
            .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
            .union(wgpu::Features::PIPELINE_CACHE);
        let least = || wgpu::Limits::default().or_worse_values_from(&adapter.limits());
        match self {
            DeviceLimits::Own => (adapter.features() & WANTED, adapter.limits()),
            DeviceLimits::WebGpu => (adapter.features() & AROUND_KERNELS, least()),
            DeviceLimits::Low => (wgpu::Features::empty(), least()),
        }
    }
}

/// How to open a device; every option has a default.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// An adapter's index, PCI address, UUID, an unambiguous part of its name, or a back end: `vulkan`, `metal`,
    /// `dx12`, `gl`. `None`: the most capable one.
    pub adapter: Option<String>,
    /// What kernels may use of it.
    pub limits: DeviceLimits,
    /// Folder of the pipeline cache; made if it is not there. `None`: compiled pipelines are not kept, and matrix units
    /// are checked every time.
    pub cache: Option<PathBuf>,
    /// Where spans are collected.
    pub timeline: Timeline,
    /// Pretends that the device has no more than this many bytes of memory.
    pub memory: Option<u64>,
    /// Longest wait for work that was submitted at once; past it the call fails with
    /// [`TimedOut`](crate::RuntimeError::TimedOut). `None`: two minutes, an hour where a CPU plays the device.
    pub patience: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::DeviceLimits;

    #[test]
    fn limits_have_names() {
        let named = |name| DeviceLimits::named(name).map_err(|error| error.to_string());
        assert_eq!(named(""), Ok(DeviceLimits::Own));
        assert_eq!(named("webgpu"), Ok(DeviceLimits::WebGpu));
        assert_eq!(named("low"), Ok(DeviceLimits::Low));
        assert_eq!(named("WebGPU"), Err("WGOOSE_LIMITS is 'WebGPU': it can be own, webgpu or low".to_owned()));
    }
}
