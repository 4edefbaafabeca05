// The matrices in tiles on matrix units, for some dozens of tokens, the adapters as in dot_columns.wgsl.
enable f16;
enable wgpu_cooperative_matrix;
#import unit
#import columns_f32
#import project
#import reduce_lanes
#import piece/f32 as w1 binding 5
#import piece/f16 as a1 binding 6
#import piece/f16 as v1 binding 7
#import piece/f16 as g1 binding 8
#import row_dots as w1
#import row_dots as a1
#import row_dots as v1
#import row_dots as g1
#import matrix_tile as w_r
#import matrix_tile as w_k
#import matrix_tile as w_v

const K: u32 = 256u;            // op: k
const TILE_ROWS: u32 = 32u;     // tune: 16 32
const TILE_TOKENS: u32 = 16u;   // tune: 16 32
const PARTS: u32 = 4u;          // tune: 4 8
const DEPTH: u32 = 1u;          // tune: 1 2
const AHEAD: u32 = 2u;          // tune: 1 2 4
const ROWS: u32 = 2u;           // tune: 1 2
const TOKENS: u32 = 4u;         // tune: 4 8
const LANES: u32 = 32u;
const UNROLL: u32 = 1u;
const WG: u32 = PARTS * 32u;
const BLOCK_ROWS: u32 = PARTS * ROWS;

@group(0) @binding(2) var<storage, read> w_r: array<Eight>;
@group(0) @binding(3) var<storage, read> w_k: array<Eight>;
@group(0) @binding(4) var<storage, read> w_v: array<Eight>;

fn x_quad(i: u32) -> vec4<f32> {
    return x[i];
}

// `place` is the matrix's first token in y.
fn take_sum(place: u32, row: u32, token: u32, sum: f32) {
    if place % params.rows + token < params.rows {
        y[(place + token) * params.m + row] = sum;
    }
}

fn adapter_shares(block: Block, row: u32, own: u32) -> array<f32, ROWS * TOKENS> {
    let plane = plane_of(block.matrix) * params.rows;
    let last = rows_of(block.matrix) - 1u;
    let token = plane + block.token;
    let last_token = plane + params.rows - 1u;
    switch block.matrix {
        case 3u: { return w1_dots(row, last, token, last_token, own); }
        case 4u: { return a1_dots(row, last, token, last_token, own); }
        case 5u: { return v1_dots(row, last, token, last_token, own); }
        default: { return g1_dots(row, last, token, last_token, own); }
    }
}

fn project_adapter(block: Block, lane: u32) {
    let row = lane / LANES * ROWS;
    let own = lane % LANES;
    var sums = adapter_shares(block, block.row + row, own);
    for (var i = 0u; i < ROWS; i++) {           // unroll
        for (var t = 0u; t < TOKENS; t++) {     // unroll
            let sum = lanes_sum(sums[i * TOKENS + t]);
            if own == 0u {
                keep(block, row + i, t, sum);
            }
        }
    }
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
    @builtin(subgroup_id) part: u32,
) {
    let unit = unit_of(workgroup, grid);
    let row_tiles = params.m / TILE_ROWS;
    let tiles = row_tiles * ((params.rows + TILE_TOKENS - 1u) / TILE_TOKENS);
    let row = unit % row_tiles * TILE_ROWS;
    let token = unit % tiles / row_tiles * TILE_TOKENS;
    let rows = params.rows;
    switch unit / tiles {
        case 0u: {
            w_r_tile(token, row, token, rows - 1u, part, lane);
        }
        case 1u: {
            w_k_tile(rows + token, row, 2u * rows + token, 3u * rows - 1u, part, lane);
        }
        case 2u: {
            w_v_tile(2u * rows + token, row, 3u * rows + token, 4u * rows - 1u, part, lane);
        }
        default: {
            let block = block_among(unit - 3u * tiles, 4u);
            if block.matrix == REST {
                clear(block, lane);
            } else {
                project_adapter(block, lane);
            }
        }
    }
}
