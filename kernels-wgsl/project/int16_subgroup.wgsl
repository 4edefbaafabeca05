// As dot_columns.wgsl, with x rounded to fifteen bits, in two int8 words, for w_r, w_k and w_v.
#import unit
#import columns_int16
#import project_rounded

const K: u32 = 256u;            // op: k
const WG: u32 = 128u;           // tune: 64 128
const LANES: u32 = 32u;         // tune: 8 16 32
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 1u;         // tune: 1 2 4 8
const UNROLL: u32 = 1u;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    project_rounded(unit_of(workgroup, grid), lane);
}
