// As dot_columns.wgsl, but w_r, w_k and w_v meet x rounded to int8. Every workgroup rounds the columns of its TOKENS tokens
// itself, so that there is no other dispatch to wait for. The adapters multiply in f32: their errors would decide over
// decays and gates.
#import unit
#import columns_int8
#import project_dots

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const UNROLL: u32 = 1u;
const ROUNDED: bool = true;
const RUNS: u32 = TOKENS * (K / 16u);

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = block_of(unit_of(workgroup, grid));
    if block.matrix == REST {
        clear(block, lane);
        return;
    }
    if block.matrix < 3u {
        // Past the last token the last one is read again; its sums are not stored.
        for (var t = 0u; t < TOKENS; t++) {
            let row = plane_of(block.matrix) * params.rows + min(block.token + t, params.rows - 1u);
            round_runs(lane, row * (K / 16u), t * (K / 16u), K / 16u);
        }
    }
    workgroupBarrier();
    project(block, lane);
}
