//! The change that an adapter makes to one matrix.

use super::AdapterError;
use super::bat::{Bat, BlocksBy};
use super::lora::Lora;
use super::miss::Miss;
use super::names::Part;
use super::pissa::Pissa;
use std::collections::BTreeMap;
use wgoose_graph::Weight;

/// A tensor of an adapter file.
#[derive(Debug)]
pub(super) struct AdapterTensor {
    pub(super) name: String,
    pub(super) dims: Vec<usize>,
    pub(super) numbers: Vec<f32>,
}

/// What is added to one matrix, to be scaled.
#[derive(Debug)]
pub(super) enum Update {
    Lora(Lora),
    Pissa(Pissa),
    Miss(Miss),
    Bat(Bat),
}

/// The matrix that is changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matrix {
    pub(super) weight: Weight,
    pub(super) rows: usize,
    pub(super) cols: usize,
}

impl Update {
    /// The update that the tensors of one module make.
    pub(super) fn of(matrix: Matrix, mut parts: BTreeMap<Part, AdapterTensor>) -> Result<Self, AdapterError> {
        let block = [(Part::Shards, BlocksBy::Columns), (Part::ShardsByRows, BlocksBy::Rows)];
        if let Some((tensor, by)) = block.into_iter().find_map(|(part, by)| Some((parts.remove(&part)?, by))) {
            return match parts.into_values().next() {
                Some(other) => Err(AdapterError::Twice { weight: matrix.weight, tensor: other.name }),
                None => matrix.shards(tensor, by),
            };
        }
        let has_initial = [Part::InitialA, Part::InitialB].iter().any(|part| parts.contains_key(part));
        let mut take =
            |part, missing| parts.remove(&part).ok_or(AdapterError::Incomplete { weight: matrix.weight, missing });
        let learned = matrix.lora(take(Part::A, "lora_A")?, take(Part::B, "lora_B")?)?;
        if !has_initial {
            return Ok(Update::Lora(learned));
        }
        let initial = matrix.lora(take(Part::InitialA, "init_lora_A")?, take(Part::InitialB, "init_lora_B")?)?;
        Ok(Update::Pissa(Pissa { learned, initial }))
    }

    /// What it is called.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Update::Lora(_) => "LoRA",
            Update::Pissa(_) => "PiSSA",
            Update::Miss(_) => "MiSS",
            Update::Bat(_) => "Bat",
        }
    }

    /// Its rank; of Bat, the size of its blocks.
    pub(super) fn rank(&self) -> usize {
        match self {
            Update::Lora(lora) | Update::Pissa(Pissa { learned: lora, .. }) => lora.rank,
            Update::Miss(miss) => miss.rank,
            Update::Bat(bat) => bat.size,
        }
    }

    /// Adds `scale` times what row `row` of the matrix is given to that row.
    pub(super) fn add_to_row(&self, row: usize, scale: f32, weights: &mut [f32]) {
        match self {
            Update::Lora(lora) => lora.add_to_row(row, scale, weights),
            Update::Pissa(pissa) => pissa.add_to_row(row, scale, weights),
            Update::Miss(miss) => miss.add_to_row(row, scale, weights),
            Update::Bat(bat) => bat.add_to_row(row, scale, weights),
        }
    }
}

impl Matrix {
    /// A tensor does not fit.
    pub(super) fn misfit(self, tensor: AdapterTensor, expected: &'static str) -> AdapterError {
        let Matrix { weight, rows, cols } = self;
        AdapterError::Shape { tensor: tensor.name, dims: tensor.dims, weight, rows, cols, expected }
    }

    fn lora(self, a: AdapterTensor, b: AdapterTensor) -> Result<Lora, AdapterError> {
        let &[rank, cols] = &a.dims[..] else { return Err(self.misfit(a, "[rank, columns]")) };
        if cols != self.cols || rank == 0 {
            return Err(self.misfit(a, "[rank, columns]"));
        }
        if b.dims != [self.rows, rank] {
            return Err(self.misfit(b, "[rows, rank of lora_A]"));
        }
        Ok(Lora { rank, a: a.numbers, b: b.numbers })
    }

    fn shards(self, tensor: AdapterTensor, by: BlocksBy) -> Result<Update, AdapterError> {
        match tensor.dims[..] {
            [rank, rows] if rows == self.rows && (1..=self.cols).contains(&rank) => {
                Ok(Update::Miss(Miss { rank, block: tensor.numbers }))
            }
            [count, size, width] if size == width && size > 0 => {
                let (along, expected) = match by {
                    BlocksBy::Columns => (self.cols, "[columns / r, r, r], where r divides rows and columns"),
                    BlocksBy::Rows => (self.rows, "[rows / r, r, r], where r divides rows and columns"),
                };
                let fits = self.rows.is_multiple_of(size) && self.cols.is_multiple_of(size) && count == along / size;
                match fits {
                    true => Ok(Update::Bat(Bat { size, blocks: tensor.numbers, by })),
                    false => Err(self.misfit(tensor, expected)),
                }
            }
            _ => Err(self.misfit(tensor, "[rank, rows], or [n, r, r]")),
        }
    }
}
