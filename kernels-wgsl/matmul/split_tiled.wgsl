// As tiled.wgsl, for few tokens, where tiles are too few to keep a device busy: the columns of a tile are dealt out to
// PARTS parts of the workgroup, which walk through theirs side by side; their sums meet at the end.
#import params
#import unit
#import epilogue
#import weight/f16 as w binding 2

const ROWS: u32 = 16u;          // tune: 8 16 32
const TOKENS: u32 = 32u;        // tune: 8 16 32
const FRAGMENT: u32 = 4u;       // tune: 2 4
const PARTS: u32 = 4u;          // tune: 2 4 8
const ACROSS: u32 = ROWS / FRAGMENT;
const LANES: u32 = ACROSS * (TOKENS / FRAGMENT);
const WG: u32 = LANES * PARTS;
const SUMS: u32 = ROWS * TOKENS;
// Slab rows are padded so that neighbours fall into different banks.
const LD: u32 = 9u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> slab_w: array<vec4<f32>, PARTS * ROWS * LD>;
var<workgroup> slab_x: array<vec4<f32>, PARTS * TOKENS * LD>;
var<workgroup> part_sums: array<f32, PARTS * SUMS>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    let row_tiles = (params.window + ROWS - 1u) / ROWS;
    let row = (unit % row_tiles) * ROWS;
    let token = (unit / row_tiles) * TOKENS;
    if token >= params.rows {
        return;
    }
    let groups = params.k / 32u;
    let part = lane / LANES;
    let own = lane % LANES;
    let own_row = own % ACROSS;
    let own_token = own / ACROSS;
    let at_w = part * ROWS * LD;
    let at_x = part * TOKENS * LD;
    var sums: array<f32, FRAGMENT * FRAGMENT>;
    for (var first = 0u; first < groups; first += PARTS) {
        let group = first + part;
        if group < groups {
            // Past the edges the last row or token is read again; its sums are not stored.
            for (var i = own; i < ROWS; i += LANES) {
                let weights = w_load32(min(row + i, params.window - 1u) * groups + group);
                for (var j = 0u; j < 8u; j++) {
                    slab_w[at_w + i * LD + j] = weights[j];
                }
            }
            for (var i = own; i < TOKENS * 8u; i += LANES) {
                let source = (min(token + i / 8u, params.rows - 1u) * groups + group) * 8u + i % 8u;
                slab_x[at_x + (i / 8u) * LD + i % 8u] = x[source];
            }
        }
        workgroupBarrier();
        if group < groups {
            for (var j = 0u; j < 8u; j++) {
                var xs: array<vec4<f32>, FRAGMENT>;
                for (var t = 0u; t < FRAGMENT; t++) {               // unroll
                    xs[t] = slab_x[at_x + (own_token + t * (TOKENS / FRAGMENT)) * LD + j];
                }
                for (var i = 0u; i < FRAGMENT; i++) {               // unroll
                    let weights = slab_w[at_w + (own_row + i * ACROSS) * LD + j];
                    for (var t = 0u; t < FRAGMENT; t++) {           // unroll
                        sums[i * FRAGMENT + t] += dot(weights, xs[t]);
                    }
                }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < FRAGMENT; i++) {                           // unroll
        for (var t = 0u; t < FRAGMENT; t++) {                       // unroll
            let at = (own_token + t * (TOKENS / FRAGMENT)) * ROWS + own_row + i * ACROSS;
            part_sums[part * SUMS + at] = sums[i * FRAGMENT + t];
        }
    }
    workgroupBarrier();
    for (var at = lane; at < SUMS; at += WG) {
        let at_row = row + at % ROWS;
        let at_token = token + at / ROWS;
        if at_row < params.window && at_token < params.rows {
            var sum = 0.0;
            for (var p = 0u; p < PARTS; p++) {
                sum += part_sums[p * SUMS + at];
            }
            store(at_token * params.m + params.first + at_row, sum);
        }
    }
}
