//! Adapters: what there is to open, and what each can do.

use super::AdapterIdentity;
use super::WGPU_VERSION;
use std::collections::BTreeSet;
use wgoose_kernels::{DeviceFingerprint, Feature, Limits};

/// An adapter, as `wgoose devices` shows it.
#[derive(Clone, Debug)]
pub struct AdapterSummary {
    /// Card, driver and API: what a plan is for.
    pub fingerprint: DeviceFingerprint,
    /// Which card of this machine it is.
    pub identity: AdapterIdentity,
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

/// The back end of a name.
pub(crate) fn backend(name: &str) -> Option<wgpu::Backends> {
    match name {
        "vulkan" => Some(wgpu::Backends::VULKAN),
        "metal" => Some(wgpu::Backends::METAL),
        "dx12" => Some(wgpu::Backends::DX12),
        "gl" => Some(wgpu::Backends::GL),
        _ => None,
    }
}

/// Adapters, the most capable first: real GPUs before CPU emulation; of one back end, or native APIs before OpenGL.
pub(crate) fn enumerate(only: Option<wgpu::Backends>) -> Vec<wgpu::Adapter> {
    let any = [wgpu::Backends::PRIMARY, wgpu::Backends::GL];
    for backends in only.map_or(any.to_vec(), |only| vec![only]) {
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

/// Fewest and most threads of a subgroup. wgpu says 4 to 64 of all that Metal drives; Apple's GPUs have 32.
fn subgroup_sizes(info: &wgpu::AdapterInfo) -> (u32, u32) {
    match info.backend {
        wgpu::Backend::Metal if info.name.starts_with("Apple ") => (32, 32),
        _ => (info.subgroup_min_size, info.subgroup_max_size),
    }
}

/// The matrix units that kernels may use: f16 operands and f32 sums, in sizes that the adapter lists, since naga
/// compares with nothing, and in subgroups of one size, whatever the driver thinks of a kernel.
fn matrix_units(
    info: &wgpu::AdapterInfo,
    features: wgpu::Features,
    listed: &[wgpu::CooperativeMatrixProperties],
) -> Vec<Feature> {
    use wgpu::CooperativeScalarType::{F16, F32};
    let has = |n: u32| {
        listed.iter().any(|p| (p.m_size, p.n_size, p.k_size, p.ab_type, p.cr_type) == (n, n, n, F16, F32))
            && features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX)
    };
    let (least, most) = subgroup_sizes(info);
    let mut units = Vec::new();
    // Kernels for 16 x 16 count on 32 threads, and reach the driver as we translate them (`pipelines/spirv`).
    let passes_through =
        info.backend == wgpu::Backend::Vulkan && features.contains(wgpu::Features::PASSTHROUGH_SHADERS);
    if has(16) && passes_through && (least, most) == (32, 32) {
        units.push(Feature::CooperativeMatrix);
    }
    if has(8) && least == most {
        units.push(Feature::CooperativeMatrix8);
    }
    units
}

/// Multiprocessors as NVIDIA's Vulkan driver declares them (VK_NV_shader_sm_builtins), which wgpu does not pass on.
#[cfg(not(target_vendor = "apple"))]
fn declared_multiprocessors(adapter: &wgpu::Adapter) -> Option<u32> {
    use ash::vk;
    // SAFETY: the handles are only used while the adapter is borrowed, for a query that changes nothing; what is
    // chained is a structure of an extension that the physical device lists. Drivers that list it have Vulkan 1.1,
    // where the query is from.
    #[allow(unsafe_code)]
    unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let (instance, physical) = (adapter.shared_instance().raw_instance(), adapter.raw_physical_device());
        let listed = instance.enumerate_device_extension_properties(physical).ok()?;
        listed.iter().find(|e| e.extension_name_as_c_str() == Ok(ash::nv::shader_sm_builtins::NAME))?;
        let mut builtins = vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV::default();
        instance.get_physical_device_properties2(
            physical,
            &mut vk::PhysicalDeviceProperties2::default().push_next(&mut builtins),
        );
        Some(builtins.shader_sm_count).filter(|count| *count > 0)
    }
}

#[cfg(target_vendor = "apple")]
fn declared_multiprocessors(_: &wgpu::Adapter) -> Option<u32> {
    None
}

/// The UUID that Vulkan drivers give a card.
#[cfg(not(target_vendor = "apple"))]
fn uuid(adapter: &wgpu::Adapter) -> Option<String> {
    use ash::vk;
    // SAFETY: as in `declared_multiprocessors`; the query and the structure that is chained are of Vulkan 1.1, which
    // the physical device has.
    #[allow(unsafe_code)]
    unsafe {
        let adapter = adapter.as_hal::<wgpu::hal::api::Vulkan>()?;
        let (instance, physical) = (adapter.shared_instance().raw_instance(), adapter.raw_physical_device());
        if instance.get_physical_device_properties(physical).api_version < vk::API_VERSION_1_1 {
            return None;
        }
        let mut ids = vk::PhysicalDeviceIDProperties::default();
        let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut ids);
        instance.get_physical_device_properties2(physical, &mut properties);
        AdapterIdentity::uuid_of(ids.device_uuid)
    }
}

