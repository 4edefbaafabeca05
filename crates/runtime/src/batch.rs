//! Batches: sequences packed one after another. Only [`Batch::pad`] adds tokens that belong to none of them.

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

    /// Pads to the shape of [`Padded`]: with tokens 0 of segments that use `slot`, a state that nothing else uses, and
    /// with rows of the first token. The results of the sequences stay the same.
    ///
    /// The passes of a server all differ in their numbers of tokens and sequences, and each shape has to be recorded and
    /// bound. Padded passes have a few dozen shapes.
    pub(crate) fn pad(&mut self, slot: usize) {
        let Padded { tokens, segments, outputs } =
            Padded::new(self.tokens.len(), self.segments.len(), self.outputs.len());
        let added = segments - self.segments.len();
        for i in 0..added {
            let first = self.tokens.len();
            let len = (tokens - first) / (added - i);
            self.token_segments.extend(std::iter::repeat_n(self.segments.len() as u32, len));
            self.segments.push(Segment::new(first as u32, len as u32, slot as u32));
            self.tokens.resize(first + len, 0);
        }
        self.outputs.resize(outputs, 0);
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

/// The smallest bucket that holds `n`: 0, a power of two, or three quarters of one.
pub fn bucket(n: usize) -> usize {
    let above = n.next_power_of_two();
    match above / 4 * 3 {
        _ if n == 0 => 0,
        less if less >= n => less,
        _ => above,
    }
}

/// The shape of a padded pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padded {
    /// Tokens.
    pub tokens: usize,
    /// Segments.
    pub segments: usize,
    /// Rows of logits.
    pub outputs: usize,
}

impl Padded {
    /// The shape that holds these numbers of tokens, segments and rows of logits.
    ///
    /// A decode step has a [`bucket`] of sequences. In other passes the outputs are a power of two, the segments exceed
    /// them by 4, 16, 64 and so on, one at least of them padding, and each padding segment has a token at least.
    pub fn new(tokens: usize, segments: usize, outputs: usize) -> Self {
        if (tokens, segments) == (outputs, outputs) {
            let all = bucket(outputs);
            return Padded { tokens: all, segments: all, outputs: all };
        }
        let rows = if outputs == 0 { 0 } else { outputs.next_power_of_two() };
        let others = std::iter::successors(Some(4), |others| Some(4 * others));
        let all = others.map(|others| rows + others).find(|all| *all > segments).unwrap_or(segments + 1);
        Padded { tokens: bucket(tokens + all - segments), segments: all, outputs: rows }
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

    #[test]
    fn padding_fills_buckets_and_keeps_the_sequences() {
        let buckets: Vec<usize> = (0..20).map(bucket).collect();
        assert_eq!(buckets, [0, 1, 2, 3, 4, 6, 6, 8, 8, 12, 12, 12, 12, 16, 16, 16, 16, 24, 24, 24]);
        assert_eq!(Padded::new(5, 5, 5), Padded { tokens: 6, segments: 6, outputs: 6 });
        assert_eq!(Padded::new(120, 6, 5), Padded { tokens: 128, segments: 12, outputs: 8 });
        assert_eq!(Padded::new(4093, 1, 0), Padded { tokens: 4096, segments: 4, outputs: 0 });
        for lengths in [vec![1], vec![5], vec![1; 7], vec![1, 1, 9, 300], vec![4, 4], vec![1, 1, 1, 1, 94]] {
            let tokens: Vec<Vec<u32>> = lengths.iter().map(|len| vec![1; *len]).collect();
            let sequence = |(slot, tokens)| Sequence { slot, tokens, outputs: Outputs::Last };
            let sequences: Vec<Sequence<'_>> = tokens.iter().map(Vec::as_slice).enumerate().map(sequence).collect();
            let plain = Batch::pack(&sequences, 8, 8).unwrap();
            let mut batch = plain.clone();
            batch.pad(8);
            let shape = batch.shape();
            let padded = Padded::new(plain.tokens.len(), lengths.len(), lengths.len());
            assert_eq!((shape.tokens as usize, shape.segments as usize), (padded.tokens, padded.segments));
            assert_eq!(shape.outputs as usize, padded.outputs);
            assert!(batch.tokens.starts_with(&plain.tokens) && batch.segments.starts_with(&plain.segments));
            assert!(batch.outputs.starts_with(&plain.outputs));
            // The segments cover all tokens, in order.
            let mut end = 0;
            for (i, segment) in batch.segments.iter().enumerate() {
                assert!(segment.first == end && segment.len > 0, "{lengths:?}");
                end += segment.len;
                let own = &batch.token_segments[segment.first as usize..end as usize];
                assert!(own.iter().all(|of| *of == i as u32));
                assert!(i < lengths.len() || segment.slot == 8);
            }
            assert_eq!((end, batch.token_segments.len()), (shape.tokens, batch.tokens.len()));
        }
    }
}
