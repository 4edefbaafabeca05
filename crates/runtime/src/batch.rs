//! Batches: sequences packed one after another, never padded.

use crate::BatchError;
use wgoose_graph::BatchShape;

/// Which of a sequence's logits are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// None: only the state moves on.
    None,
    /// Those after the last token.
    Last,
    /// Those after every token.
    All,
}

/// Tokens that continue one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Sequence<'a> {
    /// Whose state it reads and updates.
    pub slot: usize,
    /// Token ids, at least one.
    pub tokens: &'a [u32],
    /// Which logits are wanted.
    pub outputs: Outputs,
}

/// What one pass computes: the tables that the kernels read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token ids of all sequences.
    pub tokens: Vec<u32>,
    /// For each token, its segment.
    pub token_segments: Vec<u32>,
    /// For each segment: first token, number of tokens, state slot, 0.
    pub segments: Vec<u32>,
    /// Token index of each requested output.
    pub outputs: Vec<u32>,
}

impl Batch {
    /// Packs sequences.
    ///
    /// # Errors
    /// An empty sequence, a token outside the vocabulary, a slot that does not exist or is named twice.
    pub fn pack(sequences: &[Sequence<'_>], vocab: u32, slots: usize) -> Result<Batch, BatchError> {
        let mut batch = Batch { tokens: vec![], token_segments: vec![], segments: vec![], outputs: vec![] };
        for (i, s) in sequences.iter().enumerate() {
            if s.tokens.is_empty() {
                return Err(BatchError::Empty(i));
            }
            if let Some(position) = s.tokens.iter().position(|t| *t >= vocab) {
                return Err(BatchError::Token { sequence: i, position, token: s.tokens[position], vocab });
            }
            if s.slot >= slots {
                return Err(BatchError::Slot { sequence: i, slot: s.slot, slots });
            }
            if let Some(other) = sequences[..i].iter().position(|o| o.slot == s.slot) {
                return Err(BatchError::SharedSlot(other, i));
            }
            let first = batch.tokens.len() as u32;
            let len = s.tokens.len() as u32;
            batch.segments.extend([first, len, s.slot as u32, 0]);
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

    /// Its sizes.
    pub fn shape(&self) -> BatchShape {
        BatchShape {
            tokens: self.tokens.len() as u32,
            segments: self.segments.len() as u32 / 4,
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
        assert_eq!(batch.segments, [0, 2, 1, 0, 2, 1, 0, 0]);
        assert_eq!((batch.token_segments, batch.outputs), (vec![0, 0, 1], vec![1, 2]));
        let one = |s: Sequence<'_>| Batch::pack(&[s], 8, 2).unwrap_err();
        assert_eq!(one(seq(0, &[], Outputs::All)), BatchError::Empty(0));
        assert!(matches!(one(seq(0, &[8], Outputs::All)), BatchError::Token { position: 0, .. }));
        assert!(matches!(one(seq(2, &[0], Outputs::All)), BatchError::Slot { .. }));
        let twice = [seq(0, &[1], Outputs::None), seq(0, &[1], Outputs::None)];
        assert_eq!(Batch::pack(&twice, 8, 2), Err(BatchError::SharedSlot(0, 1)));
    }
}
