//! Why a synthetic model cannot be written.

use crate::writer::{Mix, WriteError};

/// Why [`write`](super::write) wrote nothing.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The file.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A hot model in a quantised mix.
    #[error("a hot model's ffn.value is too small for the f16 scales of {0}: choose F32, F16 or BF16")]
    HotQuantised(Mix),
    /// A share of zeros that cannot be drawn.
    #[error("a share of {0} zeros in the channel mix cannot be drawn: choose 0.5 to 0.99")]
    Zeros(f32),
}
