//! Which tensors a file holds, in which format, where.

use super::{Outline, WriteError};
use crate::names::{Container, Names};
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight, WeightClass};

/// A tensor of the file: some rows of a weight, or a tensor of an embedding head.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// The weight; `None`, of a tensor of an embedding head.
    pub(crate) weight: Option<Weight>,
    /// The weight's first row that lies in this tensor.
    pub(crate) first_row: u32,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    /// Sizes, slowest-varying first, as the container writes them.
    pub(super) dims: Vec<u32>,
    pub(crate) format: Format,
    /// First byte, from the start of the data section.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// Zeros behind it, up to the alignment.
    pub(super) padding: u64,
}

impl Tensor {
    /// A tensor of all its rows that has no place yet.
    fn of(name: String, weight: Option<Weight>, dims: Vec<u32>, [rows, cols]: [u32; 2], format: Format) -> Self {
        Tensor { name, weight, first_row: 0, rows, cols, dims, format, offset: 0, bytes: 0, padding: 0 }
    }

    /// Number of weights.
    pub(super) fn weights(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.cols)
    }

    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        (self.bytes / u64::from(self.rows)) as usize
    }
}

/// All tensors, one behind the other.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) tensors: Vec<Tensor>,
    pub(super) data_len: u64,
}

impl Layout {
    /// Lays out the model in the order the forward pass needs it, each tensor at a multiple of `alignment`.
    pub(super) fn new(outline: &Outline<'_>, alignment: u64) -> Result<Self, WriteError> {
        let mut layout = Layout { tensors: Vec::new(), data_len: 0 };
        for weight in Weight::all(outline.shape) {
            match outline.container.written_names().written(weight) {
                Names::One(name) => {
                    let [rows, cols] = weight.shape(outline.shape);
                    layout.push(outline, alignment, weight, name, 0..rows, cols)?;
                }
                Names::Stacked(names) => {
                    for (row, name) in (0..).zip(names) {
                        layout.push(outline, alignment, weight, name, row..row + 1, outline.shape.width)?;
                    }
                }
            }
        }
        for (name, head) in outline.heads {
            let sizes = [head.rows() as u32, head.cols() as u32];
            layout.place(alignment, Tensor::of(name.clone(), None, head_dims(sizes), sizes, head.format()))?;
        }
        if outline.container == Container::Gguf {
            layout.push_unused(outline, alignment)?;
        }
        Ok(layout)
    }

    /// llama.cpp demands a value residual of layer 0, with the rank of the in-context learning rate, and never uses it.
    fn push_unused(&mut self, outline: &Outline<'_>, alignment: u64) -> Result<(), WriteError> {
        let ModelShape { width, ranks, .. } = *outline.shape;
        let unused = [
            (LayerWeight::ValueBias, 1, width),
            (LayerWeight::ValueDown, ranks.iclr, width),
            (LayerWeight::ValueUp, width, ranks.iclr),
        ];
        for (weight, rows, cols) in unused {
            let weight = Weight::Layer(0, weight);
            if let Names::One(name) = outline.container.written_names().written(weight) {
                self.push(outline, alignment, weight, name, 0..rows, cols)?;
            }
        }
        Ok(())
    }

    fn push(
        &mut self,
        outline: &Outline<'_>,
        alignment: u64,
        weight: Weight,
        name: String,
        rows: std::ops::Range<u32>,
        cols: u32,
    ) -> Result<(), WriteError> {
        let format = outline.format(weight);
        let count = rows.len() as u32;
        let dims = match outline.container {
            Container::Gguf => gguf_dims(weight, count, cols),
            Container::Safetensors | Container::Pth => checkpoint_dims(weight, outline.shape.head_size, count, cols),
        };
        self.place(
            alignment,
            Tensor { first_row: rows.start, ..Tensor::of(name, Some(weight), dims, [count, cols], format) },
        )
    }

    /// Gives a tensor its place, behind those before.
    fn place(&mut self, alignment: u64, tensor: Tensor) -> Result<(), WriteError> {
        let Tensor { name, rows, cols, format, .. } = &tensor;
        if !(*cols as usize).is_multiple_of(format.block_weights()) {
            return Err(WriteError::RowLength { tensor: name.clone(), cols: *cols, format: *format });
        }
        let Some(bytes) = format.bytes(*rows as usize, *cols as usize) else {
            return Err(WriteError::TooLarge { tensor: name.clone() });
        };
        let bytes = bytes as u64;
        let offset = self.data_len;
        let padding = bytes.next_multiple_of(alignment) - bytes;
        self.data_len = offset + bytes + padding;
        self.tensors.push(Tensor { offset, bytes, padding, ..tensor });
        Ok(())
    }
}

