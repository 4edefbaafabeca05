// idea: a fixed grid of workgroups splits the rows; each norms the token's row itself and stages what its rows multiply.
// needs: subgroups
// grid: rows * GRID
// default: 10
#import lib/x/f32     // tune: f32 q8
#import phases/norm_products
#import lib/quant/* as w binding 8
#import lib/gemv/rows as w

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const GRID: u32 = SM;           // tune: SM/2 SM 2*SM
const THREADS_PER_ROW: u32 = 16u;   // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 2u;         // tune: 1 2 5
const SUBBLOCKS: u32 = K / 16u;
const MIN_SCRATCH: u32 = 0u;
const LOADS: u32 = K / w_values_per_load;
const WHOLE_LOADS: u32 = (LOADS + THREADS_PER_ROW - 1u) / THREADS_PER_ROW * THREADS_PER_ROW;
const M: u32 = 256u;            // op: m
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert X_IS_F32 || w_has_integers;        // rounded x is multiplied with integers at 16-byte addresses
const_assert X_IS_F32 || M >= 32u;              // rounding is judged by the rms of many outputs

@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [2, tokens, m]: the product, the normed row

// After this all threads may read what `stage_vec4` has staged.
fn finish_staging(tid: u32) {
    workgroupBarrier();
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    norm_matmul(workgroup_index(workgroup, grid), thread);
}
