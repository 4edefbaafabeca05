//! Operations on one scalar.

use super::float;
use half::f16;

/// An operation on one scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    NegateFloat,
    Negate,
    Not,
    Complement,
    AbsFloat,
    AbsSigned,
    Ceil,
    Floor,
    Round,
    Fract,
    Trunc,
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    InverseSqrt,
    Sin,
    Cos,
    Tan,
    Sinh,
    Cosh,
    Tanh,
    Asin,
    Acos,
    Atan,
    Asinh,
    Acosh,
    Atanh,
    Radians,
    Degrees,
    SignFloat,
    SignSigned,
    LeadingZeros,
    TrailingZeros,
    CountOnes,
    ReverseBits,
    FirstLeadingBit,
    FirstLeadingBitSigned,
    FirstTrailingBit,
    Saturate,
    IsNan,
    IsInfinite,
    FloatToSigned,
    FloatToUnsigned,
    SignedToFloat,
    UnsignedToFloat,
    FloatToBool,
    IntegerToBool,
    /// To the nearest f16.
    RoundToHalf,
}

impl Unary {
    #[inline(always)]
    pub(crate) fn apply(self, a: u32) -> u32 {
        use Unary::*;
        let x = float(a);
        match self {
            NegateFloat => (-x).to_bits(),
            Negate => a.wrapping_neg(),
            Not => u32::from(a == 0),
            Complement => !a,
            AbsFloat => x.abs().to_bits(),
            AbsSigned => (a as i32).wrapping_abs() as u32,
            Ceil => x.ceil().to_bits(),
            Floor => x.floor().to_bits(),
            Round => x.round_ties_even().to_bits(),
            Fract => (x - x.floor()).to_bits(),
            Trunc => x.trunc().to_bits(),
            Exp => x.exp().to_bits(),
            Exp2 => x.exp2().to_bits(),
            Log => x.ln().to_bits(),
            Log2 => x.log2().to_bits(),
            Sqrt => x.sqrt().to_bits(),
            InverseSqrt => (1.0 / x.sqrt()).to_bits(),
            Sin => x.sin().to_bits(),
            Cos => x.cos().to_bits(),
            Tan => x.tan().to_bits(),
            Sinh => x.sinh().to_bits(),
            Cosh => x.cosh().to_bits(),
            Tanh => x.tanh().to_bits(),
            Asin => x.asin().to_bits(),
            Acos => x.acos().to_bits(),
            Atan => x.atan().to_bits(),
            Asinh => x.asinh().to_bits(),
            Acosh => x.acosh().to_bits(),
            Atanh => x.atanh().to_bits(),
            Radians => x.to_radians().to_bits(),
            Degrees => x.to_degrees().to_bits(),
            SignFloat if x == 0.0 => 0,
            SignFloat => x.signum().to_bits(),
            SignSigned => (a as i32).signum() as u32,
            LeadingZeros => a.leading_zeros(),
            TrailingZeros => a.trailing_zeros(),
            CountOnes => a.count_ones(),
            ReverseBits => a.reverse_bits(),
            FirstLeadingBit => first_leading_bit(a),
            FirstLeadingBitSigned if (a as i32) < 0 => first_leading_bit(!a),
            FirstLeadingBitSigned => first_leading_bit(a),
            FirstTrailingBit if a == 0 => u32::MAX,
            FirstTrailingBit => a.trailing_zeros(),
            Saturate => x.clamp(0.0, 1.0).to_bits(),
            IsNan => x.is_nan().into(),
            IsInfinite => x.is_infinite().into(),
            FloatToSigned => (x as i32) as u32,
            FloatToUnsigned => x as u32,
            SignedToFloat => (a as i32 as f32).to_bits(),
            UnsignedToFloat => (a as f32).to_bits(),
            FloatToBool => u32::from(x != 0.0),
            IntegerToBool => u32::from(a != 0),
            RoundToHalf => f16::from_f32(x).to_f32().to_bits(),
        }
    }
}

/// The place of the highest bit that is set, or all ones.
fn first_leading_bit(a: u32) -> u32 {
    if a == 0 { u32::MAX } else { 31 - a.leading_zeros() }
}
