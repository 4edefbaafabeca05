//! The model's sizes, read from its tensors and checked against what the file declares.

use crate::contents::{Contents, Directory, Size};
use crate::embedding_heads;
use crate::error::LoadError;
use crate::names::{AdapterLayout, Container, Naming};
use wgoose_graph::{LayerWeight, LoraRanks, ModelShape, Weight};

/// The halves `[rank, C]` of the adapters.
const DOWN: [LayerWeight; 4] =
    [LayerWeight::DecayDown, LayerWeight::IclrDown, LayerWeight::ValueDown, LayerWeight::GateDown];
/// The halves `[C, rank]` of the adapters.
const UP: [LayerWeight; 4] = [LayerWeight::DecayUp, LayerWeight::IclrUp, LayerWeight::ValueUp, LayerWeight::GateUp];

/// The sizes of the model in a file, and how it keeps its adapters.
pub(crate) fn deduce(
    container: Container,
    naming: &Naming,
    contents: &Contents,
    embedding_norm_fused: Option<bool>,
) -> Result<(ModelShape, AdapterLayout), LoadError> {
    let sizes = Sizes { container, naming, directory: &contents.directory };
    let declared = |wanted| contents.declared.iter().find(|(_, size, _)| *size == wanted).map(|(_, _, value)| *value);

    let [vocab, width] = sizes.matrix(Weight::Embedding)?;
    let [ffn, _] = sizes.matrix(Weight::Layer(0, LayerWeight::FfnKey))?;
    let [heads, per_head] = sizes.matrix(Weight::Layer(0, LayerWeight::Bonus))?;
    // Where the bonus is one row, it says nothing of heads.
    let head_size = declared(Size::Head).filter(|_| heads == 1).unwrap_or(per_head);
    let layers = naming.layers();

    let layout = sizes.adapter_layout(layers, width);
    let rank = |layer, down| -> Result<u32, LoadError> {
        let [first, second] = sizes.matrix(Weight::Layer(layer, down))?;
        Ok(size(if layout == AdapterLayout::OutIn { first } else { second }))
    };
    let iclr = rank(0, LayerWeight::IclrDown)?;
    let value = match declared(Size::ValueRank) {
        _ if layers > 1 => rank(1, LayerWeight::ValueDown)?,
        Some(value) => size(value),
        None => iclr, // the only layer has no value residual: any rank will do
    };
    let ranks =
        LoraRanks { decay: rank(0, LayerWeight::DecayDown)?, iclr, value, gate: rank(0, LayerWeight::GateDown)? };
    let shape = ModelShape {
        layers: size(layers),
        width: size(width),
        ffn: size(ffn),
        head_size: size(head_size),
        vocab: size(vocab),
        ranks,
        deep_embed: sizes.deep_embed()?,
        embedding_norm: sizes.has_embedding_norm(embedding_norm_fused)?,
        output_head: sizes.has_output_head(),
    };
    shape.validate()?;
    refuse_contradictions(&shape, contents)?;
    Ok((shape, layout))
}

/// A size as shapes have it. One beyond 32 bits becomes the largest, which no shape is valid with.
fn size(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn refuse_contradictions(shape: &ModelShape, contents: &Contents) -> Result<(), LoadError> {
    for &(key, size, declared) in &contents.declared {
        let found = size.of(shape);
        if declared != u64::from(found) {
            return Err(LoadError::Contradiction { key, declared, found });
        }
    }
    match contents.norm_epsilon {
        // Stored as f32: 1e-5 comes back with its rounding error.
        Some(declared) if (declared - 1e-5).abs() > 1e-8 || declared.is_nan() => {
            Err(LoadError::NormEpsilon { declared })
        }
        _ => Ok(()),
    }
}

struct Sizes<'a> {
    container: Container,
    naming: &'a Naming,
    directory: &'a Directory,
}

impl Sizes<'_> {
    /// Rows and columns of a tensor as the file keeps it; leading sizes of 1 do not count.
    fn matrix(&self, weight: Weight) -> Result<[u64; 2], LoadError> {
        let name = self.naming.names(weight).as_slice()[0].clone();
        let tensor = self.directory.get(&name).ok_or_else(|| self.naming.missing(&name))?;
        match tensor.dims.as_slice() {
            [cols] => Ok([1, *cols as u64]),
            [ones @ .., rows, cols] if ones.iter().all(|&d| d == 1) => Ok([*rows as u64, *cols as u64]),
            dims => Err(LoadError::WrongShape {
                tensor: name,
                offset: tensor.bytes.start,
                dims: dims.to_vec(),
                expected: "a matrix".to_owned(),
            }),
        }
    }

    /// Size of DeepEmbed's matrices, of a file whose first layer has a table of them.
    fn deep_embed(&self) -> Result<Option<u32>, LoadError> {
        let table = Weight::Layer(0, LayerWeight::DeepEmbedTable);
        let name = self.naming.names(table).as_slice()[0].clone();
        let Some(tensor) = self.directory.get(&name) else { return Ok(None) };
        let [_, cols] = self.matrix(table)?;
        match cols.isqrt() {
            n if n * n == cols => Ok(Some(size(n))),
            _ => Err(LoadError::WrongShape {
                tensor: name,
                offset: tensor.bytes.start,
                dims: tensor.dims.clone(),
                expected: "rows that are square matrices, such as 1024 values for 32 x 32".to_owned(),
            }),
        }
    }

    /// Whether a norm follows the embedding. A model without its tensors has none only if the norm is said to be folded
    /// into the embedding.
    fn has_embedding_norm(&self, is_folded: Option<bool>) -> Result<bool, LoadError> {
        let tensor = self.naming.names(Weight::Ln0Scale).as_slice()[0].clone();
        match is_folded {
            Some(true) => Ok(false),
            _ if self.directory.get(&tensor).is_some() => Ok(true),
            _ if self.container == Container::Gguf => Err(self.naming.missing(&tensor)),
            _ => Err(LoadError::MissingEmbeddingNorm { tensor }),
        }
    }

    /// Whether there is an output head. Models with embedding heads may lack it; every other model has one, which is
    /// looked for later.
    fn has_output_head(&self) -> bool {
        let names = self.naming.names(Weight::Head);
        let is_there = names.as_slice().iter().any(|name| self.directory.get(name).is_some());
        is_there || embedding_heads::heads_in(self.directory).next().is_none()
    }

    /// The layout that the first adapter shows which is no square; that of the naming if all are.
    fn adapter_layout(&self, layers: u64, width: u64) -> AdapterLayout {
        let convention = self.naming.adapters();
        if self.container == Container::Gguf {
            return convention;
        }
        // Two layers hold one of each kind. A file whose layers differ is refused when they are placed.
        let seen =
            (0..layers.min(2) as u32).flat_map(|layer| DOWN.into_iter().chain(UP).map(move |half| (layer, half)));
        for (layer, half) in seen.filter(|(layer, half)| *layer > 0 || !half.absent_in_first_layer()) {
            let Ok([first, second]) = self.matrix(Weight::Layer(layer, half)) else { continue };
            // In the canonical layout a "down" half ends with the width, an "up" half begins with it.
            let (canonical, transposed) = if DOWN.contains(&half) { (second, first) } else { (first, second) };
            match (canonical == width, transposed == width) {
                (true, false) => return AdapterLayout::OutIn,
                (false, true) => return AdapterLayout::InOut,
                _ => {}
            }
        }
        convention
    }
}
