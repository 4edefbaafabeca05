// Split-K: SPLIT_K workgroups share the K of a tile of lib/coop/gemm evenly.
// requires: const SPLIT_K, type Tile
#import lib/coop/partials

// The tile with the part of K that a workgroup takes, of `k_tiles` in all.
fn part_of_tile(tile: Tile, k_tiles: u32) -> Tile {
    var part = tile;
    part.k_tile = part.k_range * k_tiles / SPLIT_K;
    part.k_end = (part.k_range + 1u) * k_tiles / SPLIT_K;
    return part;
}

fn is_shared(tile: Tile) -> bool {
    return SPLIT_K > 1u;
}

fn parts_of(tile: Tile) -> u32 {
    return SPLIT_K;
}

fn slot_of(tile: Tile, part: u32) -> u32 {
    return tile.number * SPLIT_K + part;
}
