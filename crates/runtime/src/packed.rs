//! Packed f16 ([`wgoose_kernels::Packed`]) as the CPU writes and reads it.

use wgoose_graph::Format;
use wgoose_kernels::Packed;
use wgoose_loader::blocks;

/// The bytes of values, two each.
pub(crate) fn pack(values: &[f32]) -> Vec<u8> {
    let scaled: Vec<f32> = values.iter().map(|value| value / Packed::SCALE).collect();
    let mut bytes = vec![0; values.len() * 2];
    blocks::encode(Format::F16, &scaled, &mut bytes);
    bytes
}

/// The values of bytes, half as many.
pub(crate) fn unpack(bytes: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; bytes.len() / 2];
    blocks::decode(Format::F16, bytes, &mut values);
    values.iter().map(|value| value * Packed::SCALE).collect()
}
