// Blocks as they are in a file, laid out K-major (crates/loader/src/blocks/k_major.rs is the definition). A chunk is of whole
// panels of eight rows, but for the last of a matrix; rows that it lacks become zeros. A thread writes a word.
// `k_major_word` makes word `i` of a panel and says where it belongs.
// requires: const BLOCK, BLOCK_WEIGHTS
#import device/dispatch

// Must match wgoose_kernels::repack::Chunk::params.
struct Params {
    bytes: u32,     // of blocks in `raw`; a multiple of 2
    first: u32,     // panel to be written first
    cols: u32,
    panels: u32,    // of eight rows in the matrix
}
@group(0) @binding(0) var<uniform> params: Params;                     // [1]
@group(0) @binding(1) var<storage, read> raw: array<u32>;              // [bytes / 4]
@group(0) @binding(2) var<storage, read_write> k_major: array<u32>;    // [words]: k_major_word is their order

// Must match THREADS in crates/kernels/src/repack.rs.
const WG: u32 = 64u;

// Eight rows: where they begin in `raw`, which of the matrix they are.
struct Panel {
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

// The 16 bits at an even byte address of row `row` of a panel, and those of the next row.
fn two_f16(panel: Panel, row: u32, at: u32) -> u32 {
    let first = panel.at + row * row_bytes() + at;
    let second = first + row_bytes();
    return byte_at(first) | (byte_at(first + 1u) << 8u) | (byte_at(second) << 16u) | (byte_at(second + 1u) << 24u);
}

// The bytes of four rows from row `row` on.
fn four_bytes(panel: Panel, row: u32, at: u32) -> u32 {
    var out = 0u;
    for (var r = 0u; r < 4u; r++) {
        out |= byte_at(panel.at + (row + r) * row_bytes() + at) << (r * 8u);
    }
    return out;
}

// Some bits of a byte of each row, where the row's nibble is.
fn panel_nibbles(panel: Panel, at: u32, shift: u32, mask: u32) -> u32 {
    let first = (four_bytes(panel, 0u, at) >> shift) & (mask * 0x01010101u);
    let second = (four_bytes(panel, 4u, at) >> shift) & (mask * 0x01010101u);
    return first | (second << 4u);
}

// Where word `i` of an entry of `words` words is that belongs to a panel and a place.
fn entry(place: u32, panel: Panel, words: u32, i: u32) -> u32 {
    return (place * params.panels + panel.number) * words + i;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    let words = row_bytes() * 2u;
    let number = i / words;
    let at = number * row_bytes() * 8u;
    if at >= params.bytes {
        return;
    }
    let word = k_major_word(Panel(at, params.first + number), i % words);
    k_major[word.at] = word.bits;
}
