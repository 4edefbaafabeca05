//! Why a model was not converted.

use crate::error::LoadError;
use crate::writer::WriteError;
use wgoose_graph::{Format, Weight};

/// Why [`convert`](super::convert) wrote nothing.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The file to be made.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The file to be read, or the copy when it is read back.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A number beyond the format's range, or none at all.
    #[error("tensor '{tensor}' holds {value:e}, which {format} cannot: choose BF16 or F32")]
    Range {
        /// Its name in the new file.
        tensor: String,
        /// The number.
        value: f32,
        /// The format asked for.
        format: Format,
    },
    /// Numbers that a format rounds away: they are too small for its scales.
    #[error(
        "rounding would change {weight} by {:.1} % of its size (rms), and {:.1} % are allowed: its numbers are too small for \
         the format: choose BF16 or F32, or allow more",
        100.0 * error, 100.0 * most
    )]
    Rounding {
        /// The weight.
        weight: Weight,
        /// Root mean square of the error over that of the source.
        error: f64,
        /// The most that was allowed.
        most: f64,
    },
    /// The copy holds something else than it should.
    #[error("the copy differs from the source in {weight}: nothing was kept (check memory and disk, and try again)")]
    Differs {
        /// The first weight that differs.
        weight: Weight,
    },
    /// The copy holds another embedding head than it should.
    #[error("the copy differs from the source in '{tensor}': nothing was kept (check memory and disk, and try again)")]
    HeadDiffers {
        /// The first tensor of a head that differs.
        tensor: String,
    },
    /// The copy has lost tokens.
    #[error("the copy has another vocabulary than the source from token {token} on: nothing was kept")]
    VocabularyDiffers {
        /// The first token that differs.
        token: usize,
    },
}
