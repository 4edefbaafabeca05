// Sampling, second kernel: finds the best of all slices, and counts tokens and their probabilities by rank. A workgroup per
// sequence and slice.
#import device/sampling/layout
#import device/sampling/bins
#import lib/reduce/workgroup

const WG: u32 = 256u;

@group(0) @binding(1) var<storage, read> slices: array<VocabSlice>;    // [sequences, slices]
@group(0) @binding(2) var<storage, read> settings: array<Settings>;    // [sequences]
@group(0) @binding(3) var<storage, read> progress: array<Progress>;    // [sequences]
@group(0) @binding(4) var<storage, read> scores: array<f32>;           // [sequences, vocab]
@group(0) @binding(5) var<storage, read_write> bests: array<Best>;     // [sequences]
// 0 before, and again once the third kernel has read it.
@group(0) @binding(6) var<storage, read_write> histogram: array<atomic<u32>>;    // [sequences, BINS]: tokens and mass
@group(0) @binding(7) var<storage, read> grid_barrier: array<u32>; // [3] of the step before; see device/grid_barrier

var<workgroup> best_id: array<u32, WG>;
var<workgroup> broken: array<u32, WG>;
var<workgroup> bin_count: array<atomic<u32>, BINS>;
var<workgroup> bin_mass: array<atomic<u32>, BINS>;
var<workgroup> ended: u32;

fn find_best(tid: u32, first_slice: u32, slices_per_sequence: u32) -> Best {
    var own = Best(LOWEST, NONE, 0.0, GOES_ON);
    for (var i = tid; i < slices_per_sequence; i += WG) {
        let slice = slices[first_slice + i];
        if slice.best > own.score || (slice.best == own.score && slice.id < own.id) {
            own.score = slice.best;
            own.id = slice.id;
        }
        if own.broken == GOES_ON || slice.broken == NOT_A_NUMBER {
            own.broken = slice.broken;
        }
    }
    partials[tid] = own.score;
    best_id[tid] = own.id;
    broken[tid] = own.broken;
    workgroupBarrier();
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        if tid < stride {
            let other = tid + stride;
            let alike = partials[other] == partials[tid];
            if partials[other] > partials[tid] || (alike && best_id[other] < best_id[tid]) {
                partials[tid] = partials[other];
                best_id[tid] = best_id[other];
            }
            if broken[tid] == GOES_ON || broken[other] == NOT_A_NUMBER {
                broken[tid] = broken[other];
            }
        }
        workgroupBarrier();
    }
    let best = workgroupUniformLoad(&partials[0]);
    var sum = 0.0;
    for (var i = tid; i < slices_per_sequence; i += WG) {
        let slice = slices[first_slice + i];
        if slice.id != NONE {
            sum += slice.sum * exp(slice.best - best);
        }
    }
    let all = reduce_sum(Thread(tid), sum);
    return Best(best, workgroupUniformLoad(&best_id[0]), all, workgroupUniformLoad(&broken[0]));
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let slices_per_sequence = (params.vocab + SLICE - 1u) / SLICE;
    let sequence = index / slices_per_sequence;
    if sequence >= params.sequences || grid_barrier[TIMED_OUT] != 0u {
        return;
    }
    let how = settings[sequence];
    if tid == 0u {
        ended = progress[sequence].ended;
    }
    let is_counted = how.temperature > 0.0 && leaves_out(how);
    let slice = index % slices_per_sequence;
    if workgroupUniformLoad(&ended) != GOES_ON || (slice > 0u && !is_counted) {
        return;
    }
    let best = find_best(tid, sequence * slices_per_sequence, slices_per_sequence);
    if slice == 0u && tid == 0u {
        bests[sequence] = best;
    }
    if !is_counted || best.broken != GOES_ON || best.id == NONE {
        return;
    }
    for (var bin = tid; bin < BINS; bin += WG) {
        atomicStore(&bin_count[bin], 0u);
        atomicStore(&bin_mass[bin], 0u);
    }
    workgroupBarrier();
    let unit = unit_of(best.sum);
    let end = min((slice + 1u) * SLICE, params.vocab);
    for (var id = slice * SLICE + tid; id < end; id += WG) {
        let score = scores[sequence * params.vocab + id];
        if !ruled_out(score) {
            let bin = rank_bin(best.score, score);
            atomicAdd(&bin_count[bin], 1u);
            atomicAdd(&bin_mass[bin], mass_of(score, best.score, unit));
        }
    }
    workgroupBarrier();
    for (var bin = tid; bin < BINS; bin += WG) {
        let count = atomicLoad(&bin_count[bin]);
        if count > 0u {
            let at = (sequence * BINS + bin) * 2u;
            atomicAdd(&histogram[at], count);
            atomicAdd(&histogram[at + 1u], atomicLoad(&bin_mass[bin]));
        }
    }
}
