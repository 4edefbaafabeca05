//! Arithmetic on registers of 32 bits. A float is its bits, an f16 the bits of the equal f32, a boolean 0 or 1.

mod binary;
mod packing;
mod ternary;
mod unary;

pub(crate) use binary::Binary;
pub(crate) use packing::Packing;
pub(crate) use ternary::{Ternary, insert_bits};
pub(crate) use unary::Unary;

/// The float whose bits a register has.
pub(crate) fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}
