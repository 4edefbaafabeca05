//! The options of a session: `opening` opens one with them, `plan` chooses what it runs.

mod opening;
mod plan;

use crate::vocabulary::VocabularyChoice;
use crate::{EmbeddingCacheOptions, PrefixOptions, Session};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use wgoose_kernels::{Catalogue, Plan, Precision, StateFormat};
use wgoose_loader::Model;
#[cfg(doc)]
use wgoose_loader::adapter::merge;
use wgoose_loader::adapter::{AdapterSource, MergedAdapter};
use wgoose_plans::{ModelClass, PlanChoice, PlanReport, Store, catalogue};
use wgoose_runtime::timeline::Timeline;
use wgoose_runtime::{Device, DeviceLimits, DeviceOptions, GpuExecutor, Residency, RuntimeError};

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
#[derive(Clone, Debug)]
pub struct SessionBuilder {
    backend: Backend,
    device: Option<String>,
    limits: DeviceLimits,
    plan: PlanChoice,
    plan_store: Option<Store>,
    on_plan: Option<fn(&PlanReport)>,
    foreign_plan: bool,
    precision: Option<Precision>,
    state: Option<StateFormat>,
    invariant: bool,
    chunk: Option<u32>,
    catalogue: Arc<Catalogue>,
    pipeline_cache: Option<PathBuf>,
    patience: Option<Duration>,
    timeline: Timeline,
    residency: Residency,
    prefixes: Option<PrefixOptions>,
    embeddings: Option<EmbeddingCacheOptions>,
    ignore_unknown: bool,
    vocabulary: VocabularyChoice,
    adapter: Option<AdapterSource>,
    on_adapter: Option<fn(&MergedAdapter)>,
}

impl Session {
    /// A builder with defaults: the most capable GPU, its default plan.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }
}

impl Default for SessionBuilder {
    fn default() -> Self {
        SessionBuilder {
            backend: Backend::default(),
            device: None,
            limits: DeviceLimits::Own,
            plan: PlanChoice::Default,
            plan_store: Store::of_user(),
            on_plan: None,
            foreign_plan: false,
            precision: None,
            state: None,
            invariant: false,
            chunk: None,
            catalogue: catalogue::embedded(),
            pipeline_cache: wgoose_files::default_cache_dir(),
            patience: None,
            timeline: Timeline::off(),
            residency: Residency::default(),
            prefixes: None,
            embeddings: None,
            ignore_unknown: false,
            vocabulary: VocabularyChoice::default(),
            adapter: None,
            on_adapter: None,
        }
    }
}

impl SessionBuilder {
    /// Runs on the CPU reference or on a GPU.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// The adapter, as [`DeviceOptions::adapter`] has it. Default: the most capable one.
    pub fn device(mut self, device: Option<String>) -> Self {
        self.device = device;
        self
    }

