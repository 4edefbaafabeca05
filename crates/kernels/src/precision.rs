//! The arithmetic of a variant, beside f32: how coarsely it rounds the activations inside a product.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Precision of the activations inside a product, the least precise last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Precision {
    /// f32: products and sums of the operands as they are.
    #[default]
    F32,
    /// 15 bits, as two int8 limbs, with a scale per 16 or per 128 of them.
    Q15,
    /// One f16 on the matrix units, 11 bits, and weights as f16 too: what peers compute prompts with.
    F16,
    /// int8, with a scale per 16 of them.
    Q8,
}

/// A name that is no [`Precision`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no precision '{0}': f32, q15, f16, q8")]
pub struct UnknownPrecision(pub String);

impl FromStr for Precision {
    type Err = UnknownPrecision;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = [Precision::F32, Precision::Q15, Precision::F16, Precision::Q8];
        all.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownPrecision(name.to_owned()))
    }
}

impl Precision {
    /// As kernel files and options name it.
    pub const fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Q15 => "q15",
            Precision::F16 => "f16",
            Precision::Q8 => "q8",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Precision::F32 => "f32",
            Precision::Q15 => "15-bit activations",
            Precision::F16 => "f16 products",
            Precision::Q8 => "int8 activations",
        })
    }
}
