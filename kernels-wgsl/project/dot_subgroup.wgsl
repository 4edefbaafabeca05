// One row for LANES invocations of a subgroup, which read its pieces in order. ROWS rows share the columns of x that they
// meet; UNROLL pieces are on their way at once.
#import unit
#import columns_f32
#import project_dots

const K: u32 = 256u;            // op: k
const WG: u32 = 64u;            // tune: 64 128 256
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2 4
const UNROLL: u32 = 4u;         // tune: 1 2 4
const TOKENS: u32 = 1u;
const ROUNDED: bool = false;

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
    project(block, lane);
}
