//! Prompts, read from the longest prefix that the cache knows.

use crate::prefix::{Beginning, History, Prefixes, Snapshot};
use crate::{Session, SessionError};
use std::sync::Arc;
use wgoose_runtime::{OnPass, Outputs, Sequence};

/// How far a prompt was read.
pub(crate) enum Read {
    /// To its end; the logits after its last token, unless they stay on the device.
    All(Option<Vec<f32>>),
    /// So many tokens of it.
    Part(usize),
}

impl Session {
    /// The state is that of a beginning.
    pub(crate) fn begin(&mut self, beginning: impl FnOnce() -> Beginning) {
        if let Some(kept) = &mut self.prefixes {
            kept.history = History::since(beginning());
        }
    }

    /// These tokens were read, or something went wrong on the way.
    pub(crate) fn note(&mut self, went_well: bool, tokens: &[u32]) {
        match &mut self.prefixes {
            Some(kept) if went_well => kept.history.tokens.extend_from_slice(tokens),
            Some(kept) => kept.history.lose(),
            None => {}
        }
    }

    /// Reads a prompt, which `on_pass` may end between passes: it is told how many of its tokens are read. The last
    /// logits may stay on the device; the prefix cache wants to see them.
    pub(crate) fn read_prompt(
        &mut self,
        prompt: &[u32],
        may_stay: bool,
        on_pass: OnPass<'_>,
    ) -> Result<Read, SessionError> {
        let Some(Prefixes { cache, history: History { beginning: Some(beginning), tokens: read }, every }) =
            &self.prefixes
        else {
            return self.read_in_passes(prompt, may_stay, on_pass);
        };
        let vocab = self.model.shape().vocab;
        wgoose_runtime::check_tokens(0, prompt, vocab).map_err(wgoose_runtime::RuntimeError::from)?;
        let (beginning, every, whole) = (*beginning, *every, [&read[..], prompt].concat());
        let found = cache.lock().longest(&beginning, &whole, read.len(), true);
        let known = read.len();
        let mut at = known;
        if let Some((len, snapshot)) = found {
            self.engine.set_state(0, &snapshot.state)?;
            if let Some(kept) = &mut self.prefixes {
                kept.history.tokens = whole[..len].to_vec();
            }
            if let Some(logits) = snapshot.logits.filter(|_| len == whole.len()) {
                return Ok(Read::All(Some(logits.to_vec())));
            }
            at = len;
        }
        // Between snapshots lie whole passes, so that they cut the text where it is cut without them.
        let every = every.and_then(|every| every.checked_next_multiple_of(self.engine.chunk()));
        let after = |at: usize| every.and_then(|every| (at / every + 1).checked_mul(every));
        while let Some(next) = after(at).filter(|next| *next < whole.len()) {
            self.forward(&whole[at..next], Outputs::None)?;
            self.keep_state(None)?;
            at = next;
            if on_pass(at - known).is_break() {
                return Ok(Read::Part(at - known));
            }
        }
        let before = at - known;
        match self.read_in_passes(&whole[at..], false, &mut |tokens| on_pass(before + tokens))? {
            Read::All(logits) => {
                self.keep_state(logits.as_deref())?;
                Ok(Read::All(logits))
            }
            Read::Part(tokens) => Ok(Read::Part(before + tokens)),
        }
    }

    /// Reads tokens, which `on_pass` may end between passes.
    fn read_in_passes(&mut self, tokens: &[u32], may_stay: bool, on_pass: OnPass<'_>) -> Result<Read, SessionError> {
        let read = match may_stay {
            true => self.engine.read(0, tokens, on_pass).map(|read| (None, read)),
            false => {
                let sequence = Sequence { slot: 0, tokens, outputs: Outputs::Last };
                self.engine.forward_part(sequence, on_pass).map(|(logits, read)| (Some(logits), read))
            }
        };
        let all = read.as_ref().map_or(tokens, |(_, read)| &tokens[..*read]);
        self.after(all, read.as_ref().map(drop));
        let (logits, read) = read?;
        Ok(if read == tokens.len() { Read::All(logits) } else { Read::Part(read) })
    }

    /// Keeps a copy of the state in the prefix cache, if there is one, with the logits after the last token.
    pub(crate) fn keep_state(&mut self, logits: Option<&[f32]>) -> Result<(), SessionError> {
        let Some(kept) = self.prefixes.as_ref() else { return Ok(()) };
        let History { beginning: Some(beginning), tokens } = &kept.history else { return Ok(()) };
        let state = Arc::new(self.engine.state(0)?);
        kept.cache.lock().insert(*beginning, tokens, Snapshot { state, logits: logits.map(Arc::from) });
        Ok(())
    }
}
