//! Embeddings: hidden states of texts, one row for a text or one for each token, without the output head.

mod groups;
mod head;
mod key;
mod options;

pub use head::END_OF_TEXT;
pub(crate) use head::HeadWeights;
pub use options::{EmbedOptions, Pooling};

use crate::prefix::{Beginning, Snapshot};
use crate::{Session, SessionError, grow};
use groups::groups;
use head::ended;
use key::key;
use std::sync::Arc;
use wgoose_graph::{Level, State};
use wgoose_runtime::{CancelToken, Engine, Outputs, RuntimeError, Sequence, StateData, check_tokens};

/// Bytes of states that texts read together may take on the device.
const STATES: usize = 512 << 20;

/// Fewest and most texts read together, whatever their states take.
const TOGETHER: [usize; 2] = [8, 64];

impl Session {
    /// The embedding of a text, a fresh sequence of its own: `[C]`, `[T, C]` for [`Pooling::Every`], or `[H, N, N]` for
    /// [`Pooling::State`]. What the session has read so far takes no part, and stays.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, a layer or a head that the model does not have, the device fails, or
    /// a number is not finite ([`SessionError::NotFinite`]): then nothing is kept.
    pub fn embed(&mut self, tokens: &[u32], options: &EmbedOptions) -> Result<Vec<f32>, SessionError> {
        Ok(self.embed_batch(&[tokens], options, &CancelToken::default())?.pop().unwrap_or_default())
    }

    /// The embeddings of texts, in their order; bit for bit those of single calls on the same device with the same
    /// plan. Texts are packed into passes without padding, as many as the token budget and room for states allow.
    ///
    /// # Errors
    /// As [`Session::embed`]; errors name a text by its index, and nothing has been run where one cannot be read.
    /// [`RuntimeError::Cancelled`] between two passes.
    pub fn embed_batch<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, SessionError> {
        match options.pooling {
            Pooling::Head(head) => {
                self.head(head, options.level)?;
                self.embed_whole(&ended(texts)?, options, cancel)
            }
            _ => self.embed_whole(texts, options, cancel),
        }
    }

