//! Masks of the sequences of a batch that have a grammar.

use super::turn::EndedSequence;
use super::{BatchEvent, SequenceId, SessionBatch};
use crate::grammar::{GrammarError, Matcher};
use rayon::prelude::*;

impl SessionBatch {
    /// Whether a sequence has a grammar.
    pub(super) fn has_grammar(&self, id: SequenceId) -> bool {
        self.sequences.get(&id).is_some_and(|sequence| sequence.matcher.is_some())
    }

    /// Computes the masks of those of the decoding sequences that have a grammar, in parallel. Sequences whose grammar
    /// cannot continue leave; returns the others.
    pub(super) fn compute_masks(
        &mut self,
        ended: &mut Vec<EndedSequence>,
        on_event: &mut dyn FnMut(BatchEvent),
    ) -> Vec<SequenceId> {
        let mut ids: Vec<SequenceId> = self.schedule.decoding().collect();
        let decoding = self.sequences.iter_mut().filter(|(id, _)| ids.contains(id));
        let mut matchers: Vec<(SequenceId, &mut Matcher)> =
            decoding.filter_map(|(id, sequence)| Some((*id, sequence.matcher.as_mut()?))).collect();
        let compute = |(id, matcher): &mut (SequenceId, &mut Matcher)| Some((*id, matcher.compute_mask().err()?));
        let failed: Vec<(SequenceId, GrammarError)> = match &mut matchers[..] {
            [one] => compute(one).into_iter().collect(),
            several => several.par_iter_mut().filter_map(compute).collect(),
        };
        for (id, why) in failed {
            ids.retain(|other| *other != id);
            if let Some(sequence) = self.sequences.remove(&id) {
                ended.push(EndedSequence::failed(id, sequence.slot));
                on_event(BatchEvent::Failed(id, why.into()));
            }
        }
        ids
    }
}
