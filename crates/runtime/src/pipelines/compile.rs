//! One kernel: its text to a pipeline, through the driver's cache of it where pipelines are kept.

use super::disk::Store;
use super::{Pipeline, spirv};
use crate::timeline::Track;
use crate::{Device, RuntimeError};
use wgoose_kernels::{Access, Kernel};

/// Makes the pipeline of a kernel; also whether it was on disk.
pub(super) fn compile(
    device: &Device,
    kernel: &Kernel,
    store: Option<&Store>,
) -> Result<(Pipeline, bool), RuntimeError> {
    let gpu = &device.device;
    let mut span = device.timeline().span(Track::Compile, kernel.label.clone());
    let internal = gpu.push_error_scope(wgpu::ErrorFilter::Internal);
    let validation = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
    let kept = store.map(|store| Kept::open(gpu, store, kernel));
    let created = create(gpu, kernel, kept.as_ref().map(|kept| &kept.cache));
    let errors = [pollster::block_on(validation.pop()), pollster::block_on(internal.pop())];
    let pipeline = match (created, errors.into_iter().flatten().next()) {
        (Ok(pipeline), None) => pipeline,
        (Err(why), _) => return Err(failed(kernel, &why)),
        (_, Some(e)) => return Err(failed(kernel, &e.to_string())),
    };
    let Some((store, kept)) = store.zip(kept) else { return Ok((pipeline, false)) };
    let added = kept.added();
    if let Some(data) = &added {
        store.save(&kernel.hash, data);
    }
    let found = kept.from_entry && added.is_none();
    if found {
        span.rename(format!("cached {}", kernel.label));
    }
    Ok((pipeline, found))
}

fn failed(kernel: &Kernel, why: &str) -> RuntimeError {
    RuntimeError::Compile { kernel: kernel.label.clone(), why: why.replace('\n', " ") }
}

/// The driver's cache of one kernel.
struct Kept {
    cache: wgpu::PipelineCache,
    /// Whether it was filled from the store.
    from_entry: bool,
    /// What it held before the pipeline was made.
    before: Option<Vec<u8>>,
}

impl Kept {
    /// Fills a cache from the store; an empty one if there is no valid entry, or wgpu refuses it.
    fn open(gpu: &wgpu::Device, store: &Store, kernel: &Kernel) -> Self {
        let create = |data: Option<&[u8]>| {
            let refusal = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
            let label = Some(kernel.label.as_str());
            // Without the fallback a refusal is seen, and the pipeline is counted as compiled.
            let descriptor = wgpu::PipelineCacheDescriptor { label, data, fallback: false };
            // SAFETY: data must come from `get_data`, on this adapter and driver. An entry is taken only if no other user can
            // have written it (`wgoose_files::read_own`; only Unix tells) and it has the hash with which this program writes
            // entries for this kernel and this device, driver and wgpu version included: a hash without a key, against
            // accidents. wgpu and the driver then compare keys of their own.
            #[allow(unsafe_code)]
            let cache = unsafe { gpu.create_pipeline_cache(&descriptor) };
            (cache, pollster::block_on(refusal.pop()).is_some())
        };
        let filled = store.load(&kernel.hash).map(|entry| create(Some(&entry)));
        let (cache, from_entry) = match filled {
            Some((cache, false)) => (cache, true),
            _ => (create(None).0, false),
        };
        Kept { before: cache.get_data(), cache, from_entry }
    }

    /// All that the cache holds, if making the pipeline added to it. Nothing is added if the pipeline was in there, nor
    /// by drivers that keep nothing (Mesa's lavapipe): an entry of theirs would promise what it does not have.
    fn added(&self) -> Option<Vec<u8>> {
        self.cache.get_data().filter(|after| self.before.as_ref() != Some(after))
    }
}

