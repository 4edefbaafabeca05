// F32: 32-bit floats.
// requires: const ADAPTER_LOADS, K, LOADS, ROWS, type InFlight, fn half8_of, x_vec4
@group(0) @binding(0) var<storage, read> weight: array<vec4<f32>>;    // [shard_rows, k] in F32
// The same binding, for readers of single values.
@group(0) @binding(0) var<storage, read> weight_scalars: array<f32>;    // [shard_rows, k] in F32

const weight_is_present: bool = true;
const weight_format: u32 = 1u;
const weight_is_float: bool = true;
const weight_has_integers: bool = false;

fn weight_value(i: u32) -> f32 {
    return weight_scalars[i];
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        let at = group * 32u + i * 4u;
        out[i] = vec4(weight_scalars[at], weight_scalars[at + 1u], weight_scalars[at + 2u], weight_scalars[at + 3u]);
    }
    return out;
}

// Packed: a load of 16 bytes holds four weights.
const weight_values_per_load: u32 = 4u;
alias weight_values = vec4<f32>;
alias weight_x = vec4<f32>;

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    return bitcast<vec4<u32>>(weight[row * (K / 4u) + load]);
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    return bitcast<vec4<f32>>(packed);
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    return x_vec4(first * 4u + load);
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return dot(w, x);
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

// For the matrix units (lib/coop): a part is eight weights of a row, read in two loads; then as packed f16, and where in the row
// of a K-tile they are.
const weight_part_values: u32 = 8u;
const weight_part_loads: u32 = 2u;
const weight_part_span: u32 = 8u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 2> {
    let at = row * (K / 4u) + part * 2u;
    return array(bitcast<vec4<u32>>(weight[at]), bitcast<vec4<u32>>(weight[at + 1u]));
}

fn weight_part_half8s(packed: array<vec4<u32>, 2>, part: u32) -> array<vec4<u32>, 1> {
    return array(half8_of(bitcast<vec4<f32>>(packed[0]), bitcast<vec4<f32>>(packed[1])));
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row;
}