    /// Embeds texts that have all their tokens.
    fn embed_whole<T: AsRef<[u32]>>(
        &mut self,
        texts: &[T],
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, SessionError> {
        let vocab = self.model.shape().vocab;
        if !options.prefix.is_empty() {
            check_tokens(0, &options.prefix, vocab).map_err(RuntimeError::from)?;
        }
        for (i, text) in texts.iter().enumerate() {
            check_tokens(i, text.as_ref(), vocab).map_err(RuntimeError::from)?;
        }
        let keys = self.embeddings.is_some().then(|| {
            let model = self.model.fingerprint();
            texts.iter().map(|text| key(&model, options, text.as_ref())).collect::<Vec<_>>()
        });
        let mut found: Vec<Option<Vec<f32>>> = vec![None; texts.len()];
        if let (Some(cache), Some(keys)) = (&self.embeddings, &keys) {
            let mut cache = cache.lock();
            found
                .iter_mut()
                .zip(keys)
                .for_each(|(found, key)| *found = cache.get(key).filter(|row| row.iter().all(|x| x.is_finite())));
        }
        let todo: Vec<usize> = (0..texts.len()).filter(|i| found[*i].is_none()).collect();
        let unread: Vec<&[u32]> = todo.iter().map(|i| texts[*i].as_ref()).collect();
        let embedded = self.embed_unread(&unread, options, cancel)?;
        for (i, embedding) in todo.into_iter().zip(embedded) {
            self.check_finite(&[&options.prefix[..], texts[i].as_ref()].concat(), &embedding)?;
            if let (Some(cache), Some(keys)) = (&self.embeddings, &keys) {
                // It stays in memory; a file that cannot be written costs no result.
                if let Err(why) = cache.lock().insert(keys[i], &embedding) {
                    tracing::warn!("an embedding is not kept: {why}");
                }
            }
            found[i] = Some(embedding);
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Embeddings of texts that are in no cache.
    fn embed_unread(
        &mut self,
        texts: &[&[u32]],
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, SessionError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let state_bytes = self.engine.state_bytes().max(1) as usize;
        let together = (STATES / state_bytes).clamp(TOGETHER[0], TOGETHER[1]).min(texts.len());
        let slots = grow(&mut self.engine, 1 + together)?;
        if slots > 1 {
            return self.embed_in(1, slots - 1, texts, options, cancel);
        }
        // There is room for one state: what the session has read waits until texts are done.
        let own = self.engine.state(0)?;
        let embedded = self.embed_in(0, 1, texts, options, cancel);
        self.engine.set_state(0, &own)?;
        embedded
    }

    /// Embeds in `slots` slots from `first` on.
    fn embed_in(
        &mut self,
        first: usize,
        slots: usize,
        texts: &[&[u32]],
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<f32>>, SessionError> {
        let begin = self.prefix_state(first, options, cancel)?;
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        // The engine divides a group into passes of its chunk, and does not wait between them.
        let budget = options.token_budget.map_or(usize::MAX, usize::from);
        let mut embeddings = Vec::with_capacity(texts.len());
        for group in groups(&lengths, budget, slots) {
            cancel.check()?;
            match &begin {
                None => self.engine.reset(first..first + group.len())?,
                Some(state) => (first..first + group.len()).try_for_each(|slot| self.engine.set_state(slot, state))?,
            }
            let outputs = match options.pooling {
                Pooling::Every => Outputs::All,
                Pooling::Last | Pooling::Mean | Pooling::Head(_) => Outputs::Last,
                Pooling::State => Outputs::None,
            };
            let texts = (first..).zip(&texts[group]);
            let sequences: Vec<_> = texts.map(|(slot, tokens)| Sequence { slot, tokens, outputs }).collect();
            embeddings.extend(pooled(&mut self.engine, &sequences, options, cancel)?);
        }
        if let Pooling::Head(head) = options.pooling {
            self.head(head, options.level)?.embed(&mut embeddings);
        }
        if options.normalise {
            let width = self.model.shape().width as usize;
            for embedding in &mut embeddings {
                let row = if options.pooling == Pooling::State { embedding.len() } else { width };
                embedding.chunks_mut(row).for_each(normalise);
            }
        }
        Ok(embeddings)
    }

    /// The state after the common prefix; `None` if there is none.
    fn prefix_state(
        &mut self,
        slot: usize,
        options: &EmbedOptions,
        cancel: &CancelToken,
    ) -> Result<Option<Arc<StateData>>, SessionError> {
        let prefix = &options.prefix[..];
        if prefix.is_empty() {
            return Ok(None);
        }
        let known = self.prefixes.as_ref().and_then(|kept| kept.cache.lock().exact(&Beginning::EMBEDDING, prefix));
        if known.is_some() {
            return Ok(known);
        }
        self.engine.reset(slot..slot + 1)?;
        self.engine.hidden(&[Sequence { slot, tokens: prefix, outputs: Outputs::None }], Level::Final, cancel)?;
        let state = Arc::new(self.engine.state(slot)?);
        if let Some(kept) = &self.prefixes {
            let snapshot = Snapshot { state: Arc::clone(&state), logits: None };
            kept.cache.lock().insert(Beginning::EMBEDDING, prefix, snapshot);
        }
        Ok(Some(state))
    }
}

/// Reads sequences, and takes from each what is asked for.
fn pooled(
    engine: &mut Engine,
    sequences: &[Sequence<'_>],
    options: &EmbedOptions,
    cancel: &CancelToken,
) -> Result<Vec<Vec<f32>>, RuntimeError> {
    match options.pooling {
        Pooling::Mean => engine.hidden_mean(sequences, options.level, cancel),
        Pooling::Last | Pooling::Every | Pooling::Head(_) => engine.hidden(sequences, options.level, cancel),
        Pooling::State => {
            engine.hidden(sequences, options.level, cancel)?;
            let layer = options.level.depth(engine.shape()) - 1;
            engine.state_tensors(&sequences.iter().map(|s| (s.slot, State::Wkv(layer))).collect::<Vec<_>>())
        }
    }
}

/// Divides a row by its length; a row of zeros stays.
fn normalise(row: &mut [f32]) {
    let length = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
    if length > 0.0 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}
