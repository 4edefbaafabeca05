//! Blocks of weights: what the bytes of each [`Format`] mean, and how to write them.
//!
//! One file per format, decoder and encoder side by side. Decoding equals ggml's dequantisation bit for bit
//! (golden vectors: `oracle/blocks_golden.py`). Encoding is ours: it chooses the blocks, the layout is ggml's.
//!
//! Encoders handle numbers that a format cannot hold: the float formats round to nearest even as IEEE says (too large
//! becomes infinite, NaN stays NaN); in the quantised formats one such number would spoil its whole block, so NaN
//! counts as 0 and everything beyond `largest` saturates there.

mod affine;
mod float;
mod interleave;
mod k_major;
mod q4_0;
mod q4_k;
mod q5_k;
mod q6_k;
mod q8_0;
mod rounding;
mod source;

pub use interleave::{deinterleave, interleave};
pub use k_major::{from_k_major, to_k_major};
pub use source::SourceFormat;

use wgoose_graph::Format;

/// How the blocks of a format are read and written: whole blocks of bytes, the weights that are in them.
struct Codec {
    decode: fn(&[u8], &mut [f32]),
    encode: fn(&[f32], &mut [u8]),
}

/// The codec of a format of files.
fn codec(format: Format) -> Option<Codec> {
    macro_rules! blocks {
        ($module:ident) => {
            Codec {
                decode: |bytes, out| decode_each(bytes, out, $module::decode),
                encode: |weights, out| encode_each(weights, out, $module::encode),
            }
        };
    }
    Some(match format {
        Format::F32 => Codec { decode: float::decode_f32, encode: float::encode_f32 },
        Format::F16 => Codec { decode: float::decode_f16, encode: float::encode_f16 },
        Format::BF16 => Codec { decode: float::decode_bf16, encode: float::encode_bf16 },
        Format::Q8_0 => blocks!(q8_0),
        Format::Q4_0 => blocks!(q4_0),
        Format::Q4_K => blocks!(q4_k),
        Format::Q5_K => blocks!(q5_k),
        Format::Q6_K => blocks!(q6_k),
        _ => return None,
    })
}

/// The largest number that a format holds: infinite where it is a float of f32's range. Scales of quantised formats are
/// f16; those of 256 weights are chosen for weights that are f16 too.
pub(crate) fn largest(format: Format) -> f32 {
    match format {
        Format::F32 | Format::BF16 => f32::INFINITY,
        Format::Q8_0 => q8_0::LARGEST,
        _ => rounding::LARGEST_F16,
    }
}

/// Decodes whole blocks into floats; of an interleaved format, a whole matrix.
///
/// # Panics
/// If `bytes` and `out` are not the same whole number of blocks: the caller has checked the tensor's size. If the format
/// is K-major, which has no blocks to decode: [`from_k_major`] makes them.
pub fn decode(format: Format, bytes: &[u8], out: &mut [f32]) {
    assert_whole_blocks(format, out.len(), bytes.len());
    match codec(format) {
        Some(codec) => (codec.decode)(bytes, out),
        None if format.is_interleaved() => {
            let mut blocks = blocks_for(format, out.len());
            deinterleave(format.as_in_file(), bytes, &mut blocks);
            decode(format.as_in_file(), &blocks, out);
        }
        None => no_blocks(format),
    }
}

/// Encodes floats as whole blocks; in an interleaved format, a whole matrix. The result depends on the weights of a block
/// alone; a block of zeros decodes to zeros.
///
/// # Panics
/// If `weights` and `out` are not the same whole number of blocks: the caller has checked the tensor's size. If the format
/// is K-major, which [`to_k_major`] makes of blocks.
pub fn encode(format: Format, weights: &[f32], out: &mut [u8]) {
    assert_whole_blocks(format, weights.len(), out.len());
    match codec(format) {
        Some(codec) => (codec.encode)(weights, out),
        None if format.is_interleaved() => {
            let mut blocks = blocks_for(format, weights.len());
            encode(format.as_in_file(), weights, &mut blocks);
            interleave(format.as_in_file(), &blocks, out);
        }
        None => no_blocks(format),
    }
}

/// A K-major matrix is nothing without its number of rows.
fn no_blocks(format: Format) -> ! {
    panic!("{format} has no blocks of its own")
}

fn assert_whole_blocks(format: Format, weights: usize, bytes: usize) {
    assert_eq!(format.bytes(1, weights), Some(bytes), "{weights} weights do not fill {bytes} bytes of {format} blocks");
}

/// Room for so many weights as they are in a file.
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
