//! Operands of a case on the device, in several data sets, for all kernels of its instance.

use super::results::Results;
use super::{Bench, Scratch};
use crate::kernel_bench::case::{Case, Data};
use crate::pipelines::{Pipeline, Pipelines};
use crate::schedule::UNIFORM_SEGMENTS;
use crate::{Device, RuntimeError, packed};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use wgoose_kernels::{Kernel, dispatch_size};

/// The operands of a case on the device, for the kernels of its instance, each compiled once.
pub struct Operands {
    device: Arc<Device>,
    pipelines: Arc<Mutex<Pipelines>>,
    results: Arc<Results>,
    /// Those of each data set, by name.
    sets: Vec<BTreeMap<String, wgpu::Buffer>>,
}

impl Operands {
    /// Uploads the operands: so many copies of the matrices, and data sets of all else, of which there are two at least.
    ///
    /// # Errors
    /// The device fails.
    pub fn upload(device: &Arc<Device>, case: &Case, copies: usize) -> Result<Self, RuntimeError> {
        let pipelines = Arc::new(Mutex::new(Pipelines::new(Arc::clone(device))));
        Operands::with(device, pipelines, case, copies)
    }

    /// Uploads those of another case, for kernels that are compiled once for both.
    ///
    /// # Errors
    /// The device fails.
    pub fn beside(&self, case: &Case, copies: usize) -> Result<Self, RuntimeError> {
        Operands::with(&self.device, Arc::clone(&self.pipelines), case, copies)
    }

    fn with(
        device: &Arc<Device>,
        pipelines: Arc<Mutex<Pipelines>>,
        case: &Case,
        copies: usize,
    ) -> Result<Self, RuntimeError> {
        let copies = copies.max(1);
        let mut sets: Vec<BTreeMap<String, wgpu::Buffer>> = Vec::new();
        for i in 0..copies.max(LEAST_SETS) {
            let matrices = if i < copies { BTreeMap::new() } else { sets[i % copies].clone() };
            sets.push(upload(device, case, i, matrices));
        }
        let results = Arc::new(Results::of(device, case, sets[0].get("state")));
        sets.iter_mut().for_each(|set| drop(set.insert("y".to_owned(), results.y.clone())));
        device.queue.submit([]);
        device.check("uploading a case")?;
        Ok(Operands { device: Arc::clone(device), pipelines, results, sets })
    }

    /// Compiles kernels on all cores. One that does not compile says so when it is asked for.
    pub fn compile_ahead(&self, kernels: &[&Kernel]) {
        drop(self.pipelines.lock().unwrap_or_else(PoisonError::into_inner).compile(kernels));
    }

    /// A kernel with these operands.
    ///
    /// # Errors
    /// It does not compile, the device fails, or the dispatch is too large.
    pub fn bench(&self, kernel: &Kernel) -> Result<Bench, RuntimeError> {
        let pipeline = &self.pipeline(kernel)?;
        let label = kernel.label.clone();
        let too_large = || RuntimeError::DispatchTooLarge { kernel: label.clone(), workgroups: kernel.workgroups };
        let grid = dispatch_size(kernel.workgroups, self.device.limits()).ok_or_else(too_large)?;
        let scratch = (kernel.partials > 0).then(|| Scratch {
            partials: self.device.storage("partials", kernel.partials * 4),
            arrivals: self.device.storage("arrivals", u64::from(crate::schedule::ARRIVALS) * 4),
        });
        let sets = self.sets.iter().map(|set| self.bind(set, scratch.as_ref(), pipeline, kernel)).collect();
        let (device, pipeline, results) = (Arc::clone(&self.device), pipeline.clone(), Arc::clone(&self.results));
        device.check("binding a case")?;
        Ok(Bench {
            device,
            pipeline,
            sets,
            scratch,
            timed: AtomicU32::new(0),
            results,
            grid,
            label,
            precision: kernel.facts.precision,
        })
    }

    fn pipeline(&self, kernel: &Kernel) -> Result<Pipeline, RuntimeError> {
        let mut pipelines = self.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        pipelines.compile(&[kernel])?;
        let missing = || RuntimeError::Compile { kernel: kernel.label.clone(), why: "it is not there".to_owned() };
        pipelines.get(&kernel.hash).cloned().ok_or_else(missing)
    }

    fn bind(
        &self,
        set: &BTreeMap<String, wgpu::Buffer>,
        scratch: Option<&Scratch>,
        pipeline: &Pipeline,
        kernel: &Kernel,
    ) -> wgpu::BindGroup {
        let bound = |name: &str| match (name, scratch) {
            ("partials", Some(scratch)) => Some(&scratch.partials),
            ("arrivals", Some(scratch)) => Some(&scratch.arrivals),
            _ => set.get(name),
        };
        let entries: Vec<wgpu::BindGroupEntry<'_>> = kernel
            .facts
            .bindings
            .iter()
            .filter_map(|b| Some((b.number, bound(b.name.as_str())?)))
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        self.device.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        })
    }
}

/// Data sets of a case at least.
const LEAST_SETS: usize = 2;

/// The operands of a data set but for y, by name; its matrices are those of another one, if there is one.
fn upload(
    device: &Device,
    case: &Case,
    set: usize,
    mut matrices: BTreeMap<String, wgpu::Buffer>,
) -> BTreeMap<String, wgpu::Buffer> {
    let params = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("params"),
        size: 48,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue.write_buffer(&params, 0, bytemuck::bytes_of(&case.instance.params()));
    let mut buffers = BTreeMap::from([("params".to_owned(), params)]);
    for (name, data) in &case.data {
        if let (Data::Matrix(..), Some(matrix)) = (data, matrices.remove(*name)) {
            buffers.insert((*name).to_owned(), matrix);
            continue;
        }
        let data = &*case.in_set(set, name, data);
        let bytes = match data {
            Data::State(f, format) => f.len() * format.value_bytes() as usize,
            Data::Floats(f) => f.len() * 4,
            Data::Packed(f) => f.len() * 2,
            Data::Indices(i) => i.len() * 4,
            Data::Segments(s) => size_of_val(&s[..]),
            Data::Matrix(bytes, _) => bytes.len(),
        };
        let buffer = match data {
            Data::Segments(s) => device.table(name, 16 * s.len().max(UNIFORM_SEGMENTS as usize) as u64),
            _ => device.storage(name, bytes as u64),
        };
        write(device, &buffer, data);
        buffers.insert((*name).to_owned(), buffer);
    }
    device.queue.submit([]);
    buffers
}

pub(super) fn write(device: &Device, buffer: &wgpu::Buffer, data: &Data) {
    match data {
        Data::Packed(f) => device.queue.write_buffer(buffer, 0, &packed::pack(f)),
        Data::State(f, format) => device.queue.write_buffer(buffer, 0, &packed::pack_state(f, *format)),
        Data::Floats(f) => device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(f)),
        Data::Indices(i) => device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(i)),
        Data::Segments(s) => device.queue.write_buffer(buffer, 0, bytemuck::cast_slice(s)),
        Data::Matrix(bytes, _) => {
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(4), 0);
            device.queue.write_buffer(buffer, 0, &padded);
        }
    }
}
