// K-tiles of a matrix for lib/coop/gemm: packed as they are read, and as f16 in workgroup memory. Imported for a matrix with
// readers of half8s: `#import lib/coop/weights as w` makes `w_load_k_tile`.
// requires: const K_TILE, LD, TILE_N, WG, type PackedTile, fn stage_w_half8

// Parts of a row of a K-tile; parts of the tile for each thread.
const_assert K_TILE % weight_part_span == 0u;    // parts of a row that belong together
const_assert weight_tile_parts >= WG;            // every thread stages a part
const weight_row_parts: u32 = K_TILE / weight_part_values;
const weight_tile_parts: u32 = TILE_N * weight_row_parts;
const weight_thread_parts: u32 = (weight_tile_parts + WG - 1u) / WG;
const weight_packed_loads: u32 = weight_thread_parts * weight_part_loads;

// Rows are clamped to `last`; sums past it are dropped.
fn weight_load_k_tile(row: u32, last: u32, k_tile: u32, tid: u32) -> PackedTile {
    var tile: PackedTile;
    for (var i = 0u; i < weight_thread_parts; i++) {            // unroll
        let at = tid + i * WG;
        let part = k_tile * weight_row_parts + at % weight_row_parts;
        let packed = weight_load_part(min(row + at / weight_row_parts, last), part);
        for (var l = 0u; l < weight_part_loads; l++) {          // unroll
            tile[i * weight_part_loads + l] = packed[l];
        }
    }
    return tile;
}

// The same as the f16 that staging F16 takes: it waits for the loads.
fn weight_load_rounded_k_tile(row: u32, last: u32, k_tile: u32, tid: u32) -> PackedTile {
    let loaded = weight_load_k_tile(row, last, k_tile, tid);
    var tile: PackedTile;
    for (var i = 0u; i < weight_thread_parts; i++) {            // unroll
        var packed: array<vec4<u32>, weight_part_loads>;
        for (var l = 0u; l < weight_part_loads; l++) {          // unroll
            packed[l] = loaded[i * weight_part_loads + l];
        }
        tile[i] = weight_part_half8s(packed, k_tile * weight_row_parts + (tid + i * WG) % weight_row_parts)[0];
    }
    return tile;
}

// The same of an adapter's second half, whose rows have `rank` floats.
fn weight_load_adapter_tile(rank: u32, row: u32, last: u32, k_tile: u32, tid: u32) -> PackedTile {
    var tile: PackedTile;
    for (var i = 0u; i < weight_thread_parts; i++) {            // unroll
        let at = tid + i * WG;
        let part = k_tile * weight_row_parts + at % weight_row_parts;
        let packed = weight_load_part(0u, min(row + at / weight_row_parts, last) * (rank / 8u) + part);
        for (var l = 0u; l < weight_part_loads; l++) {          // unroll
            tile[i * weight_part_loads + l] = packed[l];
        }
    }
    return tile;
}

fn weight_stage_k_tile(tile: PackedTile, buffer: u32, k_tile: u32, tid: u32) {
    for (var i = 0u; i < weight_thread_parts; i++) {            // unroll
        let at = tid + i * WG;
        let in_row = at % weight_row_parts;
        var packed: array<vec4<u32>, weight_part_loads>;
        for (var l = 0u; l < weight_part_loads; l++) {          // unroll
            packed[l] = tile[i * weight_part_loads + l];
        }
        let half8s = weight_part_half8s(packed, k_tile * weight_row_parts + in_row);
        if weight_tile_parts % WG == 0u || at < weight_tile_parts {
            for (var h = 0u; h < weight_part_values / 8u; h++) {    // unroll
                stage_w_half8(buffer + at / weight_row_parts * LD + weight_part_place(in_row, h), half8s[h]);
            }
        }
    }
}
