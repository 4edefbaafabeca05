//! Adapters: what there is to open, and what each can do.

use super::WGPU_VERSION;
use std::collections::BTreeSet;
use wgoose_kernels::{DeviceFingerprint, Feature, Limits};

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

fn instance(backends: wgpu::Backends) -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends;
    // WGPU_VALIDATION=1 turns the validation layers on.
    descriptor.flags = wgpu::InstanceFlags::empty().with_env();
    wgpu::Instance::new(descriptor)
}

/// Adapters, the most capable first: real GPUs before CPU emulation, native APIs before OpenGL.
pub(super) fn enumerate() -> Vec<wgpu::Adapter> {
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
pub(super) const WANTED: wgpu::Features = wgpu::Features::TIMESTAMP_QUERY
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::MEMORY_DECORATION_COHERENT)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    .union(wgpu::Features::PASSTHROUGH_SHADERS)
    .union(wgpu::Features::PIPELINE_CACHE);

/// Whether kernels may use the matrix units: products of 16 x 16 x 16 with f16 operands and f32 sums, which naga does not
/// check against what the adapter lists, in subgroups of 32 lanes whatever the driver thinks of a kernel, and
/// modules that reach the driver as we translated them (`pipelines/spirv`).
fn has_matrix_units(adapter: &wgpu::Adapter) -> bool {
    use wgpu::CooperativeScalarType::{F16, F32};
    let info = adapter.get_info();
    let suits = |p: &wgpu::CooperativeMatrixProperties| {
        (p.m_size, p.n_size, p.k_size, p.ab_type, p.cr_type) == (16, 16, 16, F16, F32)
    };
    let needed = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX.union(wgpu::Features::PASSTHROUGH_SHADERS);
    info.backend == wgpu::Backend::Vulkan
        && adapter.features().contains(needed)
        && (info.subgroup_min_size, info.subgroup_max_size) == (32, 32)
        && adapter.cooperative_matrix_properties().iter().any(suits)
}

pub(super) fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let optional = [
        (Feature::Subgroups, wgpu::Features::SUBGROUP),
        (Feature::F16, wgpu::Features::SHADER_F16),
        (Feature::CoherentMemory, wgpu::Features::MEMORY_DECORATION_COHERENT),
    ];
    let has = optional.into_iter().filter(|(_, f)| features.contains(*f)).map(|(feature, _)| feature);
    // Those of a GPU are counted where they are needed (`lab::open_measured`).
    let multiprocessors = match info.device_type {
        wgpu::DeviceType::Cpu => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        _ => Limits::SOME_MULTIPROCESSORS,
    };
    let matrix_units = has_matrix_units(adapter).then_some(Feature::CooperativeMatrix);
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
            workgroup_threads: limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x),
            workgroup_memory: limits.max_compute_workgroup_storage_size,
            workgroups_per_dimension: limits.max_compute_workgroups_per_dimension,
            storage_binding: limits.max_storage_buffer_binding_size,
            buffer: limits.max_buffer_size,
            storage_buffers: limits.max_storage_buffers_per_shader_stage,
            storage_alignment: limits.min_storage_buffer_offset_alignment,
            uniform_alignment: limits.min_uniform_buffer_offset_alignment,
            min_subgroup: info.subgroup_min_size,
            multiprocessors,
            is_cpu: info.device_type == wgpu::DeviceType::Cpu,
            features: has.chain(matrix_units).collect::<BTreeSet<_>>(),
        },
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
    }
}

/// Every adapter of this machine, the default first.
pub fn adapters() -> Vec<AdapterSummary> {
    enumerate().iter().map(summary).collect()
}
