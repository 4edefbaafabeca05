// One workgroup per segment and head, sequential over the segment's tokens. SPLIT invocations share a row (value
// channel) of the state and keep it in registers; r, k, ... of the token go through workgroup memory.
#import params
#import unit

const N: u32 = 64u;     // op: head_size
const SPLIT: u32 = 4u;  // tune: 1 2 4 8
const WG: u32 = N * SPLIT;
const COLS: u32 = N / SPLIT;

@group(0) @binding(1) var<storage, read> r: array<f32>;
@group(0) @binding(2) var<storage, read> decay: array<f32>;
@group(0) @binding(3) var<storage, read> k: array<f32>;
@group(0) @binding(4) var<storage, read> v: array<f32>;
@group(0) @binding(5) var<storage, read> kk: array<f32>;
@group(0) @binding(6) var<storage, read> a: array<f32>;
@group(0) @binding(7) var<storage, read_write> state: array<f32>;
@group(0) @binding(8) var<storage, read> segments: array<vec4<u32>>;
@group(0) @binding(9) var<storage, read_write> y: array<f32>;

var<workgroup> token_r: array<f32, N>;
var<workgroup> token_decay: array<f32, N>;
var<workgroup> token_k: array<f32, N>;
var<workgroup> token_kk: array<f32, N>;
var<workgroup> token_b: array<f32, N>;
var<workgroup> partials: array<f32, WG>;

// The sum over the SPLIT invocations of a row.
fn row_sum(row: u32, part: u32, value: f32) -> f32 {
    if SPLIT == 1u {
        return value;
    }
    partials[part * N + row] = value;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < SPLIT; i++) {
        sum += partials[i * N + row];
    }
    workgroupBarrier();
    return sum;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let unit = unit_of(workgroup, grid);
    if unit >= params.segments * params.heads {
        return;
    }
    let segment = segments[unit / params.heads];
    let head = unit % params.heads;
    let row = lane % N;
    let part = lane / N;
    let col = part * COLS;
    let home = ((segment.z * params.heads + head) * N + row) * N + col;

    var s: array<f32, COLS>;
    for (var j = 0u; j < COLS; j++) {
        s[j] = state[home + j];
    }
    for (var t = 0u; t < segment.y; t++) {
        let at = (segment.x + t) * params.m + head * N;
        if lane < N {
            token_r[lane] = r[at + lane];
            token_decay[lane] = decay[at + lane];
            token_k[lane] = k[at + lane];
            token_kk[lane] = kk[at + lane];
            token_b[lane] = kk[at + lane] * a[at + lane];
        }
        workgroupBarrier();
        var removed = 0.0;
        for (var j = 0u; j < COLS; j++) {
            removed -= s[j] * token_kk[col + j];
        }
        removed = row_sum(row, part, removed);
        let value = v[at + row];
        var out = 0.0;
        for (var j = 0u; j < COLS; j++) {
            s[j] = s[j] * token_decay[col + j] + removed * token_b[col + j] + value * token_k[col + j];
            out += s[j] * token_r[col + j];
        }
        out = row_sum(row, part, out);
        if part == 0u {
            y[at + row] = out;
        }
        workgroupBarrier();
    }
    for (var j = 0u; j < COLS; j++) {
        state[home + j] = s[j];
    }
}
