//! F32, F16 and BF16: one number per "block", little endian. BF16 is the upper half of an F32.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Numbers converted at a time: `half` uses the CPU's vector instructions for slices only.
const RUN: usize = 64;

pub(super) fn decode_f32(bytes: &[u8], out: &mut [f32]) {
    for (b, x) in bytes.as_chunks::<4>().0.iter().zip(out) {
        *x = f32::from_le_bytes(*b);
    }
}

pub(super) fn encode_f32(weights: &[f32], out: &mut [u8]) {
    for (x, b) in weights.iter().zip(out.as_chunks_mut::<4>().0) {
        *b = x.to_le_bytes();
    }
}

pub(super) fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    let mut run = [f16::ZERO; RUN];
    for (bytes, out) in bytes.chunks(2 * RUN).zip(out.chunks_mut(RUN)) {
        let run = &mut run[..out.len()];
        for (b, h) in bytes.as_chunks::<2>().0.iter().zip(run.iter_mut()) {
            *h = f16::from_le_bytes(*b);
        }
        run.convert_to_f32_slice(out);
    }
}

pub(super) fn encode_f16(weights: &[f32], out: &mut [u8]) {
    let mut run = [f16::ZERO; RUN];
    for (weights, out) in weights.chunks(RUN).zip(out.chunks_mut(2 * RUN)) {
        let run = &mut run[..weights.len()];
        run.convert_from_f32_slice(weights);
        for (h, b) in run.iter().zip(out.as_chunks_mut::<2>().0) {
            *b = h.to_le_bytes();
        }
    }
}

pub(super) fn decode_bf16(bytes: &[u8], out: &mut [f32]) {
    for (b, x) in bytes.as_chunks::<2>().0.iter().zip(out) {
        *x = f32::from_bits(u32::from(u16::from_le_bytes(*b)) << 16);
    }
}

pub(super) fn encode_bf16(weights: &[f32], out: &mut [u8]) {
    for (x, b) in weights.iter().zip(out.as_chunks_mut::<2>().0) {
        *b = bf16::from_f32(*x).to_le_bytes();
    }
}
