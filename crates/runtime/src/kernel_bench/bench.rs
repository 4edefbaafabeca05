//! A kernel with its data on the device, ready to be run once or timed over and over.

use crate::kernel_bench::case::{Case, Data, Draws};
use crate::kernel_bench::clock::Clock;
use crate::pipelines::{Pipeline, Pipelines};
use crate::schedule::UNIFORM_SEGMENTS;
use crate::{Device, RuntimeError, packed};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use wgoose_kernels::{Kernel, Precision, UNWRITTEN, dispatch_size};

/// A kernel and its operands: several data sets, taken in turn, so that weights stream from memory as they do in a model,
/// where the next use of a matrix is a whole token away, and so that no dispatch finds in y what it is about to write.
pub struct Bench {
    device: Arc<Device>,
    pipeline: Pipeline,
    sets: Vec<wgpu::BindGroup>,
    scratch: Option<Scratch>,
    /// Passes that were timed.
    timed: AtomicU32,
    results: Arc<Results>,
    grid: [u32; 3],
    label: String,
    precision: Precision,
}

/// What a kernel has beside its operands, for all data sets, as a step has it for all ops.
struct Scratch {
    partials: wgpu::Buffer,
    /// Counters that every launch finds at 0 and leaves at 0.
    arrivals: wgpu::Buffer,
}

/// What the kernels of a case write, and what is there before they run. All of it stays on the device: large buffers
/// take longer to make than kernels to run.
struct Results {
    /// One y for all data sets: each dispatch waits for the one before, as in a step.
    y: wgpu::Buffer,
    /// Bytes of y with its guard words; buffers may be larger.
    y_bytes: u64,
    /// The state of the first data set.
    state: Option<wgpu::Buffer>,
    poison: wgpu::Buffer,
    stale: wgpu::Buffer,
    state_before: Option<wgpu::Buffer>,
    /// The largest that was needed so far.
    staging: Mutex<Option<wgpu::Buffer>>,
}

/// What y and the state hold after a run.
pub struct Ran {
    /// y with its guard words.
    pub y: Vec<f32>,
    /// The state of every slot, if the op has one.
    pub state: Option<Vec<f32>>,
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

    /// Bytes of results that are read back together.
    const COMPARED_BYTES: u64 = 32 << 20;

    /// Compiles the kernel and uploads the operands so many times.
    ///
    /// # Errors
    /// The device fails, or the dispatch is too large.
    pub fn new(device: &Arc<Device>, kernel: &Kernel, case: &Case, copies: usize) -> Result<Self, RuntimeError> {
        Operands::upload(device, case, copies)?.bench(kernel)
    }

    /// Runs the first set once.
    ///
    /// # Errors
    /// The device fails.
    pub fn run(&self, case: &Case) -> Result<Ran, RuntimeError> {
        self.run_over(&[Before::Poison], |each| self.ran(case, each))
    }

