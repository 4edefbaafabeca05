// needs: f16
// K-tiles in workgroup memory as matrix units take them: rows of a matrix in f16, and x split in two f16 (as bf16x3 schemes do).
// Needs `const K, WG, TILE_ROWS, TILE_TOKENS, SPLIT_K, K_STEPS` and x as vec4s.
#import lib/halves

const K_TILE: u32 = SPLIT_K * K_STEPS * 16u;
const K_TILES: u32 = (K + K_TILE - 1u) / K_TILE;
const VEC4S: u32 = K_TILE / 4u;
const HALF8S: u32 = K_TILE / 8u;
const X_LOADS: u32 = TILE_TOKENS * VEC4S / WG;
const ROW_LOADS: u32 = TILE_ROWS * HALF8S / WG;
// Rows are padded so that adjacent ones fall into different banks.
const LD: u32 = VEC4S + 2u;
const TILES_N: u32 = TILE_ROWS / 16u;
const TILES_M: u32 = TILE_TOKENS / 16u;
const TILES: u32 = TILES_M * TILES_N;

// Eight weights, a load of 16 bytes.
struct Half8 {
    a: vec4<f16>,
    b: vec4<f16>,
}

var<workgroup> tile_rows: array<vec4<f16>, TILE_ROWS * LD>;
var<workgroup> tile_high: array<vec4<f16>, TILE_TOKENS * LD>;
var<workgroup> tile_low: array<vec4<f16>, TILE_TOKENS * LD>;
var<workgroup> partial_sums: array<f32, SPLIT_K * 256>;

fn stage_half8(at: u32, weights: Half8) {
    let to = at / HALF8S * LD + at % HALF8S * 2u;
    tile_rows[to] = weights.a;
    tile_rows[to + 1u] = weights.b;
}

// The at-th vec4 of a K-tile of x; tokens are clamped, past the last column there are zeros.
fn load_x_vec4(k_tile: u32, token: u32, last: u32, at: u32) -> vec4<f32> {
    let v = k_tile * VEC4S + at % VEC4S;
    if v * 4u >= K {
        return vec4(0.0);
    }
    return x[min(token + at / VEC4S, last) * (K / 4u) + v];
}

fn stage_split(at: u32, x: vec4<f32>) {
    let to = at / VEC4S * LD + at % VEC4S;
    let high = nearest_halves(x * (1.0 / HIGH));
    tile_high[to] = vec4<f16>(high);
    tile_low[to] = vec4<f16>((x - high * HIGH) * (1.0 / LOW));
}
