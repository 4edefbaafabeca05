// BF16: the upper halves of 32-bit floats, two in a word, eight in a load.
// requires: const ADAPTER_LOADS, K, LOADS, ROWS, type InFlight, fn half8_of, x_vec4
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [shard_rows, k] in BF16

const weight_is_present: bool = true;
const weight_format: u32 = 3u;
const weight_is_float: bool = true;
const weight_has_integers: bool = false;

fn weight_pair(word: u32) -> vec2<f32> {
    return vec2(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

fn weight_value(i: u32) -> f32 {
    let pair = weight_pair(weight[i / 8u][(i / 2u) % 4u]);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 4u; i++) {
        let q = weight[group * 4u + i];
        out[i * 2u] = vec4(weight_pair(q.x), weight_pair(q.y));
        out[i * 2u + 1u] = vec4(weight_pair(q.z), weight_pair(q.w));
    }
    return out;
}

// Packed: a load of 16 bytes holds eight weights.
const weight_values_per_load: u32 = 8u;
alias weight_values = mat2x4<f32>;
alias weight_x = mat2x4<f32>;

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    return weight[row * (K / 8u) + load];
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    return mat2x4<f32>(
        vec4(weight_pair(packed.x), weight_pair(packed.y)),
        vec4(weight_pair(packed.z), weight_pair(packed.w)),
    );
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    let at = first * 4u + load * 2u;
    return mat2x4<f32>(x_vec4(at), x_vec4(at + 1u));
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return dot(w[0], x[0]) + dot(w[1], x[1]);
}

// In flight for lib/gemv/half_blocks, in the registers of half super-blocks: ADAPTER_LOADS loads of a row from load `first` on,
// `step` apart, clamped; those past the end count 0.
fn weight_load_in_flight(row: u32, first: u32, step: u32) -> InFlight {
    var words: InFlight;
    for (var u = 0u; u < ADAPTER_LOADS; u++) {         // unroll
        let load = min(first + u * step, K / weight_values_per_load - 1u);
        words[u / LOADS / ROWS][u / LOADS % ROWS][u % LOADS] = weight_load_packed(row, load);
    }
    return words;
}

// For the matrix units (lib/coop): a part is eight weights of a row, one load; then as packed f16, and where in the row of a
// K-tile they are.
const weight_part_values: u32 = 8u;
const weight_part_loads: u32 = 1u;
const weight_part_span: u32 = 8u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 1> {
    return array(weight[row * (K / 8u) + part]);
}

fn weight_part_half8s(packed: array<vec4<u32>, 1>, part: u32) -> array<vec4<u32>, 1> {
    let q = packed[0];
    return array(half8_of(
        vec4(weight_pair(q.x), weight_pair(q.y)),
        vec4(weight_pair(q.z), weight_pair(q.w)),
    ));
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row;
}