    /// Runs the first set twice, the second time over what another op may have left in y: what came of the first run,
    /// and whether the second made the same bits, wherever `is_written` says that the op writes.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn run_twice(
        &self,
        case: &Case,
        is_written: impl Fn(usize) -> bool + Sync,
    ) -> Result<(Ran, bool), RuntimeError> {
        let y_bytes = self.results.y_bytes as usize;
        let value_bytes = if case.instance.packed.y { 2 } else { 4 };
        self.run_over(&[Before::Poison, Before::Stale], |each| {
            let (first, second) = each.split_at(each.len() / 2);
            let is_same = agree(&first[..y_bytes], &second[..y_bytes], value_bytes, is_written)
                && first[y_bytes..] == second[y_bytes..];
            (self.ran(case, first), is_same)
        })
    }

    /// Bytes of y and the state.
    fn result_bytes(&self) -> u64 {
        self.results.y_bytes + self.results.state.as_ref().map_or(0, wgpu::Buffer::size)
    }

    /// Whether so many runs of the first set give the same bits, y and state each time as they were.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn repeats_itself(&self, runs: u64) -> Result<bool, RuntimeError> {
        let bytes = self.result_bytes();
        let at_once = (Self::COMPARED_BYTES / bytes).max(2);
        let mut first: Option<Vec<u8>> = None;
        let mut left = runs;
        while left > 0 {
            let runs = left.min(at_once);
            let agree = self.run_over(&vec![Before::Poison; runs as usize], |each| {
                let mut each = each.chunks_exact(bytes as usize);
                let first = first.get_or_insert_with(|| each.next().unwrap_or_default().to_vec());
                each.all(|run| run == first)
            })?;
            if !agree {
                return Ok(false);
            }
            left -= runs;
        }
        Ok(true)
    }

    /// Runs the first set over each of these, and reads what y and the state then hold, one run after another. They are
    /// submitted together: a run costs little more than its dispatch.
    fn run_over<T>(&self, before: &[Before], read: impl FnOnce(&[u8]) -> T) -> Result<T, RuntimeError> {
        let during = format_args!("running {}", self.label);
        let Results { y, y_bytes, state, state_before, staging, .. } = &*self.results;
        let bytes = self.result_bytes() * before.len() as u64;
        let mut staging = staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) if staging.size() >= bytes => staging,
            small => small.insert(self.device.staging(bytes)),
        };
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut at = 0;
        for before in before {
            encoder.copy_buffer_to_buffer(self.results.before(*before), 0, y, 0, *y_bytes);
            if let (Some(state), Some(before)) = (state, state_before) {
                encoder.copy_buffer_to_buffer(before, 0, state, 0, state.size());
            }
            self.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()), 1);
            for (buffer, bytes) in [(y, *y_bytes)].into_iter().chain(state.iter().map(|state| (state, state.size()))) {
                encoder.copy_buffer_to_buffer(buffer, 0, staging, at, bytes);
                at += bytes;
            }
        }
        self.device.queue.submit([encoder.finish()]);
        staging.map_async(wgpu::MapMode::Read, 0..bytes, |_| {});
        self.device.wait(during)?;
        self.device.mapped(staging, bytes, read)
    }

    /// What the bytes of a run say.
    fn ran(&self, case: &Case, bytes: &[u8]) -> Ran {
        let (y, state) = bytes.split_at(self.results.y_bytes as usize);
        let y = if case.instance.packed.y {
            let (values, guards) = y.split_at(case.instance.output_len() * 2);
            [packed::unpack(values), bytemuck::pod_collect_to_vec(guards)].concat()
        } else {
            bytemuck::pod_collect_to_vec(y)
        };
        let state = match case.data.get("state") {
            Some(Data::State(before, format)) => {
                Some(packed::unpack_state(&state[..before.len() * format.value_bytes() as usize], *format))
            }
            _ => None,
        };
        Ran { y, state }
    }

    /// Encodes `n` dispatches, taking the data sets in turn, the first one last: its results are what y then holds.
    pub fn encode(&self, pass: &mut wgpu::ComputePass<'_>, n: u32) {
        pass.set_pipeline(&self.pipeline.pipeline);
        for i in (0..n).rev() {
            pass.set_bind_group(0, &self.sets[i as usize % self.sets.len()], &[]);
            pass.dispatch_workgroups(self.grid[0], self.grid[1], self.grid[2]);
        }
    }

    /// Times `repeats` dispatches in one pass. y holds NaN before it, or other numbers, by turns.
    ///
    /// # Errors
    /// The device fails.
    pub fn time(&self, clock: &Clock, repeats: u32) -> Result<Timing, RuntimeError> {
        let turn = self.timed.fetch_add(1, Ordering::Relaxed);
        self.put_before(if turn.is_multiple_of(2) { Before::Poison } else { Before::Stale });
        let ns = clock.time(&self.label, &|pass| self.encode(pass, repeats))? / f64::from(repeats);
        Ok(Timing { ns })
    }

    /// What y holds before a pass is timed.
    fn put_before(&self, before: Before) {
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(self.results.before(before), 0, &self.results.y, 0, self.results.y_bytes);
        self.device.queue.submit([encoder.finish()]);
    }

    /// What y and the state of the first data set hold now.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn as_left(&self, case: &Case) -> Result<Ran, RuntimeError> {
        let during = "reading what a kernel left";
        let Results { y, y_bytes, state, .. } = &*self.results;
        let mut bytes = self.device.read(y, 0, *y_bytes, during)?;
        if let Some(state) = state {
            bytes.extend(self.device.read(state, 0, state.size(), during)?);
        }
        Ok(self.ran(case, &bytes))
    }

    /// The first counter of `arrivals` that is not 0, and its number.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn arrivals_left(&self) -> Result<Option<(usize, u32)>, RuntimeError> {
        let Some(Scratch { arrivals, .. }) = &self.scratch else { return Ok(None) };
        let counters = self.device.read(arrivals, 0, arrivals.size(), "reading what a kernel left")?;
        let counters: Vec<u32> = bytemuck::pod_collect_to_vec(&counters);
        Ok(counters.into_iter().enumerate().find(|(_, n)| *n != 0))
    }

    /// Fills `partials` with NaN: no kernel may read them before it has written them.
    pub(crate) fn spoil_partials(&self) {
        if let Some(Scratch { partials, .. }) = &self.scratch {
            let words = vec![f32::NAN; (partials.size() / 4) as usize];
            self.device.queue.write_buffer(partials, 0, bytemuck::cast_slice(&words));
        }
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
enum Before {
    /// NaN: what is not written shows.
    Poison,
    /// A number, as in the memory of a step, where other ops were before.
    Stale,
}

impl Results {
    /// The y of a case, and the state that the first copy of its operands has.
    fn of(device: &Device, case: &Case, state: Option<&wgpu::Buffer>) -> Self {
        let [poison, stale] = [Before::Poison, Before::Stale].map(|before| {
            let values = initial_y(case, before);
            let buffer = device.storage("y before", size_of_val(&values[..]) as u64);
            device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&values));
            buffer
        });
        let state_before = state.zip(case.data.get("state")).map(|(state, data)| {
            let buffer = device.storage("state before", state.size());
            write(device, &buffer, data);
            buffer
        });
        let y = device.storage("y", poison.size());
        let y_bytes = y_bytes(case);
        Results { y, y_bytes, state: state.cloned(), poison, stale, state_before, staging: Mutex::default() }
    }

    fn before(&self, before: Before) -> &wgpu::Buffer {
        match before {
            Before::Poison => &self.poison,
            Before::Stale => &self.stale,
        }
    }
}

