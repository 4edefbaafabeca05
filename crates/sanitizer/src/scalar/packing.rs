//! Values packed in words.

use super::float;
use half::f16;

/// How a word holds values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    PackHalves,
    UnpackHalves,
    PackBytes,
    PackBytesClampedSigned,
    PackBytesClampedUnsigned,
    UnpackBytesSigned,
    UnpackBytesUnsigned,
    PackNormSigned8,
    PackNormUnsigned8,
    UnpackNormSigned8,
    UnpackNormUnsigned8,
    PackNormSigned16,
    PackNormUnsigned16,
    UnpackNormSigned16,
    UnpackNormUnsigned16,
}

impl Packing {
    /// Reads registers from `from` on and writes those from `to` on.
    pub(crate) fn apply(self, registers: &mut [u32], to: usize, from: usize) {
        use Packing::*;
        let word = registers[from];
        let bytes = word.to_le_bytes();
        let [low, high] = [word as u16, (word >> 16) as u16];
        let value = |i: usize| registers[from + i];
        let four = |of: &dyn Fn(u32) -> u8| u32::from_le_bytes([0, 1, 2, 3].map(|i| of(value(i))));
        let two = |of: &dyn Fn(u32) -> u16| u32::from(of(value(0))) | (u32::from(of(value(1))) << 16);
        let norm = |x: u32, low: f32, scale: f32| (float(x).clamp(low, 1.0) * scale + 0.5).floor() as i32;
        let of_norm = |x: i32, scale: f32| (x as f32 / scale).max(-1.0).to_bits();
        let (values, len) = match self {
            PackHalves => ([two(&|x| f16::from_f32(float(x)).to_bits()), 0, 0, 0], 1),
            PackBytes => ([four(&|x| x as u8), 0, 0, 0], 1),
            PackBytesClampedSigned => ([four(&|x| (x as i32).clamp(-128, 127) as u8), 0, 0, 0], 1),
            PackBytesClampedUnsigned => ([four(&|x| x.min(255) as u8), 0, 0, 0], 1),
            PackNormSigned8 => ([four(&|x| norm(x, -1.0, 127.0) as u8), 0, 0, 0], 1),
            PackNormUnsigned8 => ([four(&|x| norm(x, 0.0, 255.0) as u8), 0, 0, 0], 1),
            PackNormSigned16 => ([two(&|x| norm(x, -1.0, 32767.0) as u16), 0, 0, 0], 1),
            PackNormUnsigned16 => ([two(&|x| norm(x, 0.0, 65535.0) as u16), 0, 0, 0], 1),
            UnpackHalves => {
                let [x, y] = [low, high].map(|bits| f16::from_bits(bits).to_f32().to_bits());
                ([x, y, 0, 0], 2)
            }
            UnpackBytesSigned => (bytes.map(|b| i32::from(b as i8) as u32), 4),
            UnpackBytesUnsigned => (bytes.map(u32::from), 4),
            UnpackNormSigned8 => (bytes.map(|b| of_norm(i32::from(b as i8), 127.0)), 4),
            UnpackNormUnsigned8 => (bytes.map(|b| of_norm(i32::from(b), 255.0)), 4),
            UnpackNormSigned16 => {
                let [x, y] = [low, high].map(|bits| of_norm(i32::from(bits as i16), 32767.0));
                ([x, y, 0, 0], 2)
            }
            UnpackNormUnsigned16 => {
                let [x, y] = [low, high].map(|bits| of_norm(i32::from(bits), 65535.0));
                ([x, y, 0, 0], 2)
            }
        };
        registers[to..to + len].copy_from_slice(&values[..len]);
    }

    /// The sum of the products of four bytes each.
    pub(crate) fn dot_bytes(a: u32, b: u32, is_signed: bool) -> u32 {
        let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
        let product = |i: usize| match is_signed {
            true => i32::from(a[i] as i8) * i32::from(b[i] as i8),
            false => i32::from(a[i]) * i32::from(b[i]),
        };
        (0..4).map(product).sum::<i32>() as u32
    }
}
