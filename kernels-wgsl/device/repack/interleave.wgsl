// Blocks as they are in a file, interleaved by eight: each field of eight blocks is adjacent. A thread writes 16 bytes,
// all of
// one field. Past the last block there are zeros. BLOCK is the bytes of a block; FIELDS has for each field in its new
// order its
// offset in a block and its bytes.
// requires: const BLOCK
#import device/dispatch

// Must match wgoose_kernels::repack::Chunk::params.
struct Params {
    bytes: u32,     // of blocks in `raw`; a multiple of 2, as every offset and size here
    first: u32,     // group of eight blocks to be written first
    workgroups: u32,
    unused: u32,
}
@group(0) @binding(0) var<uniform> params: Params;                               // [1]
@group(0) @binding(1) var<storage, read> raw: array<u32>;                        // [bytes / 4]
@group(0) @binding(2) var<storage, read_write> interleaved: array<vec4<u32>>;    // [groups of eight blocks, STORES]

// Must match THREADS in crates/kernels/src/repack.rs.
const WG: u32 = 64u;

// Stores of 16 bytes for eight blocks.
const STORES: u32 = BLOCK / 2u;

// The 16 bits at an even byte address.
fn bits16_at(at: u32) -> u32 {
    if at >= params.bytes {
        return 0u;
    }
    return (raw[at / 4u] >> ((at & 2u) * 8u)) & 0xffffu;
}

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let index = workgroup_index(workgroup, grid);
    let i = index * WG + tid;
    let first_block = i / STORES * 8u;
    if index >= params.workgroups || first_block * BLOCK >= params.bytes {
        return;
    }
    // The field, and where among the eight blocks' these bytes are.
    var fields = FIELDS;
    var field = 0u;
    var at = i % STORES * 16u;
    while at >= fields[field].y * 8u {
        at -= fields[field].y * 8u;
        field++;
    }
    let offset = fields[field].x;
    let bytes = fields[field].y;
    var out: vec4<u32>;
    for (var i16 = 0u; i16 < 8u; i16++) {
        let copied = at + i16 * 2u;
        let source = (first_block + copied / bytes) * BLOCK + offset + copied % bytes;
        out[i16 / 2u] |= bits16_at(source) << (i16 % 2u * 16u);
    }
    interleaved[params.first * STORES + i] = out;
}