/// y before a kernel runs, with its guard words. What others left are numbers such as y has: a kernel that looks at them
/// takes them for results.
fn initial_y(case: &Case, before: Before) -> Vec<f32> {
    let is_packed = case.instance.packed.y;
    let mut others = Draws::new(STALE_SEED);
    let mut other = || others.float((-2.0, 2.0));
    let len = y_bytes(case) as usize / 4 - Bench::GUARDS;
    let mut y = Vec::with_capacity(len + Bench::GUARDS);
    // Packed, both values of a word are NaN, or a half.
    match (is_packed, before) {
        (true, Before::Poison) => y.resize(len, f32::from_bits(u32::MAX)),
        (true, Before::Stale) => {
            let values: Vec<f32> = (0..2 * len).map(|_| other()).collect();
            y.extend(bytemuck::pod_collect_to_vec::<u8, f32>(&packed::pack(&values)));
        }
        (false, Before::Poison) => y.extend_from_slice(&case.before),
        (false, Before::Stale) => {
            let is_nothing = |y: &f32| y.to_bits() == UNWRITTEN.to_bits();
            y.extend(case.before.iter().map(|y| if is_nothing(y) { other() } else { *y }));
        }
    }
    y.resize(len + Bench::GUARDS, Bench::GUARD);
    y
}

/// Seed of what others left in y.
const STALE_SEED: u64 = 5;

/// Bytes of y with its guard words.
fn y_bytes(case: &Case) -> u64 {
    let values = if case.instance.packed.y { case.before.len() / 2 } else { case.before.len() };
    (values + Bench::GUARDS) as u64 * 4
}

/// Whether both hold the same values, so many bytes each, wherever they are written.
fn agree(a: &[u8], b: &[u8], value_bytes: usize, is_written: impl Fn(usize) -> bool + Sync) -> bool {
    const VALUES: usize = 1 << 14;
    let chunks = a.par_chunks(VALUES * value_bytes).zip(b.par_chunks(VALUES * value_bytes)).enumerate();
    chunks.all(|(chunk, (a, b))| {
        let mut values = a.chunks_exact(value_bytes).zip(b.chunks_exact(value_bytes)).enumerate();
        a == b || values.all(|(i, (a, b))| a == b || !is_written(chunk * VALUES + i))
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_bench::Numbers;
    use wgoose_graph::{BatchShape, Format, Fusion, FusionSet, LoraRanks, ModelShape, rewrite, rwkv7};
    use wgoose_kernels::plan::{bindable_fusions, default_kernel};
    use wgoose_kernels::{Instance, Packed, StateFormat};
    use wgoose_plans::catalogue;

    /// The default kernel of each op that has the WKV state and that the device can bind; no fusion is needed for one.
    #[test]
    fn a_state_that_grows_beyond_f16_stays_finite() {
        let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
        let shape = ModelShape {
            layers: 1,
            width: 128,
            ffn: 128,
            head_size: 64,
            vocab: 32,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let (device, catalogue) = (Device::open(None).unwrap(), catalogue::embedded());
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
            let mut case = Case::random(&instance, Numbers::Even, 1);
            if let Some(Data::Floats(values)) = case.data.get_mut("v") {
                values.iter_mut().for_each(|value| *value *= 1e8);
            }
            let (_, _, kernel) = default_kernel(&instance, Precision::F32, device.limits(), &catalogue).unwrap();
            let state = Bench::new(&device, &kernel, &case, 1).unwrap().run(&case).unwrap().state.unwrap();
            let largest = state.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
            assert!(state.iter().all(|x| x.is_finite()) && largest == StateFormat::LARGEST_F16, "{}", kernel.label);
        }
    }
}
