// Stream-K (Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
// GPU", 2023): GRID workgroups share the K-tiles of a whole product evenly, however many tiles there are, and none
// idles in a last wave. A workgroup has the rest of one tile, whole tiles, and the beginning of one more.
// requires: const GRID, K_TILES, type Tile, fn tiles
#import lib/coop/partials

// Of all K-tiles of the product, the first of a workgroup.
fn first_k_tile_of(workgroup: u32) -> u32 {
    let all = tiles() * K_TILES;
    return workgroup * (all / GRID) + min(workgroup, all % GRID);
}

// The workgroup that has a K-tile.
fn owner_of(k_tile: u32) -> u32 {
    let all = tiles() * K_TILES;
    let longer = all % GRID * (all / GRID + 1u);
    if k_tile < longer {
        return k_tile / (all / GRID + 1u);
    }
    return all % GRID + (k_tile - longer) / max(all / GRID, 1u);
}

// The part of a tile that a workgroup has, from K-tile `first` of the product to before `end`.
fn part_of_tile(tile: Tile, workgroup: u32, first: u32, end: u32) -> Tile {
    var part = tile;
    part.k_tile = first - tile.number * K_TILES;
    part.k_end = min(end - tile.number * K_TILES, K_TILES);
    part.k_range = workgroup - owner_of(tile.number * K_TILES);
    return part;
}

fn is_shared(tile: Tile) -> bool {
    return tile.k_end - tile.k_tile < K_TILES;
}

fn parts_of(tile: Tile) -> u32 {
    return owner_of((tile.number + 1u) * K_TILES - 1u) - owner_of(tile.number * K_TILES) + 1u;
}

// A workgroup has two slots: for the tile that it begins with, and for the one that it ends with.
fn slot_of(tile: Tile, part: u32) -> u32 {
    let workgroup = owner_of(tile.number * K_TILES) + part;
    return 2u * workgroup + select(1u, 0u, first_k_tile_of(workgroup) >= tile.number * K_TILES);
}
