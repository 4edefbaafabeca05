//! Bit allocation: which format each matrix of a model gets, by how much each changes what the model says.
//!
//! ```text
//! source + text --> Calibration: tokens, the source's logits
//!     one matrix in one format at a time --> a table: (tensor, format, bytes, KL)     Siblings run them
//!     table --> Frontier: the best mixes, if divergences add up
//!     Frontier, goal --> a mix whose divergence is measured as a whole
//! ```
//!
//! KL is the mean Kullback-Leibler divergence of the next token's distribution from the source's, in nats a token, as `eval`
//! has it. Vectors and adapters have what they have in every quantised file.

mod candidates;
mod error;
mod frontier;
mod json;
mod search;
mod siblings;
mod table;

pub use error::AllocationError;

use crate::eval::{Calibration, Divergence};
use crate::model_file::new_file;
use crate::{ConvertFileOptions, ModelFileError, Session, SessionBuilder};
use frontier::Frontier;
use search::{Found, to_target};
use siblings::Siblings;
use std::io::Read;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use table::{Meter, Table};
use wgoose_graph::{Format, Weight};
use wgoose_loader::writer::{ChosenFormats, Mix};

/// What a mix of formats is chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AllocationGoal {
    /// The fewest bytes whose divergence, measured, is at most so many nats a token.
    Divergence(f64),
    /// The least divergence in a file of at most so many bytes, its vocabulary and all.
    Bytes(u64),
}

/// How formats are chosen.
#[derive(Clone, Copy, Debug)]
pub struct AllocationOptions {
    /// What for.
    pub goal: AllocationGoal,
    /// Most tokens to measure on; 4 bytes of memory for each and each entry of the vocabulary.
    pub tokens: NonZeroUsize,
}

impl AllocationOptions {
    /// Tokens that are enough to tell formats apart.
    pub const TOKENS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);
}

/// What is being done.
#[derive(Clone, Copy, Debug)]
pub enum AllocationStep {
    /// The source reads the text, or writes it: so many of so many tokens are there.
    Text {
        /// Tokens written.
        done: usize,
        /// Tokens in all, at most.
        total: usize,
    },
    /// The measurements begin.
    Measurements {
        /// Measurements in all.
        total: usize,
        /// Time that the source takes to read the text, its kernels compiled: a measurement takes about as long.
        each: Duration,
    },
    /// A matrix is measured in a format.
    Tensor {
        /// The matrix.
        weight: Weight,
        /// The format.
        format: Format,
        /// Measurements done.
        done: usize,
        /// Measurements in all.
        total: usize,
    },
    /// A whole mix is measured.
    Mix {
        /// Bytes of its file.
        bytes: u64,
    },
}

/// A matrix and its formats.
#[derive(Clone, Debug)]
pub struct AllocatedTensor {
    /// The matrix.
    pub weight: Weight,
    /// Its formats, from the smallest to the source's own.
    pub formats: Vec<MeasuredFormat>,
    /// Which of them was chosen.
    pub chosen: usize,
}

/// What a format makes of one matrix.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredFormat {
    /// The format.
    pub format: Format,
    /// Bytes of the matrix.
    pub bytes: u64,
    /// Divergence with this matrix alone in the format, in nats a token.
    pub kl: f64,
}

/// A mix and what it makes of the model.
#[derive(Clone, Debug)]
pub struct MeasuredMix {
    /// What it is called.
    pub name: &'static str,
    /// Bytes of its file.
    pub bytes: u64,
    /// How far it is from the source.
    pub divergence: Divergence,
}

/// Formats that were chosen.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// What to write: the mix that most weights have, and the formats of all.
    pub mix: Mix,
    /// The formats, and the divergence that was measured of them together.
    pub chosen: ChosenFormats,
    /// The sum of the divergences of single matrices.
    pub estimate: f64,
    /// Every matrix, in the order of a pass.
    pub tensors: Vec<AllocatedTensor>,
    /// For comparison: all in Q4_K_M, where the model can be; the chosen mix; every matrix as in the source.
    pub mixes: Vec<MeasuredMix>,
    /// Tokens that were measured.
    pub tokens: usize,
}

