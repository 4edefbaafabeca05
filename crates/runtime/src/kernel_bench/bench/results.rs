//! Results of a kernel on the device: y and the state, and the numbers there before it runs.

use super::Bench;
use super::operands::write;
use crate::kernel_bench::case::{Case, Draws};
use crate::{Device, packed};
use rayon::prelude::*;
use std::sync::Mutex;
use wgoose_kernels::UNWRITTEN;

/// What the kernels of a case write, and what is there before they run. All of it stays on the device: large buffers
/// take longer to make than kernels to run.
pub(super) struct Results {
    /// One y for all data sets: each dispatch waits for the one before, as in a step.
    pub(super) y: wgpu::Buffer,
    /// Bytes of y with its guard words; buffers may be larger.
    pub(super) y_bytes: u64,
    /// The state of the first data set.
    pub(super) state: Option<wgpu::Buffer>,
    poison: wgpu::Buffer,
    stale: wgpu::Buffer,
    pub(super) state_before: Option<wgpu::Buffer>,
    /// The largest that was needed so far.
    pub(super) staging: Mutex<Option<wgpu::Buffer>>,
}

/// What y holds before a kernel runs that does not read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// NaN: what is not written shows.
    Poison,
    /// A number, as in the memory of a step, where other ops were before.
    Stale,
}

impl Results {
    /// The y of a case, and the state that the first copy of its operands has.
    pub(super) fn of(device: &Device, case: &Case, state: Option<&wgpu::Buffer>) -> Self {
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

    pub(super) fn before(&self, before: Before) -> &wgpu::Buffer {
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
pub(super) fn agree(a: &[u8], b: &[u8], value_bytes: usize, is_written: impl Fn(usize) -> bool + Sync) -> bool {
    const VALUES: usize = 1 << 14;
    let chunks = a.par_chunks(VALUES * value_bytes).zip(b.par_chunks(VALUES * value_bytes)).enumerate();
    chunks.all(|(chunk, (a, b))| {
        let mut values = a.chunks_exact(value_bytes).zip(b.chunks_exact(value_bytes)).enumerate();
        a == b || values.all(|(i, (a, b))| a == b || !is_written(chunk * VALUES + i))
    })
}
