//! A kernel with its data on the device, ready to be run once or timed over and over.

use crate::lab::case::{Case, Data};
use crate::lab::clock::Clock;
use crate::pipelines::{Pipeline, Pipelines};
use crate::schedule::UNIFORM_SEGMENTS;
use crate::{Device, RuntimeError, packed};
use std::collections::BTreeMap;
use std::sync::Arc;
use wgoose_kernels::{Kernel, Precision, dispatch_size};

/// A kernel and its operands, once or more times. Several copies are taken in turn, so that weights stream from memory as
/// they do in a model, where the next use of a matrix is a whole token away.
pub struct Bench {
    device: Arc<Device>,
    pipeline: Pipeline,
    sets: Vec<Set>,
    grid: [u32; 3],
    label: String,
    precision: Precision,
}

struct Set {
    group: wgpu::BindGroup,
    y: wgpu::Buffer,
    state: Option<wgpu::Buffer>,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Nanoseconds per dispatch.
    pub ns: f64,
}

impl Bench {
    /// What follows y; must not change.
    pub(crate) const GUARD: f32 = 1234.5;
    const GUARDS: usize = 64;

    /// Compiles the kernel and uploads the operands so many times.
    ///
    /// # Errors
    /// The device fails, or the dispatch is too large.
    pub fn new(device: &Arc<Device>, kernel: &Kernel, case: &Case, copies: usize) -> Result<Self, RuntimeError> {
        Operands::upload(device, case, copies)?.bench(kernel)
    }

    /// Runs the first set once: y with its guard words, and the state.
    ///
    /// # Errors
    /// The device fails.
    pub fn run(&self, case: &Case) -> Result<(Vec<f32>, Option<Vec<f32>>), RuntimeError> {
        self.run_over(case, Before::Poison)
    }

    /// As [`Bench::run`], over what another op may have left in y.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn run_over(&self, case: &Case, before: Before) -> Result<(Vec<f32>, Option<Vec<f32>>), RuntimeError> {
        let set = &self.sets[0];
        self.device.queue.write_buffer(&set.y, 0, bytemuck::cast_slice(&initial_y(case, before)));
        if let (Some(buffer), Some(data)) = (&set.state, case.data.get("state")) {
            write(&self.device, buffer, data);
        }
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.encode(&mut pass, 1);
        }
        self.device.queue.submit([encoder.finish()]);
        let y = self.device.read(&set.y, 0, y_bytes(case), format_args!("running {}", self.label))?;
        let y = match case.instance.packed.y {
            true => {
                let (values, guards) = y.split_at(case.instance.output_len() * 2);
                [packed::unpack(values), bytemuck::pod_collect_to_vec(guards)].concat()
            }
            false => bytemuck::pod_collect_to_vec(&y),
        };
        let state = match (&set.state, case.data.get("state")) {
            (Some(buffer), Some(Data::State(before, format))) => {
                let stored = self.device.read(
                    buffer,
                    0,
                    before.len() as u64 * format.value_bytes(),
                    format_args!("running {}", self.label),
                )?;
                Some(packed::unpack_state(&stored, *format))
            }
            _ => None,
        };
        Ok((y, state))
    }

    /// Bytes of y and the state.
    pub(crate) fn result_bytes(&self, case: &Case) -> u64 {
        self.results(case).iter().map(|(_, bytes)| bytes).sum()
    }

    fn results(&self, case: &Case) -> Vec<(&wgpu::Buffer, u64)> {
        let set = &self.sets[0];
        let state = set.state.as_ref().map(|state| (state, state.size()));
        [(&set.y, y_bytes(case))].into_iter().chain(state).collect()
    }

    /// Whether so many runs of the first set give the same bits, y and state each time as they were. They are submitted together:
    /// a run costs little more than its dispatch.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn repeats_itself(&self, case: &Case, runs: u32) -> Result<bool, RuntimeError> {
        let during = format_args!("running {}", self.label);
        let kept = self.results(case);
        let before: Vec<wgpu::Buffer> = kept.iter().map(|(_, bytes)| self.device.storage("before", *bytes)).collect();
        self.device.queue.write_buffer(&before[0], 0, bytemuck::cast_slice(&initial_y(case, Before::Poison)));
        if let (Some(buffer), Some(data)) = (before.get(1), case.data.get("state")) {
            write(&self.device, buffer, data);
        }
        let stride = self.result_bytes(case);
        let staging = self.device.staging(stride * u64::from(runs));
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for run in 0..u64::from(runs) {
            for ((buffer, bytes), before) in kept.iter().zip(&before) {
                encoder.copy_buffer_to_buffer(before, 0, buffer, 0, *bytes);
            }
            self.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), 1);
            let mut at = run * stride;
            for (buffer, bytes) in &kept {
                encoder.copy_buffer_to_buffer(buffer, 0, &staging, at, *bytes);
                at += bytes;
            }
        }
        self.device.queue.submit([encoder.finish()]);
        let all = self.device.read_staging(&staging, stride * u64::from(runs), during)?;
        let mut each = all.chunks_exact(stride as usize);
        let first = each.next();
        Ok(each.all(|run| Some(run) == first))
    }

    /// Encodes `n` dispatches, taking the copies of the operands in turn.
    pub fn encode(&self, pass: &mut wgpu::ComputePass<'_>, n: u32) {
        pass.set_pipeline(&self.pipeline.pipeline);
        for i in 0..n {
            pass.set_bind_group(0, &self.sets[i as usize % self.sets.len()].group, &[]);
            pass.dispatch_workgroups(self.grid[0], self.grid[1], self.grid[2]);
        }
    }

    /// Times `repeats` dispatches in one pass.
    ///
    /// # Errors
    /// The device fails.
    pub fn time(&self, clock: &Clock, repeats: u32) -> Result<Timing, RuntimeError> {
        let ns = clock.time(&self.label, &|pass| self.encode(pass, repeats))? / f64::from(repeats);
        Ok(Timing { ns })
    }

    /// What the kernel computes with.
    pub(crate) fn precision(&self) -> Precision {
        self.precision
    }

    /// What is being measured.
    pub fn label(&self) -> &str {
        &self.label
    }
}