/// Chooses the formats of a file to be made of a model, for [`convert_file`](crate::convert_file); `file` says which.
/// Measures every matrix in every format on the text; without one, on a text that the model writes itself. The same model,
/// text and device give the same formats. `builder` says where the model runs. A break of `progress` ends it.
///
/// # Errors
/// A name that is taken or no GGUF file's, a source that cannot be run, a goal that no mix meets.
pub fn allocate(
    source: &Path,
    path: &Path,
    file: &ConvertFileOptions,
    options: &AllocationOptions,
    builder: SessionBuilder,
    text: Option<&mut dyn Read>,
    progress: &mut dyn FnMut(AllocationStep) -> ControlFlow<()>,
) -> Result<Allocation, AllocationError> {
    if let AllocationGoal::Divergence(kl) = options.goal
        && !(kl > 0.0 && kl.is_finite())
    {
        return Err(AllocationError::Target(kl));
    }
    let model = builder.open_file(source).map_err(ModelFileError::from)?;
    let mut table = Table::new(&model, new_file(&model, path, file)?)?;
    let room = match options.goal {
        AllocationGoal::Bytes(budget) => table.room(budget)?,
        AllocationGoal::Divergence(_) => u64::MAX,
    };
    let siblings = Siblings::new(Arc::clone(&model), builder)?;
    let calibration = calibration(&mut siblings.source()?, options.tokens, text, progress)?;
    let mut meter = Meter { siblings, calibration: &calibration };
    table.measure(&mut meter, progress)?;

    let choices = table.choices();
    let frontier = Frontier::new(&choices);
    let mut whole = |formats: &[(Weight, Format)], bytes| {
        go_on(progress(AllocationStep::Mix { bytes }))?;
        meter.divergence(formats)
    };
    let mut of_mix = |mix: &[usize]| -> Result<(f64, Divergence), AllocationError> {
        let divergence = whole(&table.formats(mix), table.file_bytes(mix)?)?;
        Ok((divergence.all().mean_kl(), divergence))
    };
    let (mix, divergence) = match options.goal {
        AllocationGoal::Bytes(_) => {
            let mix = frontier.within(room).unwrap_or_default();
            let (_, divergence) = of_mix(&mix)?;
            (mix, divergence)
        }
        AllocationGoal::Divergence(target) => match to_target(&frontier, target, &mut of_mix)? {
            Found::Mix(mix, divergence) => (mix, divergence),
            Found::Least(least) => return Err(AllocationError::TargetTooSmall { target, least }),
        },
    };
    let kept: Vec<usize> = choices.iter().map(|choices| choices.len() - 1).collect();
    let chosen = table.chosen(&mix, divergence.all().mean_kl());
    let mut mixes = Vec::new();
    if let Some((formats, bytes)) = table.named(Mix::Q4_K_M) {
        let divergence = whole(&formats, bytes)?;
        mixes.push(MeasuredMix { name: Mix::Q4_K_M.name(), bytes, divergence });
    }
    mixes.push(MeasuredMix { name: "auto", bytes: table.file_bytes(&mix)?, divergence });
    let bytes = table.file_bytes(&kept)?;
    let divergence = whole(&table.formats(&kept), bytes)?;
    mixes.push(MeasuredMix { name: "source", bytes, divergence });

    let (most, estimate) = (table.most(&mix), frontier.kl(&mix));
    let mut tensors = table.tensors;
    tensors.iter_mut().zip(mix).for_each(|(tensor, choice)| tensor.chosen = choice);
    Ok(Allocation { mix: most, chosen, estimate, tensors, mixes, tokens: calibration.tokens().len() })
}

/// What the source says of the text, or of one that it writes.
fn calibration(
    source: &mut Session,
    tokens: NonZeroUsize,
    text: Option<&mut dyn Read>,
    progress: &mut dyn FnMut(AllocationStep) -> ControlFlow<()>,
) -> Result<Calibration, AllocationError> {
    let Some(text) = text else {
        let (mut done, mut flow) = (0, ControlFlow::Continue(()));
        let drawn = Calibration::drawn(source, tokens, &mut || {
            flow = progress(AllocationStep::Text { done, total: tokens.get() });
            done += 1;
            flow
        });
        go_on(flow)?;
        return Ok(drawn?);
    };
    go_on(progress(AllocationStep::Text { done: 0, total: tokens.get() }))?;
    Ok(Calibration::of_text(source, text, tokens)?)
}

fn go_on(flow: ControlFlow<()>) -> Result<(), AllocationError> {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(AllocationError::Stopped),
    }
}