#[cfg(target_vendor = "apple")]
fn uuid(_: &wgpu::Adapter) -> Option<String> {
    None
}

/// Which card of this machine an adapter is.
pub(crate) fn identity_of(adapter: &wgpu::Adapter) -> AdapterIdentity {
    let info = adapter.get_info();
    // A software adapter has no address.
    let pci = Some(info.device_pci_bus_id).filter(|pci| !pci.is_empty());
    AdapterIdentity { name: info.name, pci, uuid: uuid(adapter) }
}

pub(crate) fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let optional = [
        (Feature::Subgroups, wgpu::Features::SUBGROUP),
        (Feature::F16, wgpu::Features::SHADER_F16),
        (Feature::CoherentMemory, wgpu::Features::MEMORY_DECORATION_COHERENT),
    ];
    let has = optional.into_iter().filter(|(_, f)| features.contains(*f)).map(|(feature, _)| feature);
    // Those of a GPU that does not say are counted where kernels are tuned (`kernel_bench::open_measured`).
    let multiprocessors = match info.device_type {
        wgpu::DeviceType::Cpu => std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        _ => declared_multiprocessors(adapter).unwrap_or(Limits::SOME_MULTIPROCESSORS),
    };
    let matrix_units = matrix_units(&info, features, &adapter.cooperative_matrix_properties());
    let (min_subgroup, _) = subgroup_sizes(&info);
    AdapterSummary {
        identity: identity_of(adapter),
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
            min_subgroup,
            multiprocessors,
            is_cpu: info.device_type == wgpu::DeviceType::Cpu,
            vendor: info.vendor,
            features: has.chain(matrix_units).collect::<BTreeSet<_>>(),
        },
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
    }
}

/// Every adapter of this machine, the default first.
pub fn adapters() -> Vec<AdapterSummary> {
    enumerate(None).iter().map(summary).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgpu::CooperativeScalarType::{F16, F32};

    fn units(name: &str, backend: wgpu::Backend, sizes: (u32, u32), listed: &[(u32, F)]) -> Vec<Feature> {
        let mut info = wgpu::AdapterInfo::new(wgpu::DeviceType::DiscreteGpu, backend);
        (info.subgroup_min_size, info.subgroup_max_size) = sizes;
        info.name = name.to_owned();
        let square = |(n, cr_type): &(u32, F)| wgpu::CooperativeMatrixProperties {
            m_size: *n,
            n_size: *n,
            k_size: *n,
            ab_type: F16,
            cr_type: *cr_type,
            saturating_accumulation: false,
        };
        matrix_units(&info, WANTED, &listed.iter().map(square).collect::<Vec<_>>())
    }

    type F = wgpu::CooperativeScalarType;

    #[test]
    fn matrix_units_without_kernels_are_not_listed() {
        use wgpu::Backend::{Metal, Vulkan};
        let (small, large) = (Feature::CooperativeMatrix8, Feature::CooperativeMatrix);
        let (eight, sixteen) = ([(8, F16), (8, F32)], [(16, F16), (16, F32)]);
        assert_eq!(units("NVIDIA H200", Vulkan, (32, 32), &sixteen), [large]);
        assert_eq!(units("llvmpipe (LLVM 22)", Vulkan, (8, 8), &eight), [small]);
        assert_eq!(units("Apple M1", Metal, (4, 64), &eight), [small], "its subgroups have 32 threads");
        assert_eq!(units("AMD Radeon Pro", Metal, (4, 64), &eight), [], "its subgroups have any size");
        assert_eq!(units("RADV", Vulkan, (32, 64), &sixteen), []);
        assert_eq!(
            units("Apple M1", Metal, (4, 64), &sixteen),
            [],
            "its kernels need a memory model that Metal has not"
        );
        assert_eq!(units("llvmpipe (LLVM 22)", Vulkan, (8, 8), &eight[..1]), [], "sums in f16");
        assert_eq!(units("llvmpipe (LLVM 15)", Vulkan, (8, 8), &[]), []);
    }
}
