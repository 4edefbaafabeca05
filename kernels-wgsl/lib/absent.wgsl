// Stands in for an operand that the op lacks here: every reader, none of which binds or reads anything.
// requires: const ADAPTER_LOADS, K, LOADS, ROWS, type InFlight
const weight_is_present: bool = false;
const weight_format: u32 = 0u;
const weight_is_float: bool = true;
const weight_has_integers: bool = false;

fn weight_value(i: u32) -> f32 {
    return 0.0;
}

fn weight_vec4(i: u32) -> vec4<f32> {
    return vec4<f32>();
}

fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    return array<vec4<f32>, 8>();
}

const weight_values_per_load: u32 = 4u;
alias weight_values = f32;
alias weight_x = f32;

fn weight_load_packed(row: u32, load: u32) -> vec4<u32> {
    return vec4<u32>();
}

fn weight_unpack(row: u32, load: u32, packed: vec4<u32>) -> weight_values {
    return 0.0;
}

fn weight_load(row: u32, load: u32) -> weight_values {
    return weight_unpack(row, load, weight_load_packed(row, load));
}

fn weight_load_x(first: u32, load: u32) -> weight_x {
    return 0.0;
}

fn weight_dot(w: weight_values, x: weight_x) -> f32 {
    return 0.0;
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

const weight_part_values: u32 = 8u;
const weight_part_loads: u32 = 1u;
const weight_part_span: u32 = 8u;

fn weight_load_part(row: u32, part: u32) -> array<vec4<u32>, 1> {
    return array<vec4<u32>, 1>();
}

fn weight_part_half8s(packed: array<vec4<u32>, 1>, part: u32) -> array<vec4<u32>, 1> {
    return packed;
}

fn weight_part_place(in_row: u32, half8: u32) -> u32 {
    return in_row;
}
