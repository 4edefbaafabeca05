// idea: as gemv_fixed_grid for K-quants: integer products with x in 15 bits, half a super-block at a time.
// needs: subgroups
// grid: rows * GRID
#import phases/norm_products
#import lib/gemv/half_blocks as w
#import lib/quant/* as w binding 8

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 256 512 640
const GRID: u32 = SM;           // tune: SM 2*SM
const THREADS_PER_ROW: u32 = 8u;    // tune: 4 8 16 32
const ROWS: u32 = 1u;           // tune: 1 2
const UNROLL: u32 = 1u;         // tune: 1 2
const LANES_PER_GROUP: u32 = 8u;    // tune: 8 32
const X_OFFSET: u32 = K / 4u;
const M: u32 = 256u;            // op: m
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup

const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert LANES_PER_GROUP <= MIN_SUBGROUP;    // the lanes that quantise together are in one subgroup
const_assert M >= 32u;          // rounding is judged by the rms of many outputs

@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [2, tokens, m]: the product, the normed row

// x in f32, and behind it as integers.
var<workgroup> scratch: array<vec4<u32>, X_OFFSET + INTEGERS>;

fn load_half_blocks(row: u32, end: u32, half_block: u32) -> array<HalfBlockWords, ROWS> {
    return w_load_half_blocks(row, end, half_block);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    thread: Thread,
) {
    norm_matmul(workgroup_index(workgroup, grid), thread);
}
