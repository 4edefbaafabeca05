//! Hidden states instead of logits: passes that end before the output head, which is neither computed nor uploaded.

use super::{Engine, Piece, append};
use crate::{BatchError, CancelToken, Outputs, RuntimeError, Sequence};
use std::ops::Range;
use wgoose_graph::{Level, Target};

impl Engine {
    /// Continues sequences; returns for each the hidden states asked for, `[outputs, C]` row major.
    ///
    /// On a GPU all passes take the kernels of a full one, so that a sequence has the same bits alone and in a batch; a
    /// pass never ends within a sequence because of the others. Layers above the level are not computed: unless it
    /// reaches the last layer, the states of the sequences are invalidated afterwards, and refused until they are set.
    ///
    /// # Errors
    /// A sequence that cannot be run or a layer that the model does not have (nothing has been run then);
    /// [`RuntimeError::Cancelled`] between two passes, or the device or the file fails: the states of the sequences are
    /// invalidated then.
    pub fn hidden(
        &mut self,
        sequences: &[Sequence<'_>],
        level: Level,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let mut rows = vec![Vec::new(); sequences.len()];
        self.read_whole(sequences, Target::Hidden(level), cancel, &mut |i, own| append(&mut rows[i], own))?;
        Ok(rows)
    }

    /// As [`Engine::hidden`], but for each sequence the mean over all its tokens, `[C]`, whatever its `outputs` say.
    /// Only this one row comes back from the device.
    ///
    /// # Errors
    /// As [`Engine::hidden`].
    pub fn hidden_mean(
        &mut self,
        sequences: &[Sequence<'_>],
        level: Level,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, RuntimeError> {
        let mut sums = vec![vec![0.0f64; self.shape().width as usize]; sequences.len()];
        self.read_whole(sequences, Target::HiddenSum(level), cancel, &mut |i, own| {
            sums[i].iter_mut().zip(own).for_each(|(sum, x)| *sum += f64::from(x));
        })?;
        let mean = |(sums, s): (Vec<f64>, &Sequence<'_>)| {
            sums.into_iter().map(|sum| (sum / s.tokens.len() as f64) as f32).collect()
        };
        Ok(sums.into_iter().zip(sequences).map(mean).collect())
    }

    /// Reads sequences in whole pieces. `on_rows` is given the result rows of each piece, with its sequence's index.
    fn read_whole(
        &mut self,
        sequences: &[Sequence<'_>],
        target: Target,
        cancel: &CancelToken,
        on_rows: &mut dyn FnMut(usize, Vec<f32>),
    ) -> Result<(), RuntimeError> {
        let shape = *self.shape();
        self.check(sequences)?;
        let depth = target.depth(&shape);
        if depth > shape.layers {
            return Err(BatchError::Layer { layer: depth - 1, layers: shape.layers }.into());
        }
        let passes: Vec<Vec<Piece<'_>>> = whole_pieces(&lengths(sequences), self.chunk)
            .into_iter()
            .map(|pass| pass.into_iter().map(|(i, range)| (i, piece(&sequences[i], range))).collect())
            .collect();
        let ran = self.run_each(sequences, &passes, target, false, &[], &mut |_| cancel.flow(), on_rows)?;
        let whole = ran.passes == passes.len();
        if depth < shape.layers || !whole {
            self.invalidated.extend(sequences.iter().map(|s| s.slot));
        }
        if whole { Ok(()) } else { Err(RuntimeError::Cancelled) }
    }
}

fn lengths(sequences: &[Sequence<'_>]) -> Vec<usize> {
    sequences.iter().map(|s| s.tokens.len()).collect()
}

/// A range of a sequence; the row after its last token is asked for where it is that of the sequence.
fn piece<'a>(whole: &Sequence<'a>, range: Range<usize>) -> Sequence<'a> {
    let outputs = match whole.outputs {
        Outputs::Last if range.end < whole.tokens.len() => Outputs::None,
        outputs => outputs,
    };
    Sequence { tokens: &whole.tokens[range], outputs, ..*whole }
}

/// Divides sequences of these lengths into passes of at most `chunk` tokens: each is cut at multiples of `chunk` from
/// its own beginning and nowhere else, so that its cuts do not depend on its neighbours.
fn whole_pieces(lengths: &[usize], chunk: usize) -> Vec<Vec<(usize, Range<usize>)>> {
    let mut passes = Vec::new();
    let (mut pass, mut room) = (Vec::new(), chunk);
    for (i, &len) in lengths.iter().enumerate() {
        for start in (0..len).step_by(chunk) {
            let piece = start..len.min(start + chunk);
            if piece.len() > room {
                passes.push(std::mem::take(&mut pass));
                room = chunk;
            }
            room -= piece.len();
            pass.push((i, piece));
        }
    }
    if !pass.is_empty() {
        passes.push(pass);
    }
    passes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_depend_on_nobody_else(lengths in prop::collection::vec(1usize..50, 0..12), chunk in 1usize..20) {
            let passes = whole_pieces(&lengths, chunk);
            for pass in &passes {
                prop_assert!(!pass.is_empty() && pass.iter().map(|(_, piece)| piece.len()).sum::<usize>() <= chunk);
                let distinct: std::collections::BTreeSet<usize> = pass.iter().map(|(i, _)| *i).collect();
                prop_assert_eq!(distinct.len(), pass.len(), "one piece of a sequence a pass");
            }
            let all: Vec<_> = passes.into_iter().flatten().collect();
            let alone = |(i, len): (usize, &usize)| {
                whole_pieces(&[*len], chunk).into_iter().flatten().map(move |(_, piece)| (i, piece)).collect::<Vec<_>>()
            };
            prop_assert_eq!(all, lengths.iter().enumerate().flat_map(alone).collect::<Vec<_>>());
        }
    }
}
