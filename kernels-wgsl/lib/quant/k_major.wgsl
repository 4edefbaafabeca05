// A K-major matrix: the weights of one input channel (column) in all rows are adjacent, in panels of eight rows
// (crates/loader/src/blocks/k_major.rs is the definition). The `weight_column8` of its format reads a panel of one column; the
// readers that products of many tokens ask for pick their weight out of panels: right, but for one weight used seven are
// decoded. Rows are in `params.shard_rows`, columns in `params.k`.
// requires: var params
@group(0) @binding(0) var<storage, read> weight: array<vec4<u32>>;    // [k, panels, 8] in a K-major format

const weight_is_present: bool = true;
const weight_is_float: bool = false;
const weight_has_integers: bool = false;

// Panels in a column.
fn weight_panels() -> u32 {
    return (params.shard_rows + 7u) / 8u;
}

fn weight_word(i: u32) -> u32 {
    return weight[i / 4u][i % 4u];
}

// The nibbles of eight rows.
fn weight_nibbles(word: u32) -> mat2x4<f32> {
    let low = vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu));
    return mat2x4<f32>(low, vec4<f32>(unpack4xU8((word >> 4u) & 0x0f0f0f0fu)));
}

// Eight pairs of bits, each where the low half of its row's nibble is.
fn weight_pairs(word: u32) -> mat2x4<f32> {
    return weight_nibbles(word & 0x33333333u);
}

// Eight f16.
fn weight_f16s(load: vec4<u32>) -> mat2x4<f32> {
    return mat2x4<f32>(
        vec4(unpack2x16float(load.x), unpack2x16float(load.y)),
        vec4(unpack2x16float(load.z), unpack2x16float(load.w)),
    );
}

// Element by element.
fn weight_times(a: mat2x4<f32>, b: mat2x4<f32>) -> mat2x4<f32> {
    return mat2x4<f32>(a[0] * b[0], a[1] * b[1]);
}

fn weight_at(row: u32, column: u32) -> f32 {
    let panel = weight_column8(column, row / 8u);
    return select(panel[0], panel[1], (row & 4u) == 4u)[row % 4u];
}

fn weight_value(i: u32) -> f32 {
    return weight_at(i / params.k, i % params.k);
}

// 32 consecutive weights, from 32 * group on.
fn weight_load32(group: u32) -> array<vec4<f32>, 8> {
    let groups = params.k / 32u;
    let row = group / groups;
    let column = group % groups * 32u;
    var out: array<vec4<f32>, 8>;
    for (var i = 0u; i < 8u; i++) {
        let c = column + i * 4u;
        out[i] = vec4(weight_at(row, c), weight_at(row, c + 1u), weight_at(row, c + 2u), weight_at(row, c + 3u));
    }
    return out;
}
