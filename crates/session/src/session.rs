//! A session: one model on one device, one sequence going on.

use crate::embed::HeadWeights;
use crate::embedding_cache::EmbeddingCache;
use crate::grammar::GrammarCompiler;
use crate::prefix::{Beginning, Prefixes};
use crate::state_file::StateKind;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::ModelVocabularyError;
use crate::{
    ChatTurn, EmbeddingCacheOptions, EmbeddingCacheStats, PrefixStats, SessionError, initial_state, state_file,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use wgoose_kernels::DeviceFingerprint;
use wgoose_loader::{EmbeddingHead, Model};
use wgoose_plans::PlanReport;
use wgoose_runtime::{Device, Engine, LoadReport, Outputs, RuntimeError, Sequence, StateData, Traced};

/// One model, one sequence.
pub struct Session {
    pub(crate) model: Arc<Model>,
    pub(crate) engine: Engine,
    /// None for the CPU reference.
    pub(crate) device: Option<Arc<Device>>,
    /// What is to be said of the plan. None for the CPU reference.
    pub(crate) plan: Option<PlanReport>,
    pub(crate) tokenizer: Result<Tokenizer, ModelVocabularyError>,
    /// The prefix cache, if there is one.
    pub(crate) prefixes: Option<Prefixes>,
    /// The embedding cache, if there is one.
    pub(crate) embeddings: Option<Arc<Mutex<EmbeddingCache>>>,
    /// The embedding heads that were used.
    pub(crate) heads: HashMap<EmbeddingHead, Arc<HeadWeights>>,
    /// The compiler of grammars, once it was asked for.
    pub(crate) grammars: OnceLock<Arc<GrammarCompiler>>,
}

impl Session {
    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Most tokens in one pass: texts of so many and more are read in several.
    pub fn chunk(&self) -> usize {
        self.engine.chunk()
    }

    /// What loading has taken so far.
    pub fn load_report(&self) -> LoadReport {
        self.engine.report()
    }

    /// The device it runs on; `None` for the CPU reference.
    pub fn device(&self) -> Option<&DeviceFingerprint> {
        self.device.as_deref().map(Device::fingerprint)
    }

    /// Whether a CPU plays the device, or it runs on the CPU reference.
    pub fn is_on_cpu(&self) -> bool {
        self.device.as_deref().is_none_or(Device::is_cpu)
    }

    /// Which plan it runs with, and what is to be known of it; `None` for the CPU reference.
    pub fn plan(&self) -> Option<&PlanReport> {
        self.plan.as_ref()
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// The vocabulary does not even cover the single bytes: the model can only be given token ids.
    pub fn tokenizer(&self) -> Result<&Tokenizer, SessionError> {
        self.tokenizer.as_ref().map_err(|why| SessionError::Vocabulary(why.clone()))
    }

    /// The compiler of grammars for this model.
    ///
    /// # Errors
    /// As of [`Session::tokenizer`].
    pub fn grammars(&self) -> Result<&Arc<GrammarCompiler>, SessionError> {
        let tokenizer = self.tokenizer()?;
        let rows = self.model.shape().vocab as usize;
        Ok(self.grammars.get_or_init(|| Arc::new(GrammarCompiler::new(tokenizer.clone(), rows))))
    }

    /// Reads tokens; returns the logits `[V]` after the last one.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, the device fails, or a logit is not finite
    /// ([`SessionError::NotFinite`]).
    pub fn prefill(&mut self, tokens: &[u32]) -> Result<Vec<f32>, SessionError> {
        self.finite(tokens, Outputs::Last)
    }

    /// Reads tokens; returns the logits after each, `[T, V]` row major.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, the device fails, or a logit is not finite
    /// ([`SessionError::NotFinite`]).
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, SessionError> {
        self.finite(tokens, Outputs::All)
    }

    /// Reads one token; returns the logits `[V]` after it.
    ///
    /// # Errors
    /// A token outside the vocabulary, or the device fails.
    pub fn decode(&mut self, token: u32) -> Result<Vec<f32>, SessionError> {
        self.finite(&[token], Outputs::Last)
    }

    /// Reads tokens as [`Session::prefill`] does, op by op, slowly; `on_value` is shown what every op makes, in the
    /// order in which they run. Which ops there are depends on the plan's fusions: `wgoose dev graph` prints them, and
    /// the CPU reference has them all. A break ends it after the pass at hand: unless that is the last, no logits are
    /// returned, and the state is refused until it is set or reset.
    ///
    /// # Errors
    /// As [`Session::prefill`]; or the weights do not all fit on the device, within its memory budget.
    pub fn trace(
        &mut self,
        tokens: &[u32],
        on_value: &mut dyn FnMut(&Traced<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<f32>, SessionError> {
        let read = self.engine.trace(&[Sequence { slot: 0, tokens, outputs: Outputs::Last }], on_value);
        self.after(tokens, read.as_ref().map(drop));
        Ok(read?.pop().unwrap_or_default())
    }

    fn finite(&mut self, tokens: &[u32], outputs: Outputs) -> Result<Vec<f32>, SessionError> {
        let logits = self.forward(tokens, outputs)?;
        self.check_finite(tokens, &logits)?;
        Ok(logits)
    }

    pub(crate) fn forward(&mut self, tokens: &[u32], outputs: Outputs) -> Result<Vec<f32>, SessionError> {
        let read = self.engine.forward(&[Sequence { slot: 0, tokens, outputs }]);
        self.after(tokens, read.as_ref().map(drop));
        Ok(read?.pop().unwrap_or_default())
    }

    /// Passes over these tokens have ended so.
    pub(crate) fn after(&mut self, tokens: &[u32], read: Result<(), &RuntimeError>) {
        // Where it was refused, nothing was read.
        if !matches!(read, Err(RuntimeError::Batch(_) | RuntimeError::Streamed)) {
            self.note(read.is_ok(), tokens);
        }
    }

    /// Reads tokens; returns the state after them, which is on its way back while the last of them are read. No logits
    /// are computed: for the state alone, this is faster than [`Session::prefill`] and [`Session::state`].
    ///
    /// # Errors
    /// As [`Session::prefill`].
    pub fn state_after(&mut self, tokens: &[u32]) -> Result<StateData, SessionError> {
        let read = self.engine.state_after(0, tokens);
        self.after(tokens, read.as_ref().map(drop));
        Ok(read?)
    }

    /// Copies the state out.
    ///
    /// # Errors
    /// The device fails.
    pub fn state(&mut self) -> Result<StateData, SessionError> {
        Ok(self.engine.state(0)?)
    }

    /// Overwrites the state.
    ///
    /// # Errors
    /// The state is not of this model, or the device fails.
    pub fn set_state(&mut self, state: &StateData) -> Result<(), SessionError> {
        self.engine.set_state(0, state)?;
        self.begin(|| Beginning::of(state));
        Ok(())
    }

    /// Writes the state to a file, atomically, with the fingerprint of the model.
    ///
    /// # Errors
    /// The device fails, or the folder cannot be written.
    pub fn save_state(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.save_chat(path.as_ref(), &[])
    }

    /// As [`Session::save_state`], with the turns of a chat.
    pub(crate) fn save_chat(&mut self, path: &Path, turns: &[ChatTurn]) -> Result<(), SessionError> {
        let state = self.state()?;
        state_file::save_chat(path, &state, self.model.shape(), &self.model.fingerprint().to_string(), turns)
    }

    /// Reads the state from a file: one that [`Session::save_state`] wrote, or a tuned initial state
    /// ([`initial_state`]). Which of them it is, its tensors tell.
    ///
    /// # Errors
    /// The file is neither, it is of another model ([`SessionError::OtherModel`] where it says so), or the device
    /// fails; the state then stays as it was.
    pub fn load_state(&mut self, path: impl AsRef<Path>) -> Result<(), SessionError> {
        self.load(path.as_ref()).map(drop)
    }

    /// As [`Session::load_state`]; returns which of the two files it was, and the turns of a chat.
    pub(crate) fn load(&mut self, path: &Path) -> Result<(StateKind, Vec<ChatTurn>), SessionError> {
        let kind = state_file::kind(path)?;
        let (state, turns) = match kind {
            StateKind::Initial => (initial_state::load(path, self.model.shape())?, Vec::new()),
            StateKind::Saved => state_file::load_chat(path, self.model.shape(), &self.model.fingerprint().to_string())?,
        };
        self.set_state(&state)?;
        Ok((kind, turns))
    }

    /// Another session that continues from this one's state, with the same weights, kernels and caches. The two
    /// sessions are independent afterwards.
    ///
    /// # Errors
    /// The device fails or has no memory left: a fork has its own state and activations, beside any memory budget.
    pub fn fork(&mut self) -> Result<Session, SessionError> {
        let state = self.engine.state(0)?;
        let mut engine = self.engine.fork()?;
        engine.set_state(0, &state)?;
        Ok(Session {
            model: Arc::clone(&self.model),
            engine,
            device: self.device.clone(),
            plan: self.plan.clone(),
            tokenizer: self.tokenizer.clone(),
            prefixes: self.prefixes.clone(),
            embeddings: self.embeddings.clone(),
            heads: self.heads.clone(),
            grammars: self.grammars.clone(),
        })
    }

    /// What the prefix cache has done; `None` without one.
    pub fn prefix_stats(&self) -> Option<PrefixStats> {
        self.prefixes.as_ref().map(|kept| kept.cache.lock().stats())
    }

    /// Keeps embeddings from now on, as [`SessionBuilder::embedding_cache`](crate::SessionBuilder::embedding_cache)
    /// does, instead of where they were kept.
    ///
    /// # Errors
    /// The file cannot be opened or made, or it is open already.
    pub fn keep_embeddings(&mut self, options: &EmbeddingCacheOptions) -> Result<(), SessionError> {
        self.embeddings = Some(Arc::new(Mutex::new(EmbeddingCache::open(options)?)));
        Ok(())
    }

    /// What the embedding cache has done; `None` without one.
    pub fn embedding_stats(&self) -> Option<EmbeddingCacheStats> {
        self.embeddings.as_ref().map(|cache| cache.lock().stats())
    }

    /// Forgets everything read.
    ///
    /// # Errors
    /// The device fails.
    pub fn reset(&mut self) -> Result<(), SessionError> {
        self.engine.reset(0..1)?;
        self.begin(|| Beginning::ZERO);
        Ok(())
    }
}
