//! Operations on three scalars.

use super::float;

/// An operation on three scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ternary {
    MultiplyAdd,
    ClampFloat,
    ClampSigned,
    ClampUnsigned,
    Mix,
    SmoothStep,
    ExtractSigned,
    ExtractUnsigned,
}

impl Ternary {
    #[inline(always)]
    pub(crate) fn apply(self, a: u32, b: u32, c: u32) -> u32 {
        use Ternary::*;
        let (x, y, z) = (float(a), float(b), float(c));
        match self {
            MultiplyAdd => x.mul_add(y, z).to_bits(),
            ClampFloat => x.max(y).min(z).to_bits(),
            ClampSigned => (a as i32).max(b as i32).min(c as i32) as u32,
            ClampUnsigned => a.max(b).min(c),
            Mix => (x * (1.0 - z) + y * z).to_bits(),
            SmoothStep => {
                let t = ((z - x) / (y - x)).clamp(0.0, 1.0);
                (t * t * (3.0 - 2.0 * t)).to_bits()
            }
            ExtractSigned | ExtractUnsigned => {
                let offset = b.min(32);
                let count = c.min(32 - offset);
                if count == 0 {
                    return 0;
                }
                let top = a << (32 - count - offset);
                match self {
                    ExtractSigned => ((top as i32) >> (32 - count)) as u32,
                    _ => top >> (32 - count),
                }
            }
        }
    }
}

/// `value` with `count` bits from `offset` on replaced by those of `new`.
pub(crate) fn insert_bits(value: u32, new: u32, offset: u32, count: u32) -> u32 {
    let offset = offset.min(32);
    let count = count.min(32 - offset);
    if count == 0 {
        return value;
    }
    let mask = (u32::MAX >> (32 - count)) << offset;
    (value & !mask) | ((new << offset) & mask)
}
