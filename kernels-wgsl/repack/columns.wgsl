// Blocks as they lie in a file, to columns (crates/loader/src/blocks/columns.rs is the definition). A piece is of whole
// eights of rows, but for the last of a matrix; rows that it lacks become zeros. One invocation writes a word. Needs
// `const BLOCK, BLOCK_WEIGHTS` and `column_word`: the word number `i` of an eight of rows, and where it belongs.
#import unit

// Twin of wgoose_kernels::repack::Piece::params.
struct Params {
    bytes: u32,     // of blocks in `raw`; a multiple of 2
    first: u32,     // eight of rows to be written first
    cols: u32,
    eights: u32,    // of rows in the matrix
}
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> raw: array<u32>;
@group(0) @binding(2) var<storage, read_write> columns: array<u32>;

// Twin of INVOCATIONS in crates/kernels/src/repack.rs.
const WG: u32 = 64u;

// Eight rows: where they begin in `raw`, which of the matrix they are.
struct Eight {
    at: u32,
    number: u32,
}

struct Word {
    at: u32,
    bits: u32,
}

fn row_bytes() -> u32 {
    return params.cols / BLOCK_WEIGHTS * BLOCK;
}

fn byte_at(at: u32) -> u32 {
    if at >= params.bytes {
        return 0u;
    }
    return (raw[at / 4u] >> (at % 4u * 8u)) & 0xffu;
}

// The 16 bits at an even byte address of row `row` of an eight, and those of the next row.
fn two_halves(eight: Eight, row: u32, at: u32) -> u32 {
    let first = eight.at + row * row_bytes() + at;
    let second = first + row_bytes();
    return byte_at(first) | (byte_at(first + 1u) << 8u) | (byte_at(second) << 16u) | (byte_at(second + 1u) << 24u);
}

// The bytes of four rows from row `row` on.
fn four_bytes(eight: Eight, row: u32, at: u32) -> u32 {
    var out = 0u;
    for (var r = 0u; r < 4u; r++) {
        out |= byte_at(eight.at + (row + r) * row_bytes() + at) << (r * 8u);
    }
    return out;
}

// Some bits of a byte of each row, where the row's nibble is.
fn eight_nibbles(eight: Eight, at: u32, shift: u32, mask: u32) -> u32 {
    let first = (four_bytes(eight, 0u, at) >> shift) & (mask * 0x01010101u);
    let second = (four_bytes(eight, 4u, at) >> shift) & (mask * 0x01010101u);
    return first | (second << 4u);
}

// Where word `i` of an entry of `words` words lies that belongs to an eight and a place.
fn entry(place: u32, eight: Eight, words: u32, i: u32) -> u32 {
    return (place * params.eights + eight.number) * words + i;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
    let words = row_bytes() * 2u;
    let number = i / words;
    let at = number * row_bytes() * 8u;
    if at >= params.bytes {
        return;
    }
    let word = column_word(Eight(at, params.first + number), i % words);
    columns[word.at] = word.bits;
}
