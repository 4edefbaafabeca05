// One workgroup per tile of ROWS rows by TOKENS tokens. Slabs of 32 columns of both go through workgroup memory, the
// weights decoded once on the way; each invocation keeps FRAGMENT x FRAGMENT sums in registers.
#import params
#import unit
#import epilogue
#import weight/f16 as w binding 2

const ROWS: u32 = 32u;          // tune: 32 64 128
const TOKENS: u32 = 32u;        // tune: 16 32 64 128
const FRAGMENT: u32 = 4u;       // tune: 2 4 8
const ACROSS: u32 = ROWS / FRAGMENT;
const WG: u32 = ACROSS * (TOKENS / FRAGMENT);
// Slab rows are padded so that neighbours fall into different banks.
const LD: u32 = 9u;

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

var<workgroup> slab_w: array<vec4<f32>, ROWS * LD>;
var<workgroup> slab_x: array<vec4<f32>, TOKENS * LD>;

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
    let own_row = lane % ACROSS;
    let own_token = lane / ACROSS;
    var sums: array<f32, FRAGMENT * FRAGMENT>;
    for (var group = 0u; group < groups; group++) {
        // Past the edges the last row or token is read again; its sums are not stored.
        for (var i = lane; i < ROWS; i += WG) {
            let weights = w_load32(min(row + i, params.window - 1u) * groups + group);
            for (var j = 0u; j < 8u; j++) {
                slab_w[i * LD + j] = weights[j];
            }
        }
        for (var i = lane; i < TOKENS * 8u; i += WG) {
            slab_x[(i / 8u) * LD + i % 8u] = x[(min(token + i / 8u, params.rows - 1u) * groups + group) * 8u + i % 8u];
        }
        workgroupBarrier();
        for (var j = 0u; j < 8u; j++) {
            var xs: array<vec4<f32>, FRAGMENT>;
            for (var t = 0u; t < FRAGMENT; t++) {
                xs[t] = slab_x[(own_token + t * (TOKENS / FRAGMENT)) * LD + j];
            }
            for (var i = 0u; i < FRAGMENT; i++) {
                let weights = slab_w[(own_row + i * ACROSS) * LD + j];
                for (var t = 0u; t < FRAGMENT; t++) {
                    sums[i * FRAGMENT + t] += dot(weights, xs[t]);
                }
            }
        }
        workgroupBarrier();
    }
    for (var i = 0u; i < FRAGMENT; i++) {
        for (var t = 0u; t < FRAGMENT; t++) {
            let at_row = row + own_row + i * ACROSS;
            let at_token = token + own_token + t * (TOKENS / FRAGMENT);
            if at_row < params.window && at_token < params.rows {
                let at = at_token * params.m + params.first + at_row;
                let sum = sums[i * FRAGMENT + t];
                store(at, sum);
            }
        }
    }
}
