// idea: one workgroup per segment and head, token after token; one thread per channel, which keeps its row of the state.
// grid: segments * heads
// default: 20
#import lib/op
#import lib/vector as v_first binding 4
#import lib/vector as gate binding 5
#import lib/state/* as state binding 10

const N: u32 = 64u;     // op: head_size
const WG: u32 = N;

const_assert N % 4u == 0u;      // the state is loaded four columns at a time
const_assert WG <= 1024u;       // a thread for every channel of a head

@group(0) @binding(1) var<storage, read> r: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> k: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> v: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> decay: array<f32>;              // [tokens, heads, N]
@group(0) @binding(7) var<storage, read> a: array<f32>;                  // [tokens, heads, N]
@group(0) @binding(8) var<storage, read> k_k: array<f32>;                // [heads, N]
@group(0) @binding(9) var<storage, read> k_a: array<f32>;                // [heads, N]
@group(0) @binding(11) var<storage, read> segments: array<vec4<u32>>;    // [segments]: first token, length, slot
@group(0) @binding(12) var<storage, read_write> y: array<f32>;           // [tokens, heads, N]

var<workgroup> token_r: array<f32, N>;
var<workgroup> token_decay: array<f32, N>;
var<workgroup> token_k: array<f32, N>;
var<workgroup> token_a: array<f32, N>;
var<workgroup> token_removal: array<f32, N>;

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
    let c = index % params.heads * N + tid;
    let home = (segment.z * params.m + c) * N;
    var s: array<f32, N>;
    for (var j = 0u; j < N; j += 4u) {
        let four = state_load((home + j) / 4u);
        s[j] = four.x;
        s[j + 1u] = four.y;
        s[j + 2u] = four.z;
        s[j + 3u] = four.w;
    }
    for (var t = 0u; t < segment.y; t++) {
        let at = (segment.x + t) * params.m + c;
        token_r[tid] = r[at];
        token_decay[tid] = decay[at];
        token_k[tid] = k[at] * (1.0 + (a[at] - 1.0) * k_a[c]);
        token_a[tid] = a[at];
        token_removal[tid] = k[at] * k_k[c];
        workgroupBarrier();
        var squares = 0.0;
        var removed = 0.0;
        for (var j = 0u; j < N; j++) {
            squares += token_removal[j] * token_removal[j];
            removed -= s[j] * token_removal[j];
        }
        let norm = max(sqrt(squares), 1e-12);
        let value = v[at] + (v_first_value(at) - v[at]) * gate_value(at);
        var out = 0.0;
        for (var j = 0u; j < N; j++) {
            let placed = token_removal[j] / norm * token_a[j];
            s[j] = s[j] * token_decay[j] + removed / norm * placed + value * token_k[j];
            out += s[j] * token_r[j];
        }
        y[at] = out;
        workgroupBarrier();
    }
    for (var j = 0u; j < N; j += 4u) {
        state_store((home + j) / 4u, vec4(s[j], s[j + 1u], s[j + 2u], s[j + 3u]));
    }
}
