// needs: subgroups f16
// Whether matrix units compute right as lib/coop/gemm uses them. Every workgroup adds a product of integers to what is in y; four
// subgroups share its tile, each of which reads what all have staged, several times over. The sums leave on the three ways that
// those of products take: as they are, through workgroup memory, and summed by the last workgroup of a tile to arrive. The numbers
// are in crates/kernels/src/matrix_check.rs.
#import lib/coop/bits
#import lib/coop/partials
#import lib/coop/fragment/m16   // tune: m16 m8

@group(0) @binding(1) var<storage, read> x: array<vec4<u32>>;    // [TILE, K], eight packed f16 each
@group(0) @binding(2) var<storage, read> w: array<vec2<u32>>;    // [TILES * TILE, K], eight bytes each
@group(0) @binding(3) var<storage, read_write> y: array<f32>;    // [(2 * SPLIT_K + 1) * TILES, TILE, TILE]

// These must match matrix_check.rs.
const TILES: u32 = 4u;
const SPLIT_K: u32 = 2u;
const K: u32 = 512u;
const PARTS: u32 = 2u;              // of a tile's rows, and of its columns: a subgroup has one of each
const ZERO: f16 = 8.0h;             // a byte is `SCALE * (byte - ZERO) + OFFSET`
const SCALE: f16 = 2.0h;
const OFFSET: f16 = 1.0h;

const LANES: u32 = 32u;             // device: min_subgroup
const SUBGROUPS: u32 = PARTS * PARTS;
const WG: u32 = SUBGROUPS * LANES;
const TILE: u32 = PARTS * FRAGMENT;
const TILE_VALUES: u32 = TILE * TILE;
const FRAGMENT_VALUES: u32 = FRAGMENT * FRAGMENT;
// What fragments are told of a tile: one buffer, so that it is written again while others may still read it.
const STAGES: u32 = 1u;
const LIMBS: u32 = 1u;
const FRAGMENTS: u32 = 1u;
const K_TILE: u32 = 64u;
const K_STEPS: u32 = K_TILE / FRAGMENT;
const UNROLL: u32 = 1u;
const HALF8S: u32 = K_TILE / 8u;
const LD: u32 = HALF8S + 1u;
const TILE_X: u32 = TILE * LD;
const TILE_W: u32 = TILE * LD;
const K_TILES: u32 = K / SPLIT_K / K_TILE;
// Where y has the sums that went through workgroup memory, and those of all workgroups of a tile.
const STAGED: u32 = TILES * SPLIT_K * TILE_VALUES;
const WHOLE: u32 = 2u * STAGED;

const_assert SUMS_ROOM * 4u >= TILE_VALUES;     // sums fit where the weights were

// No thread returns early: matrix units need whole subgroups.
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let index = workgroup.x;
    let tile = index / SPLIT_K;
    let part_x = subgroup / PARTS * FRAGMENT;
    let part_w = subgroup % PARTS * FRAGMENT;
    let first = index * TILE_VALUES + part_x * TILE + part_w;
    var sums = load_sums(first, TILE);
    for (var k_tile = 0u; k_tile < K_TILES; k_tile++) {
        let column = (index % SPLIT_K * K_TILES + k_tile) * HALF8S;
        workgroupBarrier();
        for (var at = tid; at < TILE * HALF8S; at += WG) {
            let row = at / HALF8S;
            let half8 = at % HALF8S;
            stage_x_half8(row * LD + half8, x[row * (K / 8u) + column + half8]);
            let bytes = w[(tile * TILE + row) * (K / 8u) + column + half8];
            stage_w_half8(row * LD + half8, half8_of_bytes(bytes.x, bytes.y, ZERO, SCALE, OFFSET));
        }
        workgroupBarrier();
        for (var step = 0u; step < K_STEPS; step++) {
            let tokens = load_fragment_x(part_x * LD + step * (FRAGMENT / 8u));
            let rows = load_fragment_w(part_w * LD + step * (FRAGMENT / 8u));
            sums = coopMultiplyAdd(tokens, rows, sums);
        }
    }
    store_sums(first, TILE, sums);
    store_partial_sums(index * TILE_VALUES + subgroup * FRAGMENT_VALUES, sums);
    workgroupBarrier();
    stage_sums(subgroup * FRAGMENT_VALUES / 4u, sums);
    workgroupBarrier();
    // From the last on: most are of another subgroup.
    for (var i = tid; i < TILE_VALUES / 4u; i += WG) {
        let at = TILE_VALUES / 4u - 1u - i;
        let staged = staged_sums(at);
        for (var c = 0u; c < 4u; c++) {         // unroll
            y[STAGED + index * TILE_VALUES + at * 4u + c] = staged[c];
        }
    }
    if is_last_to_arrive(tile, SPLIT_K, tid) {
        for (var at = tid; at < TILE_VALUES; at += WG) {
            var sum = 0.0;
            for (var part = 0u; part < SPLIT_K; part++) {
                sum += partial_sum((tile * SPLIT_K + part) * TILE_VALUES + at);
            }
            y[WHOLE + tile * TILE_VALUES + at] = sum;
        }
    }
}
