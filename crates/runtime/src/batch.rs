//! Batches: sequences packed one after another, never padded.

use crate::BatchError;
use wgoose_graph::{BatchShape, ModelShape, Target};
use wgoose_kernels::Segment;

/// Which of a sequence's rows are wanted: logits, or hidden states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None: only the state moves on.
    None,
    /// Those after the last token.
    Last,
    /// Those after every token.
    All,
}

impl Outputs {
    /// How many rows that is for so many tokens.
    pub(crate) const fn rows(self, tokens: usize) -> usize {
        match self {
            Outputs::None => 0,
            Outputs::Last => 1,
            Outputs::All => tokens,
        }
    }
}

/// Tokens that continue one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// Whose state it reads and updates.
    pub slot: usize,
    /// Token ids, at least one.
    pub tokens: &'a [u32],
    /// Which rows are wanted.
    pub outputs: Outputs,
}

/// Checks that a sequence can be read at all.
///
/// # Errors
/// It is empty, or has a token outside the vocabulary; `sequence` is its index in the error.
pub fn check_tokens(sequence: usize, tokens: &[u32], vocab: u32) -> Result<(), BatchError> {
    if tokens.is_empty() {
        return Err(BatchError::Empty(sequence));
    }
    match tokens.iter().position(|t| *t >= vocab) {
        Some(position) => Err(BatchError::Token { sequence, position, token: tokens[position], vocab }),
        None => Ok(()),
    }
}

/// Checks that sequences can be read together, in that many slots.
///
/// # Errors
/// An empty sequence, a token outside the vocabulary, a slot that does not exist or is named twice.
pub(crate) fn check_sequences(sequences: &[Sequence<'_>], vocab: u32, slots: usize) -> Result<(), BatchError> {
    for (i, s) in sequences.iter().enumerate() {
        check_tokens(i, s.tokens, vocab)?;
        if s.slot >= slots {
            return Err(BatchError::Slot { sequence: i, slot: s.slot, slots });
        }
        if let Some(other) = sequences[..i].iter().position(|o| o.slot == s.slot) {
            return Err(BatchError::SharedSlot(other, i));
        }
    }
    Ok(())
}

/// What one pass computes: the tables that the kernels read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids of all sequences.
    pub tokens: Vec<u32>,
    /// For each token, its segment.
    pub token_segments: Vec<u32>,
    /// The sequences' tokens and state slots.
    pub segments: Vec<Segment>,
    /// Token index of each requested output.
    pub outputs: Vec<u32>,
    /// What the pass ends in.
    pub target: Target,
    /// Whether its logits, of one sequence, stay where the model runs: [`Start::Kept`](crate::Start::Kept). Nothing
    /// comes back then.
    pub stays: bool,
}

/// What tells the recording of one pass from that of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PassShape {
    pub(crate) batch: BatchShape,
    pub(crate) target: Target,
}

impl From<BatchShape> for PassShape {
    /// A pass that ends in logits.
    fn from(batch: BatchShape) -> Self {
        PassShape { batch, target: Target::Logits }
    }
}

impl Batch {
    /// Packs sequences, for logits.
    ///
    /// # Errors
    /// An empty sequence, a token outside the vocabulary, a slot that does not exist or is named twice.
    pub fn pack(sequences: &[Sequence<'_>], vocab: u32, slots: usize) -> Result<Batch, BatchError> {
        check_sequences(sequences, vocab, slots)?;
        let (tokens, token_segments, segments, outputs) = (vec![], vec![], vec![], vec![]);
        let mut batch = Batch { tokens, token_segments, segments, outputs, target: Target::Logits, stays: false };
        for (i, s) in sequences.iter().enumerate() {
            let first = batch.tokens.len() as u32;
            let len = s.tokens.len() as u32;
            batch.segments.push(Segment::new(first, len, s.slot as u32));
            batch.tokens.extend(s.tokens);
            batch.token_segments.extend(std::iter::repeat_n(i as u32, s.tokens.len()));
            match s.outputs {
                Outputs::None => {}
                Outputs::Last => batch.outputs.push(first + len - 1),
                Outputs::All => batch.outputs.extend(first..first + len),
            }
        }
        Ok(batch)
    }

    /// The same sequences for another target.
    pub fn to(self, target: Target) -> Batch {
        Batch { target, ..self }
    }

    /// Rows of the result.
    pub(crate) fn rows(&self) -> usize {
        match self.target {
            Target::Logits | Target::Hidden(_) => self.outputs.len(),
            Target::HiddenSum(_) => self.segments.len(),
        }
    }

    /// Floats of the result.
    pub(crate) fn result_len(&self, model: &ModelShape) -> usize {
        self.rows() * self.target.cols(model) as usize
    }

    pub(crate) fn pass(&self) -> PassShape {
        PassShape { batch: self.shape(), target: self.target }
    }

    /// Its sizes.
    pub fn shape(&self) -> BatchShape {
        BatchShape {
            tokens: self.tokens.len() as u32,
            segments: self.segments.len() as u32,
            outputs: self.outputs.len() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_and_its_errors() {
        let seq = |slot, tokens, outputs| Sequence { slot, tokens, outputs };
        let batch = Batch::pack(&[seq(1, &[5, 6], Outputs::Last), seq(0, &[7], Outputs::All)], 8, 2).unwrap();
        assert_eq!(batch.segments, [Segment::new(0, 2, 1), Segment::new(2, 1, 0)]);
        assert_eq!((batch.token_segments, batch.outputs), (vec![0, 0, 1], vec![1, 2]));
        let one = |s: Sequence<'_>| Batch::pack(&[s], 8, 2).unwrap_err();
        assert_eq!(one(seq(0, &[], Outputs::All)), BatchError::Empty(0));
        assert!(matches!(one(seq(0, &[8], Outputs::All)), BatchError::Token { position: 0, .. }));
        assert!(matches!(one(seq(2, &[0], Outputs::All)), BatchError::Slot { .. }));
        let twice = [seq(0, &[1], Outputs::None), seq(0, &[1], Outputs::None)];
        assert_eq!(Batch::pack(&twice, 8, 2), Err(BatchError::SharedSlot(0, 1)));
    }
}
