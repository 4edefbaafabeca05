// idea: one workgroup per segment and head, token after token; THREADS_PER_ROW threads keep a row of the state in registers.
// grid: segments * heads
// default: 10
// The recurrence of RWKV-7, as in Peng et al. 2025 (phases/wkv_staged). A row of the state is a value channel. r, k,
// ... of the token go through workgroup memory.
#import lib/op
#import lib/state/* as state binding 7
#import lib/segment_table/storage   // tune: storage uniform

const N: u32 = 64u;     // op: head_size
const THREADS_PER_ROW: u32 = 4u; // tune: 1 2 4 8
const WG: u32 = N * THREADS_PER_ROW;
const COLS: u32 = N / THREADS_PER_ROW;

const_assert N % (4u * THREADS_PER_ROW) == 0u;  // a thread has at least four columns of the state
const_assert WG <= 1024u;        // a thread for every THREADS_PER_ROW-th of a row of the state

@group(0) @binding(1) var<storage, read> r: array<f32>;          // [tokens, heads, N]
@group(0) @binding(2) var<storage, read> decay: array<f32>;      // [tokens, heads, N]
@group(0) @binding(3) var<storage, read> k: array<f32>;          // [tokens, heads, N]
@group(0) @binding(4) var<storage, read> v: array<f32>;          // [tokens, heads, N]
@group(0) @binding(5) var<storage, read> kk: array<f32>;         // [tokens, heads, N]
@group(0) @binding(6) var<storage, read> a: array<f32>;          // [tokens, heads, N]
@group(0) @binding(9) var<storage, read_write> y: array<f32>;    // [tokens, heads, N]

var<workgroup> token_r: array<f32, N>;
var<workgroup> token_decay: array<f32, N>;
var<workgroup> token_k: array<f32, N>;
var<workgroup> token_kk: array<f32, N>;
var<workgroup> token_b: array<f32, N>;
var<workgroup> partials: array<f32, WG>;

// The sum over the threads of a row.
fn row_reduce(row: u32, row_thread: u32, value: f32) -> f32 {
    if THREADS_PER_ROW == 1u {
        return value;
    }
    partials[row_thread * N + row] = value;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < THREADS_PER_ROW; i++) {
        sum += partials[i * N + row];
    }
    workgroupBarrier();
    return sum;
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
    let row = tid % N;
    let row_thread = tid / N;
    let col = row_thread * COLS;
    let home = ((segment.z * params.heads + head) * N + row) * N + col;

    var s: array<f32, COLS>;
    for (var j = 0u; j < COLS; j += 4u) {
        let four = state_load((home + j) / 4u);
        s[j] = four.x;
        s[j + 1u] = four.y;
        s[j + 2u] = four.z;
        s[j + 3u] = four.w;
    }
    for (var t = 0u; t < segment.y; t++) {
        let at = (segment.x + t) * params.m + head * N;
        if tid < N {
            token_r[tid] = r[at + tid];
            token_decay[tid] = decay[at + tid];
            token_k[tid] = k[at + tid];
            token_kk[tid] = kk[at + tid];
            token_b[tid] = kk[at + tid] * a[at + tid];
        }
        workgroupBarrier();
        var removed = 0.0;
        for (var j = 0u; j < COLS; j++) {
            removed -= s[j] * token_kk[col + j];
        }
        removed = row_reduce(row, row_thread, removed);
        let value = v[at + row];
        var out = 0.0;
        for (var j = 0u; j < COLS; j++) {
            s[j] = s[j] * token_decay[col + j] + removed * token_b[col + j] + value * token_k[col + j];
            out += s[j] * token_r[col + j];
        }
        out = row_reduce(row, row_thread, out);
        if row_thread == 0u {
            y[at + row] = out;
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < COLS; j += 4u) {
        state_store((home + j) / 4u, vec4(s[j], s[j + 1u], s[j + 2u], s[j + 3u]));
    }
}
