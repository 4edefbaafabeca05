//! A session: one model on one device, one sequence going on.

use crate::tokenizer::{Tokenizer, VocabularyError};
use crate::{SessionBuilder, SessionError};
use std::sync::Arc;
use wgoose_kernels::DeviceFingerprint;
use wgoose_loader::Model;
use wgoose_runtime::{Device, Engine, LoadReport, Outputs, Sequence, StateData};

/// One model, one sequence.
pub struct Session {
    pub(crate) model: Arc<Model>,
    pub(crate) engine: Engine,
    /// None for the CPU reference.
    pub(crate) device: Option<Arc<Device>>,
    pub(crate) tokenizer: Result<Tokenizer, VocabularyError>,
}

impl Session {
    /// A builder with defaults: the most capable GPU, its default plan.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What loading has taken so far.
    pub fn load_report(&self) -> LoadReport {
        self.engine.report()
    }

    /// The device it runs on; `None` for the CPU reference.
    pub fn device(&self) -> Option<&DeviceFingerprint> {
        self.device.as_deref().map(Device::fingerprint)
    }

    /// The model's tokenizer.
    ///
    /// # Errors
    /// The vocabulary does not even cover the single bytes: the model can only be given token ids.
    pub fn tokenizer(&self) -> Result<&Tokenizer, SessionError> {
        self.tokenizer.as_ref().map_err(|why| SessionError::Vocabulary(why.clone()))
    }

    /// Reads tokens; returns the logits `[V]` after the last one.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, or the device fails.
    pub fn prefill(&mut self, tokens: &[u32]) -> Result<Vec<f32>, SessionError> {
        self.forward(tokens, Outputs::Last)
    }

    /// Reads tokens; returns the logits after each, `[T, V]` row major.
    ///
    /// # Errors
    /// No tokens, a token outside the vocabulary, or the device fails.
    pub fn logits(&mut self, tokens: &[u32]) -> Result<Vec<f32>, SessionError> {
        self.forward(tokens, Outputs::All)
    }

    /// Reads one token; returns the logits `[V]` after it.
    ///
    /// # Errors
    /// A token outside the vocabulary, or the device fails.
    pub fn decode(&mut self, token: u32) -> Result<Vec<f32>, SessionError> {
        self.forward(&[token], Outputs::Last)
    }

    fn forward(&mut self, tokens: &[u32], outputs: Outputs) -> Result<Vec<f32>, SessionError> {
        let mut logits = self.engine.forward(&[Sequence { slot: 0, tokens, outputs }])?;
        Ok(logits.pop().unwrap_or_default())
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
        Ok(self.engine.set_state(0, state)?)
    }

    /// Forgets everything read.
    ///
    /// # Errors
    /// The device fails.
    pub fn reset(&mut self) -> Result<(), SessionError> {
        let zero = StateData::zero(self.model.shape());
        self.set_state(&zero)
    }
}
