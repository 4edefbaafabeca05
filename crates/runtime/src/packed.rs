//! Packed f16 ([`wgoose_kernels::Packed`]) as the CPU writes and reads it: values, and the WKV state.

use std::borrow::Cow;
use wgoose_graph::Format;
use wgoose_kernels::{Packed, StateFormat};
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

/// WKV matrices as they are stored. What [`unpack_state`] gave becomes the same bytes.
pub(crate) fn pack_state(values: &[f32], format: StateFormat) -> Cow<'_, [u8]> {
    match format {
        StateFormat::F32 => Cow::Borrowed(bytemuck::cast_slice(values)),
        StateFormat::F16 => {
            let largest = StateFormat::LARGEST_F16;
            // What is no number, or infinite, stays so.
            let bounded = |value: &f32| if value.is_finite() { value.clamp(-largest, largest) } else { *value };
            let bounded: Vec<f32> = values.iter().map(bounded).collect();
            let mut bytes = vec![0; values.len() * 2];
            blocks::encode(Format::F16, &bounded, &mut bytes);
            Cow::Owned(bytes)
        }
    }
}

/// The WKV matrices of what is stored.
pub(crate) fn unpack_state(bytes: &[u8], format: StateFormat) -> Vec<f32> {
    match format {
        StateFormat::F32 => bytemuck::pod_collect_to_vec(bytes),
        StateFormat::F16 => {
            let mut values = vec![0.0; bytes.len() / 2];
            blocks::decode(Format::F16, bytes, &mut values);
            values
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_bits() {
        let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let values = unpack_state(&bytes, StateFormat::F16);
        let again = pack_state(&values, StateFormat::F16);
        let halves = bytes.chunks_exact(2).zip(again.chunks_exact(2)).zip(&values);
        for ((was, is), value) in halves.filter(|(_, value)| value.is_finite()) {
            assert_eq!(was, is, "{value:e}");
        }
    }

    #[test]
    fn packing_keeps_large_states_finite_and_nan_and_infinity_as_they_are() {
        let given = [1e9, -65520.0, 65504.0, 1.0 / 3.0, f32::NAN, f32::INFINITY];
        let values = unpack_state(&pack_state(&given, StateFormat::F16), StateFormat::F16);
        assert_eq!(values[..3], [65504.0, -65504.0, 65504.0]);
        assert!((values[3] * 3.0 - 1.0).abs() <= 1.0 / 2048.0);
        assert!(values[4].is_nan() && values[5] == f32::INFINITY);
    }
}
