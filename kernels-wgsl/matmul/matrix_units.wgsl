// Products on matrix units, for some dozens of tokens: a workgroup takes a tile.
enable f16;
enable wgpu_cooperative_matrix;
#import params
#import unit
#import epilogue
#import matrix_tile as w

const K: u32 = 256u;            // op: k
const TILE_ROWS: u32 = 32u;     // tune: 16 32 64
const TILE_TOKENS: u32 = 16u;   // tune: 16 32
const PARTS: u32 = 8u;          // tune: 4 8
const DEPTH: u32 = 2u;          // tune: 1 2
const AHEAD: u32 = 2u;          // tune: 1 2 4 8
const WG: u32 = PARTS * 32u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> w: array<Eight>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

fn take_sum(place: u32, row: u32, token: u32, sum: f32) {
    if place + token < params.rows {
        store((place + token) * params.m + params.first + row, sum);
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) part: u32,
) {
    // Nobody leaves early: matrix units need everybody.
    let unit = unit_of(workgroup, grid);
    let row_tiles = params.window / TILE_ROWS;
    let token = unit / row_tiles * TILE_TOKENS;
    w_tile(token, unit % row_tiles * TILE_ROWS, token, params.rows - 1u, part, lane);
}
