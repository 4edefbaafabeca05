// idea: a fixed grid of workgroups splits the rows; x is staged once per workgroup.
// needs: subgroups
// grid: GRID * rows
#import lib/x/f32     // tune: f32 q8 q15
#import phases/gemv_fixed_grid

const SM: u32 = 16u;            // device: multiprocessors
const K: u32 = 256u;            // op: k
const WG: u32 = 512u;           // tune: 128 256 512 640
const GRID: u32 = SM;           // tune: SM/2 SM 2*SM 4*SM
const THREADS_PER_ROW: u32 = 32u;   // tune: 8 16 32
const SPLIT_K: u32 = 1u;        // tune: 1 2 4
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 1u;         // tune: 1 2 5
const MIN_SCRATCH: u32 = 0u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    gemv_fixed_grid(workgroup_index(workgroup, grid), tid);
}