/// What y holds before a kernel runs that does not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// NaN: what is not written shows.
    Poison,
    /// A number, as in the memory of a step, where other ops were before.
    Stale,
}

fn initial_y(case: &Case, before: Before) -> Vec<f32> {
    let guards = std::iter::repeat_n(Bench::GUARD, Bench::GUARDS);
    // Packed, both values of a word are NaN, or a half.
    let before = match (case.instance.packed.y, before) {
        (true, Before::Poison) => vec![f32::from_bits(u32::MAX); case.before.len() / 2],
        (true, Before::Stale) => vec![f32::from_bits(0x3800_3800); case.before.len() / 2],
        (false, Before::Poison) => case.before.clone(),
        (false, Before::Stale) => case.before.iter().map(|y| if y.is_nan() { 0.5 } else { *y }).collect(),
    };
    before.into_iter().chain(guards).collect()
}

/// Bytes of y with its guard words.
fn y_bytes(case: &Case) -> u64 {
    let values = if case.instance.packed.y { case.before.len() / 2 } else { case.before.len() };
    (values + Bench::GUARDS) as u64 * 4
}

fn write(device: &Device, buffer: &wgpu::Buffer, data: &Data) {
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

/// The operands of a case on the device, for the kernels of its instance, each compiled once.
pub struct Operands {
    device: Arc<Device>,
    pipelines: Pipelines,
    /// One y for all: each dispatch waits for the one before, as in a step.
    y: wgpu::Buffer,
    /// Those of each copy, by name.
    copies: Vec<BTreeMap<String, wgpu::Buffer>>,
}

impl Operands {
    /// Uploads the operands so many times.
    ///
    /// # Errors
    /// The device fails.
    pub fn upload(device: &Arc<Device>, case: &Case, copies: usize) -> Result<Self, RuntimeError> {
        let initial = initial_y(case, Before::Poison);
        let y = device.storage("y", initial.len() as u64 * 4);
        device.queue.write_buffer(&y, 0, bytemuck::cast_slice(&initial));
        let copy = |_| upload(device, case, &y);
        let copies = (0..copies.max(1)).map(copy).collect();
        device.check("uploading a case")?;
        Ok(Operands { device: Arc::clone(device), pipelines: Pipelines::new(Arc::clone(device)), y, copies })
    }

    /// Compiles kernels on all cores. One that does not compile says so when it is asked for.
    pub fn compile_ahead(&mut self, kernels: &[&Kernel]) {
        drop(self.pipelines.compile(kernels));
    }

    /// A kernel with these operands.
    ///
    /// # Errors
    /// It does not compile, the device fails, or the dispatch is too large.
    pub fn bench(&mut self, kernel: &Kernel) -> Result<Bench, RuntimeError> {
        let pipeline = self.pipeline(kernel)?;
        self.bound(kernel, &pipeline)
    }

    /// A kernel with the operands of another case, compiled here.
    ///
    /// # Errors
    /// As [`Operands::bench`].
    pub fn bench_on(&mut self, kernel: &Kernel, other: &Operands) -> Result<Bench, RuntimeError> {
        let pipeline = self.pipeline(kernel)?;
        other.bound(kernel, &pipeline)
    }

    fn pipeline(&mut self, kernel: &Kernel) -> Result<Pipeline, RuntimeError> {
        self.pipelines.compile(&[kernel])?;
        let missing = || RuntimeError::Compile { kernel: kernel.label.clone(), why: "it is not there".to_owned() };
        self.pipelines.get(&kernel.hash).cloned().ok_or_else(missing)
    }

    fn bound(&self, kernel: &Kernel, pipeline: &Pipeline) -> Result<Bench, RuntimeError> {
        let label = kernel.label.clone();
        let too_large = || RuntimeError::DispatchTooLarge { kernel: label.clone(), workgroups: kernel.workgroups };
        let grid = dispatch_size(kernel.workgroups, self.device.limits()).ok_or_else(too_large)?;
        let sets = self.copies.iter().map(|copy| self.bind(copy, pipeline, kernel)).collect();
        let (device, pipeline) = (Arc::clone(&self.device), pipeline.clone());
        device.check("binding a case")?;
        Ok(Bench { device, pipeline, sets, grid, label, precision: kernel.facts.precision })
    }

    fn bind(&self, copy: &BTreeMap<String, wgpu::Buffer>, pipeline: &Pipeline, kernel: &Kernel) -> Set {
        let mut own = BTreeMap::new();
        if kernel.partials > 0 {
            own.insert("partials", self.device.storage("partials", kernel.partials * 4));
            own.insert("arrivals", self.device.storage("arrivals", u64::from(crate::schedule::ARRIVALS) * 4));
        }
        let bound = |name: &str| own.get(name).or_else(|| copy.get(name));
        let entries: Vec<wgpu::BindGroupEntry<'_>> = kernel
            .facts
            .bindings
            .iter()
            .filter_map(|b| Some((b.number, bound(b.name.as_str())?)))
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
            .collect();
        let group = self.device.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.layout,
            entries: &entries,
        });
        Set { group, y: self.y.clone(), state: copy.get("state").cloned() }
    }
}

