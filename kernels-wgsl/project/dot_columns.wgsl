// As dot_subgroup.wgsl for several tokens: a piece of a row is decoded once and meets TOKENS columns of x.
#import unit
#import columns_f32
#import project_dots

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 4u;         // tune: 2 4 8 16
const UNROLL: u32 = 1u;
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
