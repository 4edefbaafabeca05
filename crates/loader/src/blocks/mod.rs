//! Blocks of weights: what the bytes of each [`Format`] mean, and how to write them.
//!
//! One file per format, decoder and encoder side by side. Decoding equals ggml's dequantisation bit for bit
//! (golden vectors: `oracle/blocks_golden.py`). Encoding is ours: it chooses the blocks, the layout is ggml's.
//!
//! What an encoder does with numbers a format cannot hold: the float formats round to nearest even as IEEE says (too
//! large becomes infinite, NaN stays NaN); in the quantised formats one such number would spoil its whole block, so NaN
//! counts as 0 and everything beyond ±65504, the largest f16, saturates there.

mod affine;
mod columns;
mod float;
mod q4_0;
mod q4_k;
mod q5_k;
mod q6_k;
mod q8_0;
mod rounding;
mod tiles;

pub use columns::{from_columns, to_columns};
pub use tiles::{tile, untile};

use wgoose_graph::Format;

/// Decodes whole blocks into floats; of a tiled format, a whole matrix.
///
/// # Panics
/// If `bytes` and `out` are not the same whole number of blocks: the caller has checked the tensor's size. If the format
/// is one in columns, which has no blocks to decode: [`from_columns`] makes them.
pub fn decode(format: Format, bytes: &[u8], out: &mut [f32]) {
    assert_whole_blocks(format, out.len(), bytes.len());
    match format {
        Format::F32 => float::decode_f32(bytes, out),
        Format::F16 => float::decode_f16(bytes, out),
        Format::BF16 => float::decode_bf16(bytes, out),
        Format::Q8_0 => decode_each(bytes, out, q8_0::decode),
        Format::Q4_0 => decode_each(bytes, out, q4_0::decode),
        Format::Q4_K => decode_each(bytes, out, q4_k::decode),
        Format::Q5_K => decode_each(bytes, out, q5_k::decode),
        Format::Q6_K => decode_each(bytes, out, q6_k::decode),
        Format::Q8_0T | Format::Q4_0T | Format::Q6_KT => {
            let mut blocks = blocks_for(format, out.len());
            untile(format.as_in_file(), bytes, &mut blocks);
            decode(format.as_in_file(), &blocks, out);
        }
        Format::F16C | Format::Q8_0C | Format::Q4_0C | Format::Q4_KC | Format::Q6_KC => no_blocks(format),
    }
}

/// Encodes floats as whole blocks; in a tiled format, a whole matrix. The result depends on the weights of a block alone; a block of zeros decodes to
/// zeros.
///
/// # Panics
/// If `weights` and `out` are not the same whole number of blocks: the caller has checked the tensor's size. If the format
/// is one in columns, which [`to_columns`] makes of blocks.
pub fn encode(format: Format, weights: &[f32], out: &mut [u8]) {
    assert_whole_blocks(format, weights.len(), out.len());
    match format {
        Format::F32 => float::encode_f32(weights, out),
        Format::F16 => float::encode_f16(weights, out),
        Format::BF16 => float::encode_bf16(weights, out),
        Format::Q8_0 => encode_each(weights, out, q8_0::encode),
        Format::Q4_0 => encode_each(weights, out, q4_0::encode),
        Format::Q4_K => encode_each(weights, out, q4_k::encode),
        Format::Q5_K => encode_each(weights, out, q5_k::encode),
        Format::Q6_K => encode_each(weights, out, q6_k::encode),
        Format::Q8_0T | Format::Q4_0T | Format::Q6_KT => {
            let mut blocks = blocks_for(format, weights.len());
            encode(format.as_in_file(), weights, &mut blocks);
            tile(format.as_in_file(), &blocks, out);
        }
        Format::F16C | Format::Q8_0C | Format::Q4_0C | Format::Q4_KC | Format::Q6_KC => no_blocks(format),
    }
}

/// A matrix in columns is nothing without its number of rows.
fn no_blocks(format: Format) -> ! {
    panic!("{format} has no blocks of its own")
}

fn assert_whole_blocks(format: Format, weights: usize, bytes: usize) {
    assert_eq!(format.bytes(1, weights), Some(bytes), "{weights} weights do not fill {bytes} bytes of {format} blocks");
}

/// Room for so many weights as they lie in a file.
fn blocks_for(format: Format, weights: usize) -> Vec<u8> {
    vec![0; weights / format.block_weights() * format.block_bytes()]
}

fn decode_each<const BYTES: usize, const WEIGHTS: usize>(
    bytes: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; WEIGHTS]),
) {
    let (blocks, _) = bytes.as_chunks::<BYTES>();
    let (out, _) = out.as_chunks_mut::<WEIGHTS>();
    for (block, out) in blocks.iter().zip(out) {
        decode(block, out);
    }
}

fn encode_each<const BYTES: usize, const WEIGHTS: usize>(
    weights: &[f32],
    out: &mut [u8],
    encode: impl Fn(&[f32; WEIGHTS], &mut [u8; BYTES]),
) {
    let (weights, _) = weights.as_chunks::<WEIGHTS>();
    let (blocks, _) = out.as_chunks_mut::<BYTES>();
    for (weights, block) in weights.iter().zip(blocks) {
        encode(weights, block);
    }
}
