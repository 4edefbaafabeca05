// Values that announce themselves, for phases that hand values from one workgroup to another: point-to-point
// synchronisation in which the value is its own ready flag. Every value has a cell, and who needs it looks at that cell
// until it is there. Neither a memory barrier nor a counter is between. The text of the persistent kernel has
// `offsets`, `const CELLS_PER_LAYER`, and the cells twice, as `cells: array<atomic<u32>>` and as `cells_vec4:
// array<vec4<u32>>`. Must match crates/kernels/src/wgsl/link/announced.rs.
//
// A cell is written once between two clearings, so that no slow reader finds the value of a later layer. There are two
// banks of
// cells: a dispatch uses one and clears the other, which the dispatch before it has used. The first finds both clear; after one that
// timed out nothing looks at its cells again.
//
// All workgroups run the phases in one order and wait for values of earlier ones only, so that the first of those that
// are not
// finished never waits. That is so while all are resident; where they are not, waits end.
//
// WGSL promises that other workgroups see what atomics store. That every word of a vec4 is seen some time is a promise of coherent
// memory alone, and that its words come together is none at all: each says for itself whether it is there.
// requires: const SPIN_LIMIT, var grid_barrier

// Before the first bank; cell 0 is the number of the bank that the next dispatch uses.
const CELLS_HEAD: u32 = 4u;

var<private> bank: u32;
// First cells of a layer, and of the layer before it. Before the first layer are the values with which it begins.
var<private> cells_here: u32;
var<private> cells_before: u32;

// Whether a thread of this workgroup has looked as often as it may. From then on none waits: the workgroup runs to its end with whatever
// is there, and the host, which finds that it timed out, drops all of it.
var<workgroup> given_up: atomic<u32>;

fn first_cell(of_bank: u32) -> u32 {
    return CELLS_HEAD + of_bank * offsets[0].y;
}

// Before `is_aborted`, whose barrier the other threads need.
fn begin_announcing(tid: u32) {
    bank = subgroupBroadcastFirst(atomicLoad(&cells[0]));
    if tid == 0u {
        atomicStore(&given_up, 0u);
    }
}

fn enter_layer(layer: u32) {
    cells_before = first_cell(bank) + layer * CELLS_PER_LAYER;
    cells_here = cells_before + CELLS_PER_LAYER;
}

// The complement of a value's bits. 0 is no value: a NaN of all ones becomes another NaN.
fn announce(at: u32, value: f32) {
    atomicStore(&cells[at], max(~bitcast<u32>(value), 1u));
}

fn announce_vec4(at: u32, value: vec4<f32>) {
    cells_vec4[at] = max(~bitcast<vec4<u32>>(value), vec4(1u));
}

// Whether a value that was looked at since this was set is not there yet.
var<private> is_missing: bool;
// 1 once this workgroup has given up: read anew for every look, so that no compiler takes a load out of its loop.
var<private> late: u32;

// One look at a value. No branch depends on it, so that looks at others are in flight meanwhile.
fn seen(at: u32) -> f32 {
    let word = atomicLoad(&cells[at]);
    is_missing = is_missing | (word == 0u);
    return bitcast<f32>(~word);
}

fn seen_vec4(at: u32) -> vec4<f32> {
    let words = cells_vec4[at + late];
    is_missing = is_missing | any(words == vec4(0u));
    return bitcast<vec4<f32>>(~words);
}

// Whether a thread that has found nothing in so many looks looks again. A single workgroup has handed everything over to itself.
fn looks_again(looks: u32) -> bool {
    if WORKGROUPS == 1u {
        return false;
    }
    if looks == SPIN_LIMIT {
        atomicStore(&given_up, 1u);
        atomicStore(&grid_barrier.timed_out, 1u);
    }
    late = atomicLoad(&given_up);
    return late == 0u;
}

// A value, as soon as it is there.
fn announced(at: u32) -> f32 {
    is_missing = false;
    var value = seen(at);
    for (var looks = 0u; is_missing && looks_again(looks); looks++) {
        is_missing = false;
        value = seen(at);
    }
    return value;
}

fn announced_vec4(at: u32) -> vec4<f32> {
    is_missing = false;
    var value = seen_vec4(at);
    for (var looks = 0u; is_missing && looks_again(looks); looks++) {
        is_missing = false;
        value = seen_vec4(at);
    }
    return value;
}

// By all threads of the dispatch.
fn clear_other_bank(thread: u32, threads: u32) {
    let first = first_cell(1u - bank) / 4u;
    for (var i = thread; i < offsets[0].y / 4u; i += threads) {
        cells_vec4[first + i] = vec4(0u);
    }
}

// By one thread, once all workgroups have begun.
fn end_announcing() {
    atomicStore(&cells[0], 1u - bank);
}
