//! A kernel with its data on the device, ready to be run once or timed over and over.

mod operands;
mod results;

pub use operands::Operands;

use crate::kernel_bench::case::{Case, Data};
use crate::kernel_bench::clock::Clock;
use crate::pipelines::Pipeline;
use crate::{Device, RuntimeError, packed};
use results::{Before, Results, agree};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use wgoose_kernels::{Kernel, Precision};

/// A kernel and its operands: several data sets, taken in turn, so that weights stream from memory as they do in a
/// model, where the next use of a matrix is a whole token away, and so that no dispatch finds in y what it is about to
/// write.
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
