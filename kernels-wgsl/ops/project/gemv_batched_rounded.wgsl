// idea: as gemv_batched with x rounded for w_r, w_k and w_v; every workgroup stages its tokens itself, adapters stay in f32.
// needs: subgroups
// grid: (3 * ceil_div(m, BLOCK_ROWS) + ADAPTER_BLOCKS) * ceil_div(rows, TOKENS)
// The adapters multiply in f32: their errors would decide over decays and gates.
#import lib/x/q8     // tune: q8 q15
#import lib/gemv/project

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const THREADS_PER_ROW: u32 = 32u;   // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const UNROLL: u32 = 1u;
const BLOCK_ROWS: u32 = WG / THREADS_PER_ROW * ROWS;
const MIN_SUBGROUP: u32 = 4u;   // device: min_subgroup
const ROUNDED: bool = true;
const SUBBLOCKS: u32 = TOKENS * (K / 16u);
const MIN_SCRATCH: u32 = 0u;

const_assert K % 32u == 0u;     // k in groups of 32
const_assert THREADS_PER_ROW <= MIN_SUBGROUP;    // the threads of a row are in one subgroup
const_assert w_r_has_integers && w_k_has_integers && w_v_has_integers;      // the matrices have integers at 16-byte addresses
const_assert w1_is_float && a1_is_float && v1_is_float && g1_is_float;      // adapters are read as floats
const_assert M >= 32u;          // rounding is judged by the rms of many outputs

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let block = row_block_of(workgroup_index(workgroup, grid));
    if block.matrix == REST {
        clear_rest(block, tid);
        return;
    }
    if block.matrix < 3u {
        // Tokens are clamped; sums past the end are dropped.
        for (var t = 0u; t < TOKENS; t++) {
            let row = plane_of(block.matrix) * params.rows + min(block.token + t, params.rows - 1u);
            stage_x(tid, row * (K / 16u), t * (K / 16u), K / 16u);
        }
    }
    workgroupBarrier();
    project_block(block, tid);
}
