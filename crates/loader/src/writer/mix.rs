//! Which format each tensor gets.

use std::fmt;
use std::str::FromStr;
use wgoose_graph::{Format, LayerWeight, Weight, WeightClass};

/// A mix of formats, named as llama.cpp names its file types.
///
/// As `llama-quantize` leaves them, GGUF files keep vectors and the decay adapter in F32 and the other adapters in F16
/// whatever the mix of matrices; a safetensors file has one format throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)] // the names users know from GGUF
pub enum Mix {
    /// Everything in F32.
    F32,
    /// Matrices in F16.
    F16,
    /// Matrices and adapters in BF16.
    BF16,
    /// Matrices in Q8_0.
    Q8_0,
    /// Matrices in Q4_0.
    Q4_0,
    /// Matrices in Q4_K, the head in Q6_K.
    Q4_K_M,
    /// Matrices in Q5_K, the head in Q6_K.
    Q5_K_M,
    /// Matrices in Q6_K.
    Q6_K,
}

impl Mix {
    /// Every mix, in a fixed order.
    pub const ALL: [Mix; 8] =
        [Mix::F32, Mix::F16, Mix::BF16, Mix::Q8_0, Mix::Q4_0, Mix::Q4_K_M, Mix::Q5_K_M, Mix::Q6_K];

    /// The name, as llama.cpp writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::F32 => "F32",
            Mix::F16 => "F16",
            Mix::BF16 => "BF16",
            Mix::Q8_0 => "Q8_0",
            Mix::Q4_0 => "Q4_0",
            Mix::Q4_K_M => "Q4_K_M",
            Mix::Q5_K_M => "Q5_K_M",
            Mix::Q6_K => "Q6_K",
        }
    }

    /// Whether matrices are stored in blocks.
    pub const fn is_quantised(self) -> bool {
        self.matrix().is_quantised()
    }

    /// The format of most matrices.
    pub const fn matrix(self) -> Format {
        match self {
            Mix::F32 => Format::F32,
            Mix::F16 => Format::F16,
            Mix::BF16 => Format::BF16,
            Mix::Q8_0 => Format::Q8_0,
            Mix::Q4_0 => Format::Q4_0,
            Mix::Q4_K_M => Format::Q4_K,
            Mix::Q5_K_M => Format::Q5_K,
            Mix::Q6_K => Format::Q6_K,
        }
    }

    /// The format of a weight in a GGUF file.
    pub const fn in_gguf(self, weight: Weight) -> Format {
        match (weight.class(), weight) {
            (WeightClass::Vector, _) => Format::F32,
            (_, Weight::Layer(_, LayerWeight::DecayDown | LayerWeight::DecayUp)) => Format::F32,
            (WeightClass::Adapter, _) if self.is_quantised() => Format::F16,
            (_, Weight::Head) if matches!(self, Mix::Q4_K_M | Mix::Q5_K_M) => Format::Q6_K,
            _ => self.matrix(),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Mix`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown mix '{0}': expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_K_M, Q5_K_M, Q6_K")]
pub struct UnknownMix(pub String);

impl FromStr for Mix {
    type Err = UnknownMix;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Mix::ALL.into_iter().find(|m| m.name().eq_ignore_ascii_case(s)).ok_or_else(|| UnknownMix(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for mix in Mix::ALL {
            assert_eq!(mix.to_string().to_lowercase().parse(), Ok(mix));
        }
        assert_eq!("Q4_K".parse::<Mix>(), Err(UnknownMix("Q4_K".into())));
    }

    #[test]
    fn q4_k_m_has_the_formats_of_llama_quantize() {
        let formats = [
            (Weight::Embedding, Format::Q4_K),
            (Weight::Head, Format::Q6_K),
            (Weight::LnOutBias, Format::F32),
            (Weight::Layer(3, LayerWeight::FfnValue), Format::Q4_K),
            (Weight::Layer(3, LayerWeight::AttMix), Format::F32),
            (Weight::Layer(3, LayerWeight::DecayUp), Format::F32),
            (Weight::Layer(3, LayerWeight::GateUp), Format::F16),
        ];
        for (weight, format) in formats {
            assert_eq!(Mix::Q4_K_M.in_gguf(weight), format, "{weight}");
        }
    }
}