    /// What kernels may use of the device. Default: all that it has.
    pub fn limits(mut self, limits: DeviceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Which plan to run with. Default: [`PlanChoice::Default`], the one that every device has, so that what a program
    /// does depends on no file that it does not name. [`PlanChoice::Find`] is what `wgoose` does.
    pub fn plan(mut self, plan: PlanChoice) -> Self {
        self.plan = plan;
        self
    }

    /// The store that [`PlanChoice::Find`] looks into; `None`: only plans that ship are found. Default:
    /// [`Store::of_user`].
    pub fn plan_store(mut self, store: Option<Store>) -> Self {
        self.plan_store = store;
        self
    }

    /// Called with what there is to say of the plan, whenever one was chosen. Default: not.
    pub fn on_plan(mut self, tell: Option<fn(&PlanReport)>) -> Self {
        self.on_plan = tell;
        self
    }

    /// Uses a plan file made for another device, if its kernels run here.
    pub fn allow_foreign_plan(mut self, allow: bool) -> Self {
        self.foreign_plan = allow;
        self
    }

    /// Least precise arithmetic of kernels, instead of the plan's: what it has beyond that is left out.
    pub fn precision(mut self, precision: Option<Precision>) -> Self {
        self.precision = precision;
        self
    }

    /// How the device stores the WKV state, instead of the plan's choice; [`SessionBuilder::precision`] below f16 keeps
    /// it f32.
    pub fn state_format(mut self, format: Option<StateFormat>) -> Self {
        self.state = format;
        self
    }

    /// Computes identical bits for a sequence at every batch size, at every position in the batch, and however its
    /// tokens are split into passes; decode is slower: see [`Plan::batch_invariant`]. Needs a GPU. Default: off.
    pub fn batch_invariant(mut self, invariant: bool) -> Self {
        self.invariant = invariant;
        self
    }

    /// Most tokens in one pass, instead of the plan's choice.
    pub fn chunk(mut self, chunk: Option<u32>) -> Self {
        self.chunk = chunk;
        self
    }

    /// The kernels, such as those that [`catalogue::with_folder`] finds. Default: those of this program.
    pub fn catalogue(mut self, catalogue: Arc<Catalogue>) -> Self {
        self.catalogue = catalogue;
        self
    }

    /// The folder where compiled pipelines are kept; `None`: they are not. Default:
    /// [`wgoose_files::default_cache_dir`].
    pub fn pipeline_cache(mut self, folder: Option<PathBuf>) -> Self {
        self.pipeline_cache = folder;
        self
    }

    /// Longest wait for work that the device was given at once; past it a call fails. Default: as
    /// [`DeviceOptions::patience`] says.
    pub fn patience(mut self, patience: Option<Duration>) -> Self {
        self.patience = patience;
        self
    }

    /// Collects spans of opening and running. Default: off.
    pub fn timeline(mut self, timeline: Timeline) -> Self {
        self.timeline = timeline;
        self
    }

    /// When weights reach the device, and how long they stay. Default: on first use, for good.
    pub fn residency(mut self, residency: Residency) -> Self {
        self.residency = residency;
        self
    }

    /// Keeps states of prompts that were read, to start from: see [`PrefixOptions`]. Default: none.
    pub fn prefix_cache(mut self, options: Option<PrefixOptions>) -> Self {
        self.prefixes = options;
        self
    }

    /// Keeps embeddings: see [`EmbeddingCacheOptions`]. Default: none.
    pub fn embedding_cache(mut self, options: Option<EmbeddingCacheOptions>) -> Self {
        self.embeddings = options;
        self
    }

    /// Opens models without the tensors that no op reads, which is said as a warning. Default: such a file is refused.
    pub fn ignore_unknown(mut self, ignore: bool) -> Self {
        self.ignore_unknown = ignore;
        self
    }

    /// Where the vocabulary comes from. Default: the model's file, or the number of its tokens.
    pub fn vocabulary(mut self, choice: VocabularyChoice) -> Self {
        self.vocabulary = choice;
        self
    }

    /// Merges an adapter into models when they are opened: see [`merge`]. Default: none.
    pub fn adapter(mut self, adapter: Option<AdapterSource>) -> Self {
        self.adapter = adapter;
        self
    }

    /// Called with what was merged, whenever a model was opened with an adapter. Default: not.
    pub fn on_adapter(mut self, tell: Option<fn(&MergedAdapter)>) -> Self {
        self.on_adapter = tell;
        self
    }

    /// Where sessions run.
    pub(crate) fn runs_on(&self) -> Backend {
        self.backend
    }

    /// What runs a plan with `slots` sequences, its weights where this builder wants them.
    ///
    /// # Errors
    /// The plan does not fit the model, or the memory budget is too small.
    pub fn executor(
        &self,
        device: Arc<Device>,
        model: Arc<Model>,
        plan: Plan,
        slots: usize,
    ) -> Result<GpuExecutor, RuntimeError> {
        let mut executor = GpuExecutor::new(device, model, plan, self.catalogue.clone(), slots)?;
        executor.set_residency(self.residency)?;
        Ok(executor)
    }

    /// How a session's device is opened.
    pub fn device_options(&self) -> DeviceOptions {
        let (adapter, cache) = (self.device.clone(), self.pipeline_cache.clone());
        let (timeline, patience, limits) = (self.timeline.clone(), self.patience, self.limits);
        DeviceOptions { adapter, limits, cache, timeline, patience, ..DeviceOptions::default() }
    }
}

/// What plans know a model by: its sizes and formats.
pub fn model_class(model: &Model) -> ModelClass {
    ModelClass::of(model.shape(), |weight| model.tensor(weight).format())
}
