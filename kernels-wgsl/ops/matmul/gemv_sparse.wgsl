// idea: of a K-major matrix, columns that a zero of x multiplies are not read; thread groups list those that they multiply.
// grid: ceil_div(shard_rows, 8 * PANELS) * rows
// default: 40
// A workgroup takes one token and PANELS times eight rows. Its columns belong to groups of PANELS threads: each group lists
// those of its own that no zero multiplies, in order, and walks down its list with a thread for every eight rows,
// PREFETCH_DEPTH columns in flight. The groups' sums are added in pairs. Which group has a column does not depend on x, so
// that a sum without the zeros is the sum with them (SKIP = 0), to the bit. K_TILES lists one after the other need less
// workgroup memory.
#import lib/op
#import lib/quant/* as w binding 2

const K: u32 = 256u;            // op: k
const WG: u32 = 256u;           // tune: 64 256 512
const PANELS: u32 = 2u;         // tune: 1 2 4
const PREFETCH_DEPTH: u32 = 4u; // tune: 4 8
const K_TILES: u32 = 2u;        // tune: 1 2 4
const SKIP: u32 = 1u;           // tune: 1 0
const THREAD_GROUPS: u32 = WG / PANELS;
// vec4s of x in a K-tile, and of them for one thread.
const VEC4S: u32 = (K / 4u + K_TILES - 1u) / K_TILES;
const VEC4S_PER_THREAD: u32 = (VEC4S + WG - 1u) / WG;
// Columns of a group in a K-tile; one more, so that groups fall into different banks.
const LIST: u32 = VEC4S_PER_THREAD * 4u * PANELS + 1u;

const_assert K % 32u == 0u;     // k in groups of 32
const_assert WG % PANELS == 0u;     // thread groups are whole

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;    // [rows, k]
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [rows, m]

var<workgroup> list: array<u32, THREAD_GROUPS * LIST>;
var<workgroup> counts: array<u32, WG>;
var<workgroup> upper_sums: array<vec4<f32>, WG>;
var<workgroup> lower_sums: array<vec4<f32>, WG>;

fn is_nonzero(x: vec4<f32>) -> vec4<bool> {
    // Not `x != 0`: what is no number is not left out.
    return !(x == vec4(0.0)) | vec4(SKIP == 0u);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let panels = w_panels();
    let row_blocks = (panels + PANELS - 1u) / PANELS;
    let token = index / row_blocks;
    if token >= params.rows {
        return;
    }
    let x_row = token * (K / 4u);
    let first_panel = index % row_blocks * PANELS;
    // Panels are clamped; sums past the end are dropped.
    let panel = min(first_panel + tid % PANELS, panels - 1u);
    let group = tid / PANELS;
    var sums: mat2x4<f32>;
    for (var k_tile = 0u; k_tile < K_TILES; k_tile++) {
        let tile_end = min((k_tile + 1u) * VEC4S, K / 4u);
        let begin = min(k_tile * VEC4S + tid * VEC4S_PER_THREAD, tile_end);
        let end = min(begin + VEC4S_PER_THREAD, tile_end);
        var count = 0u;
        for (var v = begin; v < end; v++) {
            count += u32(dot(vec4<f32>(is_nonzero(x[x_row + v])), vec4(1.0)));
        }
        counts[tid] = count;
        workgroupBarrier();
        var at = group * LIST;
        var listed = 0u;
        for (var i = 0u; i < PANELS; i++) {
            let of_thread = counts[group * PANELS + i];
            at += select(0u, of_thread, i < tid % PANELS);
            listed += of_thread;
        }
        for (var v = begin; v < end; v++) {
            let taken = is_nonzero(x[x_row + v]);
            for (var i = 0u; i < 4u; i++) {                 // unroll
                if taken[i] {
                    list[at] = v * 4u + i;
                    at += 1u;
                }
            }
        }
        workgroupBarrier();
        for (var next = 0u; next < listed; next += PREFETCH_DEPTH) {
            var factors: array<f32, PREFETCH_DEPTH>;
            var columns: array<mat2x4<f32>, PREFETCH_DEPTH>;
            for (var i = 0u; i < PREFETCH_DEPTH; i++) {     // unroll
                // The list is clamped: past its end a column is multiplied by zero.
                let column = list[group * LIST + min(next + i, listed - 1u)];
                factors[i] = select(0.0, x[x_row + column / 4u][column % 4u], next + i < listed);
                columns[i] = w_column8(column, panel);
            }
            for (var i = 0u; i < PREFETCH_DEPTH; i++) {     // unroll
                sums += factors[i] * columns[i];
            }
        }
        // The counts and the list are free for the next K-tile.
        workgroupBarrier();
    }
    upper_sums[tid] = sums[0];
    lower_sums[tid] = sums[1];
    for (var stride = WG / 2u; stride >= PANELS; stride /= 2u) {
        workgroupBarrier();
        if tid < stride {
            upper_sums[tid] += upper_sums[tid + stride];
            lower_sums[tid] += lower_sums[tid + stride];
        }
    }
    workgroupBarrier();
    let row = first_panel * 8u + tid;
    if tid < PANELS * 8u && row < params.shard_rows {
        let sum = select(upper_sums[tid / 8u], lower_sums[tid / 8u], (tid & 4u) == 4u);
        store(token * params.m + params.first + row, sum[tid % 4u]);
    }
}
