//! A tiny model with numbers that every float format holds exactly, and writers of the containers that share nothing
//! with the readers.

pub(crate) mod alloc;
pub(crate) mod gguf;
pub(crate) mod namings;
pub(crate) mod pth;
pub(crate) mod safetensors;
pub(crate) mod shards;

use std::io::Write;
use wgoose_graph::{Format, LayerWeight, LoraRanks, ModelShape, Weight};
use wgoose_loader::{LoadError, Model};

/// Every size differs from every other, so that a swapped one shows.
pub(crate) const TINY: ModelShape = ModelShape {
    layers: 3,
    width: 64,
    ffn: 96,
    head_size: 32,
    vocab: 10,
    ranks: LoraRanks { decay: 5, iclr: 6, value: 7, gate: 8 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// A number between -128 and 127, pseudo-random in all arguments.
pub(crate) fn number(weight: Weight, row: usize, col: usize) -> f32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in format!("{weight}[{row},{col}]").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    f32::from((hash >> 32) as i8)
}

/// The numbers of a weight, row by row.
pub(crate) fn numbers(shape: &ModelShape, weight: Weight) -> Vec<f32> {
    let [rows, cols] = weight.shape(shape).map(|n| n as usize);
    (0..rows).flat_map(|row| (0..cols).map(move |col| number(weight, row, col))).collect()
}

/// A tensor to be written.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) format: Format,
    /// Slowest-varying first.
    pub(crate) dims: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Tensor {
    pub(crate) fn new(name: impl Into<String>, format: Format, dims: &[usize], numbers: &[f32]) -> Self {
        Tensor { name: name.into(), format, dims: dims.to_vec(), bytes: encode(format, numbers) }
    }
}

/// Bytes of numbers in a float format.
pub(crate) fn encode(format: Format, numbers: &[f32]) -> Vec<u8> {
    match format {
        Format::F32 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        Format::F16 => numbers.iter().flat_map(|&x| half::f16::from_f32(x).to_le_bytes()).collect(),
        Format::BF16 => numbers.iter().flat_map(|&x| half::bf16::from_f32(x).to_le_bytes()).collect(),
        _ => panic!("{format} is no float format"),
    }
}

/// The transpose of a matrix of `cols` columns.
pub(crate) fn transpose(numbers: &[f32], cols: usize) -> Vec<f32> {
    let rows = numbers.len() / cols;
    (0..cols).flat_map(|col| (0..rows).map(move |row| numbers[row * cols + col])).collect()
}

pub(crate) fn is_adapter(weight: LayerWeight) -> bool {
    weight.class() == wgoose_graph::WeightClass::Adapter
}

/// Tensors under the checkpoint's names, adapters in its orientation (`in_out`) or in web-rwkv's.
pub(crate) fn checkpoint(shape: &ModelShape, format: Format, in_out: bool) -> Vec<Tensor> {
    let c = shape.width as usize;
    let mut tensors = Vec::new();
    for weight in Weight::all(shape) {
        let numbers = numbers(shape, weight);
        let [rows, cols] = weight.shape(shape).map(|n| n as usize);
        let name = weight.to_string();
        match weight {
            Weight::Layer(i, LayerWeight::AttMix) => {
                for (mix, row) in ["r", "w", "k", "v", "a", "g"].into_iter().zip(numbers.chunks(c)) {
                    tensors.push(Tensor::new(format!("blocks.{i}.att.x_{mix}"), format, &[1, 1, c], row));
                }
            }
            Weight::Layer(_, LayerWeight::Bonus) => {
                let head = shape.head_size as usize;
                tensors.push(Tensor::new(name, format, &[c / head, head], &numbers));
            }
            Weight::Layer(_, w) if is_adapter(w) && in_out => {
                tensors.push(Tensor::new(name, format, &[cols, rows], &transpose(&numbers, cols)));
            }
            _ if rows == 1 => tensors.push(Tensor::new(name, format, &[cols], &numbers)),
            _ => tensors.push(Tensor::new(name, format, &[rows, cols], &numbers)),
        }
    }
    // Junk that no reader may look at.
    tensors.push(Tensor::new("blocks.0.att.v1", format, &[1, 2], &[0.0, 0.0]));
    tensors
}

/// Writes a file and opens it.
pub(crate) fn open(bytes: &[u8]) -> Result<Model, LoadError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    // The map outlives the file's name.
    Model::open(file.path()).map_err(LoadError::into_reason)
}

/// The tensor of that name, to be altered.
pub(crate) fn named<'a>(tensors: &'a mut [Tensor], name: &str) -> &'a mut Tensor {
    tensors.iter_mut().find(|t| t.name == name).unwrap()
}
