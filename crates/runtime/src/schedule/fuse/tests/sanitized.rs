//! Whole steps of a tiny model under the sanitizer: dispatch by dispatch, and as a megakernel of several workgroups,
//! whose phases wait at grid barriers or for ready flags.

use super::{ONE, Step, World};
use crate::kernel_bench::sanitize::{SanitizeOptions, findings, shader};
use crate::schedule::fuse::fuse;
use crate::schedule::{Bound, BufferId, Memory, Recording, Table};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use wgoose_graph::{BatchShape, Format};
use wgoose_kernels::{HandOver, Segment};
use wgoose_loader::blocks;
use wgoose_plans::catalogue;
use wgoose_sanitizer::{Buffer, BufferRange, Dispatch};

/// Workgroups of a megakernel here.
const WORKGROUPS: u32 = 3;

/// Numbers of a weight, from -0.2 to 0.2, the same for the same seed.
fn weights(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = SplitMix64::seed_from_u64(seed);
    (0..len).map(|_| (rng.next_u64() >> 40) as f32 / (1u64 << 24) as f32 * 0.4 - 0.2).collect()
}

/// The buffers of a step before it runs: what a step writes nobody has written.
fn before(world: &World, chain: &Step, recording: &Recording, memory: &Memory) -> BTreeMap<BufferId, Buffer> {
    let mut bytes: BTreeMap<BufferId, Vec<u8>> = BTreeMap::new();
    let ranges = memory.operands.iter().chain(&chain.memory.operands).flatten().map(|operand| operand.range);
    for (buffer, end) in ranges.map(|range| (range.buffer, range.end())).chain(memory.buffers.clone()) {
        let room = bytes.entry(buffer).or_default();
        room.resize(room.len().max(end.next_multiple_of(16) as usize), 0);
    }
    for (dispatch, operands) in chain.recording.dispatches.iter().zip(&chain.memory.operands) {
        for ((_, bound), operand) in dispatch.bindings.iter().zip(operands) {
            let (Bound::Weight(weight, _), range) = (bound, operand.range) else { continue };
            let format = world.format_of(*weight);
            let values = range.bytes as usize / format.block_bytes() * format.block_weights();
            let target = &mut bytes.get_mut(&range.buffer).unwrap()[range.offset as usize..][..range.bytes as usize];
            blocks::encode(format, &weights(values, range.offset + 1), target);
        }
    }
    let mut put = |buffer: BufferId, offset: u64, words: &[u8]| {
        bytes.get_mut(&buffer).unwrap()[offset as usize..][..words.len()].copy_from_slice(words);
    };
    for (dispatch, operands) in recording.dispatches.iter().zip(&memory.operands) {
        for operand in operands.iter().filter(|operand| operand.range.buffer == BufferId::Params) {
            put(BufferId::Params, operand.range.offset, bytemuck::bytes_of(&dispatch.params));
        }
    }
    for (number, offsets) in recording.offsets.iter().enumerate() {
        put(BufferId::Offsets(number), 0, bytemuck::cast_slice(offsets));
    }
    let BatchShape { tokens, segments, outputs } = world.batch;
    let each = tokens / segments;
    let table: Vec<Segment> = (0..segments).map(|s| Segment::new(s * each, each, s)).collect();
    put(BufferId::Table(Table::Segments), 0, bytemuck::cast_slice(&table));
    let of_tokens: Vec<u32> = (0..tokens).map(|token| token / each).collect();
    put(BufferId::Table(Table::TokenSegments), 0, bytemuck::cast_slice(&of_tokens));
    let rows: Vec<u32> = (0..outputs).map(|output| output * tokens / outputs).collect();
    put(BufferId::Table(Table::Outputs), 0, bytemuck::cast_slice(&rows));
    let buffer = |(id, bytes): (BufferId, Vec<u8>)| match id {
        BufferId::Slot(_) | BufferId::Scratch(_) => (id, Buffer::unwritten(bytes.len())),
        _ => (id, Buffer::of(bytes)),
    };
    bytes.into_iter().map(buffer).collect()
}

/// Runs a step; the states that it leaves, and what was found.
fn run(recording: &Recording, memory: &Memory, mut buffers: BTreeMap<BufferId, Buffer>) -> (Vec<Vec<u8>>, Vec<String>) {
    let (options, mut faults) = (SanitizeOptions::default(), Vec::new());
    for (dispatch, operands) in recording.dispatches.iter().zip(&memory.operands) {
        let kernel = &recording.kernels[dispatch.kernel];
        let ids: Vec<BufferId> = buffers.keys().copied().collect();
        let range = |range: crate::schedule::BufferRange| BufferRange {
            buffer: ids.iter().position(|id| *id == range.buffer).unwrap(),
            offset: range.offset as usize,
            len: range.bytes as usize,
        };
        let mut run = Dispatch { buffers: buffers.into_values().collect(), ..Dispatch::new(dispatch.grid) };
        for operand in operands {
            run = run.bind_range(operand.binding, range(operand.range));
        }
        let mut report = shader(kernel).unwrap().check(&run, &options.orders).unwrap();
        assert!(report.is_complete, "{}: {:#?}", kernel.label, report.findings);
        buffers = ids.into_iter().zip(std::mem::take(&mut report.buffers)).collect();
        let found = findings(kernel, report).into_iter();
        // A value that is its own ready flag is looked at while it is written.
        let is_cell = |name: &str| name.starts_with("cells");
        let is_fault = |found: &crate::kernel_bench::sanitize::KernelFinding| {
            found.finding.allowed.is_none() && !found.finding.variable.as_deref().is_some_and(is_cell)
        };
        faults.extend(found.filter(is_fault).map(|found| format!("{}: {found}", kernel.label)));
    }
    let states = buffers.into_iter().filter(|(id, _)| matches!(id, BufferId::States(_)));
    (states.map(|(_, buffer)| buffer.bytes().to_vec()).collect(), faults)
}

#[test]
fn steps_of_a_tiny_model_are_clean_and_megakernels_equal_their_chain() {
    let announced = HandOver::Announced;
    let worlds = [
        ("barriers", World::new(2, 256, Format::F16)),
        ("flags", World { hand_over: announced, ..World::new(2, 256, Format::F16) }),
        ("flags and norms", World { hand_over: announced, ..World::new(2, 256, Format::F16).with_norms() }),
        (
            "two sequences",
            World { batch: BatchShape { tokens: 2, segments: 2, ..ONE }, ..World::new(2, 256, Format::F16) },
        ),
    ];
    for (name, world) in worlds {
        let chain = world.step();
        let (states, faults) =
            run(&chain.recording, &chain.memory, before(&world, &chain, &chain.recording, &chain.memory));
        assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
        let Step { graph, recording, memory, layout } = &chain;
        let launch = (WORKGROUPS, world.hand_over);
        let fused = fuse(graph, (recording, memory), launch, &world.limits, &catalogue::embedded()).unwrap();
        let memory = world.memory(&fused.recording, layout);
        let (of_megakernel, faults) = run(&fused.recording, &memory, before(&world, &chain, &fused.recording, &memory));
        assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
        assert!(states == of_megakernel, "{name}: the megakernel leaves other states");
    }
}