fn gguf_dims(weight: Weight, rows: u32, cols: u32) -> Vec<u32> {
    match (weight, weight.class()) {
        (Weight::Layer(_, LayerWeight::AttMix), _) => vec![rows, 1, 1, cols],
        (_, WeightClass::Vector) => vec![cols],
        _ => vec![rows, cols],
    }
}

/// As a checkpoint has them: norms are flat, the other vectors `[1, 1, C]`, the bonus is split by heads.
fn checkpoint_dims(weight: Weight, head_size: u32, rows: u32, cols: u32) -> Vec<u32> {
    use LayerWeight as L;
    match weight {
        Weight::Layer(_, L::Bonus) => vec![cols / head_size, head_size],
        Weight::Layer(_, L::Ln1Scale | L::Ln1Bias | L::Ln2Scale | L::Ln2Bias | L::LnXScale | L::LnXBias) => vec![cols],
        Weight::Layer(_, layer) if layer.class() == WeightClass::Vector => vec![1, 1, cols],
        _ if weight.class() == WeightClass::Vector => vec![cols],
        _ => vec![rows, cols],
    }
}

/// As a checkpoint has the tensors of an embedding head: matrices, and flat vectors.
fn head_dims([rows, cols]: [u32; 2]) -> Vec<u32> {
    if rows == 1 { vec![cols] } else { vec![rows, cols] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writer::Mix;
    use wgoose_graph::LoraRanks;

    fn layout(container: Container, alignment: u64) -> Layout {
        let ranks = LoraRanks { decay: 3, iclr: 5, value: 7, gate: 9 };
        let shape = ModelShape {
            layers: 2,
            width: 64,
            ffn: 80,
            head_size: 32,
            vocab: 11,
            ranks,
            deep_embed: None,
            embedding_norm: true,
            output_head: true,
        };
        let (name, mix) = ("tiny", Mix::F16);
        let (vocabulary, chosen) = (None, None);
        let outline =
            Outline { shape: &shape, container, mix, chosen, name, vocabulary, kept: &[], set: &[], heads: &[] };
        Layout::new(&outline, alignment).unwrap()
    }

    #[test]
    fn tensors_follow_each_other_aligned() {
        for (container, alignment) in [(Container::Gguf, 32), (Container::Safetensors, 1)] {
            let layout = layout(container, alignment);
            let mut end = 0;
            for tensor in &layout.tensors {
                assert_eq!((tensor.offset, tensor.offset % alignment), (end, 0), "{}", tensor.name);
                end += tensor.bytes + tensor.padding;
            }
            assert_eq!(end, layout.data_len);
        }
    }

    #[test]
    fn tensors_have_the_dimensions_each_container_expects() {
        let dims = |container, name: &str| {
            let layout = layout(container, 1);
            layout.tensors.into_iter().find(|tensor| tensor.name == name).map(|tensor| tensor.dims)
        };
        for (name, expected) in [
            ("blk.0.time_mix_v1.weight", vec![5, 64]), // unused: the rank of a, not of v
            ("blk.0.time_mix_v2.weight", vec![64, 5]),
            ("blk.1.time_mix_v1.weight", vec![7, 64]),
            ("blk.1.time_mix_lerp_fused.weight", vec![6, 1, 1, 64]),
            ("blk.1.time_mix_r_k.weight", vec![64]),
        ] {
            assert_eq!(dims(Container::Gguf, name), Some(expected), "{name}");
        }
        for (name, expected) in [
            ("blocks.0.att.v1", None),
            ("blocks.1.att.w2", Some(vec![64, 3])),
            ("blocks.1.att.x_g", Some(vec![1, 1, 64])),
            ("blocks.1.att.r_k", Some(vec![2, 32])),
            ("blocks.1.att.ln_x.bias", Some(vec![64])),
            ("ln_out.weight", Some(vec![64])),
        ] {
            assert_eq!(dims(Container::Safetensors, name), expected, "{name}");
        }
    }
}