/// Translates a kernel, or says why it cannot be.
fn module(gpu: &wgpu::Device, kernel: &Kernel) -> Result<wgpu::ShaderModule, String> {
    let label = Some(kernel.label.as_str());
    if spirv::is_needed(kernel) {
        // wgpu compares nothing with the features of the device here.
        if !gpu.features().contains(spirv::FEATURES) {
            return Err("the device was opened without matrix units".to_owned());
        }
        let [x, y, z] = kernel.facts.workgroup_size;
        let entry = wgpu::PassthroughShaderEntryPoint { name: "main".into(), workgroup_size: (x, y, z) };
        let descriptor = wgpu::ShaderModuleDescriptorPassthrough {
            label,
            entry_points: vec![entry].into(),
            spirv: Some(spirv::of(kernel)?.into()),
            ..wgpu::ShaderModuleDescriptorPassthrough::default()
        };
        // SAFETY: the words must be valid for the driver, which has what they need. naga wrote them from a module that it
        // validated; what is changed are memory operands and semantics that the memory model which it declares has, pointers to
        // other elements of the same memory, which cooperative matrices may be loaded through, and calls for bit casts of the
        // same types. As below otherwise; what is not trusted has naga's checks of divisions and loops.
        #[allow(unsafe_code)]
        return Ok(unsafe { gpu.create_shader_module_passthrough(descriptor) });
    }
    let source = wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into());
    if !kernel.is_trusted {
        return Ok(gpu.create_shader_module(wgpu::ShaderModuleDescriptor { label, source }));
    }
    // SAFETY: without run-time checks a kernel must not index out of bounds nor loop for ever. That is tested, not proved: all of
    // its text is this program's; kernels of ops are held against their references at every choice and at random sizes, with
    // guard words past the end of their output, those of no op (sampling, repacking, probes) against what they are to compute.
    // Storage buffers are also guarded by the robust access of the device, where it has that.
    #[allow(unsafe_code)]
    let module = unsafe {
        gpu.create_shader_module_trusted(
            wgpu::ShaderModuleDescriptor { label, source },
            wgpu::ShaderRuntimeChecks::unchecked(),
        )
    };
    Ok(module)
}

fn create(gpu: &wgpu::Device, kernel: &Kernel, cache: Option<&wgpu::PipelineCache>) -> Result<Pipeline, String> {
    let label = Some(kernel.label.as_str());
    let module = module(gpu, kernel)?;
    let entries: Vec<wgpu::BindGroupLayoutEntry> = kernel
        .facts
        .bindings
        .iter()
        .map(|b| wgpu::BindGroupLayoutEntry {
            binding: b.number,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match b.access {
                    Access::Uniform => wgpu::BufferBindingType::Uniform,
                    Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
                    Access::ReadWrite => wgpu::BufferBindingType::Storage { read_only: false },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        })
        .collect();
    let layout = gpu.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
    let pipeline_layout = gpu.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let pipeline = gpu.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions {
            constants: &[],
            zero_initialize_workgroup_memory: false,
        },
        cache,
    });
    Ok(Pipeline { pipeline, layout })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use wgoose_kernels::{Arithmetic, Binding, Facts, KernelHash, LineOrigins, Precision};

    /// One that writes a number, or does not compile where that is no number.
    pub(in crate::pipelines) fn kernel(number: &str, hash: u8) -> Kernel {
        let y = Binding { name: "y".to_owned(), number: 0, access: Access::ReadWrite, element: None };
        Kernel {
            label: format!("writes {number}"),
            wgsl: format!(
                "@group(0) @binding(0) var<storage, read_write> y: array<u32>;
                 @compute @workgroup_size(1) fn main() {{ y[0] = {number}; }}"
            ),
            origins: LineOrigins::default(),
            hash: KernelHash([hash; 16]),
            facts: Facts {
                bindings: vec![y],
                workgroup_size: [1; 3],
                workgroup_memory: 0,
                scratch: 0,
                features: BTreeSet::new(),
                precision: Precision::F32,
                arithmetic: Arithmetic::F32,
                has_dependency_wait: false,
            },
            workgroups: 1,
            partials: 0,
            is_trusted: true,
        }
    }

    #[test]
    fn a_cached_pipeline_is_found_only_if_wgpu_accepts_it() {
        let (device, folder, kernel) = (Device::open(None).unwrap(), tempfile::tempdir().unwrap(), kernel("7u", 7));
        if !device.device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            println!("skipped: {} has no pipeline cache", device.fingerprint().adapter);
            return;
        }
        let store = Store::pipelines(folder.path(), device.fingerprint());
        let found = || compile(&device, &kernel, Some(&store)).unwrap().1;
        assert!(!found(), "nothing was there");
        // Whatever this driver keeps of a kernel, if only a header.
        let kept = Kept::open(&device.device, &store, &kernel);
        create(&device.device, &kernel, Some(&kept.cache)).unwrap();
        let data = kept.cache.get_data().unwrap();
        store.save(&kernel.hash, &data);
        assert!(found());
        let mut foreign = data.clone();
        foreign[0] ^= 1;
        for refused in [foreign.as_slice(), &data[..data.len() - 1], b"", b"not wgpu's"] {
            store.save(&kernel.hash, refused);
            assert!(!found(), "{refused:?}");
        }
        device.check("compiling").unwrap();
    }
}