/// The operands of a case, by name.
fn upload(device: &Device, case: &Case, y: &wgpu::Buffer) -> BTreeMap<String, wgpu::Buffer> {
    let params = device.device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("params"),
        size: 48,
        usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    device.queue.write_buffer(&params, 0, bytemuck::bytes_of(&case.instance.params()));
    let mut buffers = BTreeMap::from([("y".to_owned(), y.clone()), ("params".to_owned(), params)]);
    for (name, data) in &case.data {
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

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::{BatchShape, Format, Fusion, FusionSet, LoraRanks, ModelShape, rewrite, rwkv7};
    use wgoose_kernels::plan::{bindable_fusions, default_kernel};
    use wgoose_kernels::{Catalogue, Instance, Packed, StateFormat};

    /// The default kernel of each op that has the WKV state and that the device can bind; no fusion is needed for one.
    #[test]
    fn a_state_that_grows_beyond_f16_stays_finite() {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
        let shape = ModelShape { layers: 1, width: 128, ffn: 128, head_size: 64, vocab: 32, ranks };
        let (device, catalogue) = (Device::open(None).unwrap(), Catalogue::embedded());
        let sets: [FusionSet; 3] =
            [FusionSet::new(), [Fusion::TimeMixCore].into(), [Fusion::LoraGroup, Fusion::TimeMixSplit].into()];
        let fits = bindable_fusions(&shape, device.limits());
        for fusions in sets.into_iter().filter(|set| set.is_subset(&fits)) {
            let mut graph = rwkv7::forward(&shape).unwrap();
            rewrite::apply(&mut graph, &fusions).unwrap();
            let id = graph.op_ids().find(|id| graph.op(*id).op.updates_wkv()).unwrap();
            let batch = BatchShape { tokens: 5, segments: 2, outputs: 2 };
            let packed = Packed { state: true, ..Packed::default() };
            let instance = Instance { packed, ..Instance::of(&graph, id, &batch, &|_| Format::F32) };
            let mut case = Case::random(&instance, 1);
            if let Some(Data::Floats(values)) = case.data.get_mut("v") {
                values.iter_mut().for_each(|value| *value *= 1e8);
            }
            let (_, _, kernel) = default_kernel(&instance, Precision::F32, device.limits(), &catalogue).unwrap();
            let state = Bench::new(&device, &kernel, &case, 1).unwrap().run(&case).unwrap().1.unwrap();
            let largest = state.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            assert!(state.iter().all(|x| x.is_finite()) && largest == StateFormat::LARGEST_F16, "{}", kernel.label);
        }
    }
}
