//! A session: one model on one device, one sequence going on.

use crate::SessionError;
use crate::tokenizer::{Tokenizer, VocabularyError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_graph::ModelShape;
use wgoose_kernels::{DeviceFingerprint, Plan, Sources};
use wgoose_loader::Model;
use wgoose_runtime::timeline::{Timeline, Track};
use wgoose_runtime::{Device, DeviceMemory, DeviceOptions, Engine, Outputs, Sequence, StateData};

/// Where a session runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// A GPU, with a plan.
    #[default]
    Gpu,
    /// The CPU reference: slow, the definition of right.
    Cpu,
}

/// How to open a session; every option has a default.
#[derive(Clone, Debug, Default)]
pub struct SessionBuilder {
    backend: Backend,
    device: Option<String>,
    plan: Option<PathBuf>,
    foreign_plan: bool,
    chunk: Option<u32>,
    sources: Sources,
    pipeline_cache: Option<PathBuf>,
    timeline: Timeline,
}

impl SessionBuilder {
    /// Runs on the CPU reference or on a GPU.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// The adapter: an index, or a part of its name. Default: the most capable one.
    pub fn device(mut self, device: Option<String>) -> Self {
        self.device = device;
        self
    }

    /// A plan made by the tuner. Default: the plan that every device has.
    pub fn plan(mut self, plan: Option<PathBuf>) -> Self {
        self.plan = plan;
        self
    }

    /// Uses a plan made for another device, if its kernels run here.
    pub fn allow_foreign_plan(mut self, allow: bool) -> Self {
        self.foreign_plan = allow;
        self
    }

    /// Most tokens in one pass, instead of the plan's choice.
    pub fn chunk(mut self, chunk: Option<u32>) -> Self {
        self.chunk = chunk;
        self
    }

    /// Reads kernels from a folder laid out like `kernels-wgsl/` instead of the binary.
    pub fn kernels(mut self, folder: Option<PathBuf>) -> Self {
        self.sources = folder.map_or(Sources::Embedded, Sources::Folder);
        self
    }

    /// Keeps compiled pipelines in a folder, made if it is not there. Default: they are not kept.
    pub fn pipeline_cache(mut self, folder: Option<PathBuf>) -> Self {
        self.pipeline_cache = folder;
        self
    }

    /// Collects spans of opening and running. Default: off.
    pub fn timeline(mut self, timeline: Timeline) -> Self {
        self.timeline = timeline;
        self
    }

    /// Opens the model; weights reach the GPU on first use.
    ///
    /// # Errors
    /// The model file, the device or the plan.
    pub fn open(self, model: impl AsRef<Path>) -> Result<Session, SessionError> {
        let model = {
            let _span = self.timeline.span(Track::Map, "open model");
            Arc::new(Model::open(model)?)
        };
        self.open_model(model)
    }

    /// As [`SessionBuilder::open`], for a model that is open already.
    ///
    /// # Errors
    /// The device or the plan.
    pub fn open_model(self, model: Arc<Model>) -> Result<Session, SessionError> {
        let (engine, device) = match self.backend {
            Backend::Cpu => {
                let engine = Engine::cpu(Arc::clone(&model), 1)?;
                let engine = match self.chunk {
                    Some(chunk) => engine.with_chunk(chunk as usize),
                    None => engine,
                };
                (engine, None)
            }
            Backend::Gpu => {
                let device = Device::open_with(&DeviceOptions {
                    adapter: self.device.clone(),
                    cache: self.pipeline_cache.clone(),
                    timeline: self.timeline.clone(),
                    ..DeviceOptions::default()
                })?;
                let mut plan = self.plan_for(&device, model.shape())?;
                plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk).clamp(1, 65535);
                (Engine::gpu(Arc::clone(&device), Arc::clone(&model), plan, self.sources, 1)?, Some(device))
            }
        };
        let tokenizer = tokenizer_of(&model);
        Ok(Session { model, engine, device, tokenizer })
    }

    /// The plan that a session on that device would run: the file's, checked, or the default.
    ///
    /// # Errors
    /// The file is no plan, or for another device, model or kernels.
    pub fn plan_for(&self, device: &Device, shape: &ModelShape) -> Result<Plan, SessionError> {
        let Some(path) = &self.plan else { return Ok(Plan::default_for(device.fingerprint().clone(), *shape)) };
        let plan = Plan::load(path)?;
        match plan.check(device.fingerprint(), shape, &self.sources) {
            Err(wgoose_kernels::PlanError::Device { what, plan: theirs, here }) if self.foreign_plan => {
                tracing::warn!("using a plan of another device ({what}: '{theirs}', here '{here}')");
                plan.check_kernels(shape, &self.sources)?;
            }
            other => other?,
        }
        Ok(plan)
    }
}

/// The vocabulary in the file; without one, as much of the World vocabulary as the model has rows. An error if that does
/// not even cover the single bytes: such a model can only be given token ids.
fn tokenizer_of(model: &Model) -> Result<Tokenizer, VocabularyError> {
    match model.vocabulary() {
        Some(vocabulary) => Tokenizer::from_vocabulary(&vocabulary),
        None => Tokenizer::world().truncated(model.shape().vocab as usize),
    }
}

/// One model, one sequence.
pub struct Session {
    model: Arc<Model>,
    engine: Engine,
    /// None for the CPU reference.
    device: Option<Arc<Device>>,
    tokenizer: Result<Tokenizer, VocabularyError>,
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

    /// Bytes of weights on the device so far.
    pub fn uploaded(&self) -> u64 {
        self.engine.uploaded()
    }

    /// The device it runs on; `None` for the CPU reference.
    pub fn device(&self) -> Option<&DeviceFingerprint> {
        self.device.as_deref().map(Device::fingerprint)
    }

    /// Memory of the device that this process holds now; `None` where the backend does not say.
    pub fn device_memory(&self) -> Option<DeviceMemory> {
        self.device.as_deref().and_then(Device::memory)
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
