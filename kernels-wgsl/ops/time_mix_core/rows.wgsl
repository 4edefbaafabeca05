// idea: one workgroup per segment and head; a thread keeps parts of 4 or 8 rows of the state and computes the operands of its columns in registers: one barrier a token.
// needs: subgroups
// grid: segments * heads
// default: 5
#import lib/op
#import lib/packed
#import lib/row_reduce/subgroup
#import lib/vector4 as v_first binding 4
#import lib/vector4 as gate binding 5
#import lib/state/* as state binding 14

const N: u32 = 64u;                     // op: head_size
const THREADS_PER_ROW: u32 = 16u;       // tune: 16 8 4
const ROW_VEC4S: u32 = 2u;              // tune: 2 1
const Y_PACKED: bool = false;           // op: y_packed
const ROWS_PER_THREAD: u32 = 4u * ROW_VEC4S;
const WG: u32 = N / ROWS_PER_THREAD * THREADS_PER_ROW;
const VEC4S: u32 = N / 4u;
const VEC4S_PER_THREAD: u32 = VEC4S / THREADS_PER_ROW;

const_assert N % (4u * THREADS_PER_ROW) == 0u;      // a thread has at least four columns of the state
const_assert N % ROWS_PER_THREAD == 0u;             // threads take whole fours of rows
const_assert !Y_PACKED || ROW_VEC4S % 2u == 0u;     // packed, a thread stores eight channels at once
const_assert WG <= 1024u;                           // a workgroup has a thread for each part of the state

@group(0) @binding(1) var<storage, read> r: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> decay: array<vec4<f32>>;        // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> g: array<vec4<f32>>;            // [tokens, heads, N]
@group(0) @binding(9) var<storage, read> k_k: array<vec4<f32>>;          // [heads, N]
@group(0) @binding(10) var<storage, read> k_a: array<vec4<f32>>;         // [heads, N]
@group(0) @binding(11) var<storage, read> r_k: array<vec4<f32>>;         // [heads, N]
@group(0) @binding(12) var<storage, read> scale: array<vec4<f32>>;       // [heads, N]
@group(0) @binding(13) var<storage, read> bias: array<vec4<f32>>;        // [heads, N]
@group(0) @binding(15) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(16) var<storage, read_write> y: array<vec4<f32>>;     // [tokens, heads, N], perhaps packed

// What the state makes of a token, and of the one after it.
var<workgroup> heads: array<vec4<f32>, 2u * VEC4S>;

fn horizontal_sum(x: vec4<f32>) -> f32 {
    return (x.x + x.y) + (x.z + x.w);
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    if index >= params.segments * params.heads {
        return;
    }
    let segment = segments[index / params.heads];
    let head = index % params.heads;
    let row_thread = tid % THREADS_PER_ROW;
    // The first four of its rows.
    let rows = tid / THREADS_PER_ROW * ROW_VEC4S;
    // The threads of a row take its vec4s in turn, so that adjacent threads load adjacent vec4s.
    let home = (segment.z * params.m + head * N + rows * 4u) * VEC4S + row_thread;
    var s: array<vec4<f32>, ROWS_PER_THREAD * VEC4S_PER_THREAD>;
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {                // unroll
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            s[i * VEC4S_PER_THREAD + j] = state_load(home + i * VEC4S + j * THREADS_PER_ROW);
        }
    }
    for (var t = 0u; t < segment.y; t++) {
        let first = (segment.x + t) * (params.m / 4u) + head * VEC4S;
        var values: array<vec4<f32>, ROW_VEC4S>;
        for (var i = 0u; i < ROW_VEC4S; i++) {                  // unroll
            let at = first + rows + i;
            values[i] = v[at] + (v_first_vec4(at) - v[at]) * gate_vec4(at);
        }
        var keys: array<vec4<f32>, VEC4S_PER_THREAD>;
        var removals: array<vec4<f32>, VEC4S_PER_THREAD>;
        var squares = 0.0;
        var strength = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            let c = head * VEC4S + row_thread + j * THREADS_PER_ROW;
            let at = first + row_thread + j * THREADS_PER_ROW;
            keys[j] = k[at] * (1.0 + (a[at] - 1.0) * k_a[c]);
            removals[j] = k[at] * k_k[c];
            squares += dot(removals[j], removals[j]);
            strength += dot(r[at] * r_k[c], keys[j]);
        }
        let by_norm = 1.0 / max(sqrt(row_reduce(tid, 0u, squares)), 1e-12);
        strength = row_reduce(tid, 1u, strength);

        var removed: array<f32, ROWS_PER_THREAD>;
        for (var i = 0u; i < ROWS_PER_THREAD; i++) {            // unroll
            var products = vec4(0.0);
            for (var j = 0u; j < VEC4S_PER_THREAD; j++) {       // unroll
                products = fma(s[i * VEC4S_PER_THREAD + j], removals[j], products);
            }
            removed[i] = -row_reduce(tid, 0u, horizontal_sum(products)) * by_norm;
        }
        var sums: array<vec4<f32>, ROWS_PER_THREAD>;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            let at = first + row_thread + j * THREADS_PER_ROW;
            let placed = removals[j] * by_norm * a[at];
            let decays = decay[at];
            let reads = r[at];
            for (var i = 0u; i < ROWS_PER_THREAD; i++) {        // unroll
                const of_row = i * VEC4S_PER_THREAD + j;
                let written = fma(vec4(values[i / 4u][i % 4u]), keys[j], vec4(removed[i]) * placed);
                s[of_row] = fma(s[of_row], decays, written);
                sums[i] = fma(s[of_row], reads, sums[i]);
            }
        }
        let buffer = t % 2u * VEC4S;
        var outs: array<vec4<f32>, ROW_VEC4S>;
        for (var i = 0u; i < ROWS_PER_THREAD; i++) {            // unroll
            outs[i / 4u][i % 4u] = row_reduce(tid, 0u, horizontal_sum(sums[i]));
        }
        if row_thread == 0u {
            for (var i = 0u; i < ROW_VEC4S; i++) {              // unroll
                heads[buffer + rows + i] = outs[i];
            }
        }
        workgroupBarrier();

        // The threads of a row of the state have all channels among them.
        var sum = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            sum += horizontal_sum(heads[buffer + row_thread + j * THREADS_PER_ROW]);
        }
        let mean = row_reduce(tid, 0u, sum) / f32(N);
        var deviations = 0.0;
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            let centred = heads[buffer + row_thread + j * THREADS_PER_ROW] - mean;
            deviations += dot(centred, centred);
        }
        let spread = inverseSqrt(row_reduce(tid, 1u, deviations) / f32(N) + params.eps);
        if row_thread == 0u {
            for (var i = 0u; i < ROW_VEC4S; i++) {              // unroll
                let c = head * VEC4S + rows + i;
                let normed = (outs[i] - mean) * spread * scale[c] + bias[c];
                outs[i] = (normed + strength * values[i]) * g[first + rows + i];
            }
            for (var i = 0u; i < ROW_VEC4S; i++) {              // unroll
                if !Y_PACKED {
                    y[first + rows + i] = outs[i];
                } else if i % 2u == 1u {
                    y[(first + rows + i) / 2u] = bitcast<vec4<f32>>(packed_half8(outs[i - i % 2u], outs[i]));
                }
            }
        }
    }
    for (var i = 0u; i < ROWS_PER_THREAD; i++) {                // unroll
        for (var j = 0u; j < VEC4S_PER_THREAD; j++) {           // unroll
            state_store(home + i * VEC4S + j * THREADS_PER_ROW, s[i * VEC4S_PER_THREAD + j]);
        }
    }
}
