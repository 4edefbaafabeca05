// Slabs of columns in workgroup memory, as matrix units take them: rows of a matrix, and x as two halves of f16.
//
// Matrix units multiply f16, exactly, and sum in f32. The halves of x have 11 bits each, which together are as exact as what
// f32 leaves of a sum: the high one holds x / 64, for x up to 2^22; what is left, at most 2^-11 of x, is multiplied by 32.
// See stages/matrix_tile.wgsl.
const HIGH: f32 = 64.0;
const LOW: f32 = 0.03125;
const SLAB: u32 = PARTS * DEPTH * 16u;
const SLABS: u32 = (K + SLAB - 1u) / SLAB;
const QUADS: u32 = SLAB / 4u;
const EIGHTS: u32 = SLAB / 8u;
const X_LOADS: u32 = TILE_TOKENS * QUADS / WG;
const ROW_LOADS: u32 = TILE_ROWS * EIGHTS / WG;
// Rows are padded so that neighbours fall into different banks.
const LD: u32 = QUADS + 2u;
const ACROSS: u32 = TILE_ROWS / 16u;
const DOWN: u32 = TILE_TOKENS / 16u;
const TILES: u32 = DOWN * ACROSS;

// Eight weights, a load of 16 bytes.
struct Eight {
    a: vec4<f16>,
    b: vec4<f16>,
}

var<workgroup> slab_rows: array<vec4<f16>, TILE_ROWS * LD>;
var<workgroup> high_halves: array<vec4<f16>, TILE_TOKENS * LD>;
var<workgroup> low_halves: array<vec4<f16>, TILE_TOKENS * LD>;
var<workgroup> part_sums: array<f32, PARTS * 256>;

fn keep_eight(at: u32, eight: Eight) {
    let to = at / EIGHTS * LD + at % EIGHTS * 2u;
    slab_rows[to] = eight.a;
    slab_rows[to + 1u] = eight.b;
}

// The at-th quad of a slab of x; past the last token that one's again, past the last column zeros.
fn slab_quad(slab: u32, token: u32, last: u32, at: u32) -> vec4<f32> {
    let quad = slab * QUADS + at % QUADS;
    if quad * 4u >= K {
        return vec4(0.0);
    }
    return x[min(token + at / QUADS, last) * (K / 4u) + quad];
}

// As the nearest f16, in f32. A 0 that no compiler knows of stands between the conversions: without it the rest was 0 on an
// NVIDIA driver, as if they were nothing.
fn nearest_halves(x: vec4<f32>) -> vec4<f32> {
    let zero = params.rows >> 31u;
    return vec4(unpack2x16float(pack2x16float(x.xy) ^ zero), unpack2x16float(pack2x16float(x.zw) ^ zero));
}

fn keep_halves(at: u32, x: vec4<f32>) {
    let to = at / QUADS * LD + at % QUADS;
    let high = nearest_halves(x * (1.0 / HIGH));
    high_halves[to] = vec4<f16>(high);
    low_halves[to] = vec4<f16>((x - high * HIGH) * (1.0 / LOW));
}
