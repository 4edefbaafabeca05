//! Compiled kernels, each once, by the hash of their text.

use crate::{Device, RuntimeError};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wgoose_kernels::{Access, Kernel, KernelHash};

/// A compiled kernel.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// The compiled kernels of a device.
pub(crate) struct Pipelines {
    device: Arc<Device>,
    compiled: HashMap<KernelHash, Pipeline>,
}

impl Pipelines {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Pipelines { device, compiled: HashMap::new() }
    }

    /// The pipeline of a kernel that was compiled before.
    pub(crate) fn get(&self, hash: &KernelHash) -> Option<&Pipeline> {
        self.compiled.get(hash)
    }

    pub(crate) fn counts(&self) -> crate::PipelineCounts {
        crate::PipelineCounts { compiled: self.compiled.len() as u32, found: 0 }
    }

    /// Compiles what is missing, on every core.
    pub(crate) fn compile(&mut self, kernels: &[&Kernel]) -> Result<(), RuntimeError> {
        let mut missing: Vec<&Kernel> =
            kernels.iter().copied().filter(|k| !self.compiled.contains_key(&k.hash)).collect();
        missing.sort_by_key(|k| k.hash);
        missing.dedup_by_key(|k| k.hash);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len());
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(kernel) = missing.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = compile(&self.device, kernel);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((kernel.hash, result));
                    }
                });
            }
        });
        for (hash, result) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            self.compiled.insert(hash, result?);
        }
        self.device.check("compiling kernels")
    }
}

fn compile(device: &Device, kernel: &Kernel) -> Result<Pipeline, RuntimeError> {
    let gpu = &device.device;
    let label = Some(kernel.label.as_str());
    let internal = gpu.push_error_scope(wgpu::ErrorFilter::Internal);
    let validation = gpu.push_error_scope(wgpu::ErrorFilter::Validation);
    let source = wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into());
    // SAFETY: without run-time checks a kernel must not index out of bounds nor loop for ever. Every kernel of the
    // catalogue is property-tested against its reference with canaries past the end of its output; robust buffer
    // access, which wgpu always enables, bounds the damage of one that is edited by hand.
    #[allow(unsafe_code)]
    let module = unsafe {
        gpu.create_shader_module_trusted(
            wgpu::ShaderModuleDescriptor { label, source },
            wgpu::ShaderRuntimeChecks::unchecked(),
        )
    };
    let entries: Vec<wgpu::BindGroupLayoutEntry> = kernel
        .reflection
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
        cache: None,
    });
    let errors = [pollster::block_on(validation.pop()), pollster::block_on(internal.pop())];
    match errors.into_iter().flatten().next() {
        None => Ok(Pipeline { pipeline, layout }),
        Some(e) => {
            let why = format!("{}: {}", kernel.label, e.to_string().replace('\n', " "));
            Err(RuntimeError::Device { during: "compiling a kernel", why })
        }
    }
}
