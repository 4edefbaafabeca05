//! How to open a session.

use crate::embedding_cache::EmbeddingCache;
use crate::prefix::Prefixes;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::{ModelVocabularyError, VocabularyChoice};
use crate::{EmbeddingCacheOptions, PrefixOptions, Session, SessionError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::Duration;
use wgoose_kernels::plan::Fusions;
use wgoose_kernels::{Catalogue, DeviceFingerprint, Limits, Plan, PlanError, Precision, StateFormat};
use wgoose_loader::adapter::{AdapterSource, MergedAdapter, merge};
use wgoose_loader::{LoadError, Model, OpenOptions};
use wgoose_plans::{Chosen, ModelClass, Place, PlanChoice, PlanReport, Store, likely_fusions};
use wgoose_runtime::timeline::{Timeline, Track};
use wgoose_runtime::{
    AdapterSummary, Device, DeviceLimits, DeviceOptions, Engine, FoundAdapter, GpuExecutor, Graphs, Residency,
    RuntimeError,
};

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

/// What a session is made of.
struct Opened {
    model: Arc<Model>,
    tokenizer: Result<Tokenizer, ModelVocabularyError>,
    engine: Engine,
    device: Option<Arc<Device>>,
    plan: Option<PlanReport>,
}

/// What needs no device.
struct Prepared {
    model: Arc<Model>,
    tokenizer: Result<Tokenizer, ModelVocabularyError>,
    /// Those of the fusions of likely plans.
    graphs: Vec<(Fusions, Result<Graphs, RuntimeError>)>,
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
            chunk: None,
            catalogue: Catalogue::embedded(),
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

    /// Most tokens in one pass, instead of the plan's choice.
    pub fn chunk(mut self, chunk: Option<u32>) -> Self {
        self.chunk = chunk;
        self
    }

    /// The kernels, such as those that [`Catalogue::with_folder`] finds. Default: those of this program.
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

    /// The model in a file, as [`SessionBuilder::open`] opens it.
    ///
    /// # Errors
    /// What is wrong with the file, or with the adapter.
    pub fn open_file(&self, model: impl AsRef<Path>) -> Result<Arc<Model>, LoadError> {
        let options = OpenOptions { ignore_unknown: self.ignore_unknown, ..OpenOptions::default() };
        let mut model = Model::open_with(model, options)?;
        if let Some(adapter) = &self.adapter {
            let _span = self.timeline.span(Track::Map, "merge adapter");
            let merged = merge(&mut model, adapter)?;
            if let Some(tell) = self.on_adapter {
                tell(&merged);
            }
        }
        Ok(Arc::new(model))
    }

    /// Opens the model while the driver opens the device; weights reach the GPU on first use.
    ///
    /// # Errors
    /// The model file, the device, the plan, or the file of the embedding cache.
    pub fn open(self, model: impl AsRef<Path>) -> Result<Session, SessionError> {
        let path = model.as_ref();
        self.open_from(|| {
            let _span = self.timeline.span(Track::Map, "open model");
            Ok(self.open_file(path)?)
        })
    }

    /// As [`SessionBuilder::open`], for a model that is open already.
    ///
    /// # Errors
    /// The device, the plan, or the file of the embedding cache.
    pub fn open_model(self, model: Arc<Model>) -> Result<Session, SessionError> {
        self.open_from(|| Ok(model))
    }

    fn open_from(
        &self,
        model: impl FnOnce() -> Result<Arc<Model>, SessionError> + Send,
    ) -> Result<Session, SessionError> {
        let prefixes = self.prefixes.as_ref().map(Prefixes::new);
        let embeddings = self.embeddings.as_ref().map(EmbeddingCache::open).transpose()?;
        let embeddings = embeddings.map(|cache| Arc::new(Mutex::new(cache)));
        let Opened { model, tokenizer, engine, device, plan } = match self.backend {
            Backend::Cpu => self.open_on_cpu(model()?)?,
            Backend::Gpu => self.open_on_gpu(model)?,
        };
        Ok(Session { model, engine, device, plan, tokenizer, prefixes, embeddings, heads: HashMap::new() })
    }

    fn open_on_cpu(&self, model: Arc<Model>) -> Result<Opened, SessionError> {
        let engine = Engine::cpu(Arc::clone(&model), 1)?;
        let engine = match self.chunk {
            Some(chunk) => engine.with_chunk(chunk as usize),
            None => engine,
        };
        let tokenizer = self.tokenizer_of(&model)?;
        Ok(Opened { model, tokenizer, engine, device: None, plan: None })
    }

    /// Drivers take their time: other threads open the model, read its vocabulary, make the graphs of likely plans and
    /// choose the plan meanwhile. The device is opened on this thread, as drivers also take time to end a thread.
    fn open_on_gpu(
        &self,
        model: impl FnOnce() -> Result<Arc<Model>, SessionError> + Send,
    ) -> Result<Opened, SessionError> {
        let (prepared, chosen, device) = std::thread::scope(|scope| {
            let preparing = scope.spawn(|| self.prepare(model()?));
            let found = FoundAdapter::find(&self.device_options());
            let summary = found.as_ref().ok().map(|found| found.summary().clone());
            let choosing = scope.spawn(move || {
                let prepared = joined(preparing)?;
                let Some(AdapterSummary { fingerprint, limits, .. }) = summary else { return Ok((prepared, None)) };
                let _span = self.timeline.span(Track::Schedule, "choose plan");
                let chosen = self.choose(&fingerprint, &limits, &prepared.model)?;
                Ok::<_, SessionError>((prepared, Some((limits, chosen))))
            });
            let device = found.and_then(FoundAdapter::open);
            let (prepared, chosen) = joined(choosing)?;
            Ok::<_, SessionError>((prepared, chosen, device?))
        })?;
        let Prepared { model, tokenizer, graphs } = prepared;
        let Chosen { mut plan, report } = match chosen {
            Some((limits, chosen)) if limits == *device.limits() => chosen,
            // Some of what the adapter lists did not stand its check.
            _ => self.choose(device.fingerprint(), device.limits(), &model)?,
        };
        self.tell_plan(&report);
        plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk).clamp(1, 65535);
        let chunk = plan.prefill_chunk as usize;
        let made = graphs.into_iter().find(|(fusions, _)| *fusions == plan.fusions);
        let (on, of, catalogue) = (Arc::clone(&device), Arc::clone(&model), self.catalogue.clone());
        let mut executor = match made {
            Some((_, graphs)) => GpuExecutor::with_graphs(on, of, graphs?, plan, catalogue, 1)?,
            None => GpuExecutor::new(on, of, plan, catalogue, 1)?,
        };
        executor.compile_in_background();
        executor.set_residency(self.residency)?;
        executor.reserve()?;
        let engine = Engine::new(Box::new(executor), chunk);
        Ok(Opened { model, tokenizer, engine, device: Some(device), plan: Some(report) })
    }

    /// What a session needs beside its device.
    fn prepare(&self, model: Arc<Model>) -> Result<Prepared, SessionError> {
        let likely = match &self.plan {
            PlanChoice::File(path) => vec![Plan::load(path)?.fusions],
            PlanChoice::Default => vec![Plan::default_fusions(true)],
            PlanChoice::Find => likely_fusions(self.plan_store.as_ref(), &model_class(&model)),
        };
        let (graphs, tokenizer) = std::thread::scope(|scope| {
            let graphs_of = |fusions: Fusions| {
                let (model, timeline) = (&model, &self.timeline);
                scope.spawn(move || {
                    let graphs = Graphs::new(model.shape(), &fusions, timeline);
                    (fusions, graphs)
                })
            };
            let graphs: Vec<_> = likely.into_iter().map(graphs_of).collect();
            let tokenizer = {
                let _span = self.timeline.span(Track::Map, "read vocabulary");
                self.tokenizer_of(&model)
            };
            (graphs.into_iter().map(joined).collect(), tokenizer)
        });
        Ok(Prepared { tokenizer: tokenizer?, model, graphs })
    }

    /// As [`SessionBuilder::open_model`], of a model that differs from the one of an executor in formats only: on its
    /// device, with the weights that both have in common there once.
    ///
    /// # Errors
    /// The plan, or the device.
    pub(crate) fn open_beside(
        &self,
        device: &Arc<Device>,
        executor: &GpuExecutor,
        model: Arc<Model>,
    ) -> Result<Session, SessionError> {
        let Chosen { mut plan, report } = self.plan_for(device, &model)?;
        plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk).clamp(1, 65535);
        let chunk = plan.prefill_chunk as usize;
        let engine = Engine::new(Box::new(executor.sharing_with(Arc::clone(&model), plan, 1)?), chunk);
        let device = Some(Arc::clone(device));
        let tokenizer = self.tokenizer_of(&model)?;
        Ok(Session {
            model,
            engine,
            device,
            plan: Some(report),
            tokenizer,
            prefixes: None,
            embeddings: None,
            heads: HashMap::new(),
        })
    }

    /// The tokenizer of a model, or why it can only be given token ids.
    fn tokenizer_of(&self, model: &Model) -> Result<Result<Tokenizer, ModelVocabularyError>, SessionError> {
        match self.vocabulary.tokenizer(model) {
            Err(why) if self.vocabulary != VocabularyChoice::Find => Err(SessionError::GivenVocabulary(why)),
            found => Ok(found),
        }
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

    /// The plan that a session of that model on that device would run, and where it is from: a file's, checked; the
    /// best that is found; or the default.
    ///
    /// # Errors
    /// The file is no plan, or for another device, model or kernels. Whatever is wrong with plans that are found, the
    /// default stands in for them, and the report says so.
    pub fn plan_for(&self, device: &Device, model: &Model) -> Result<Chosen, SessionError> {
        self.plan_at(device.fingerprint(), device.limits(), model)
    }

    /// As [`SessionBuilder::plan_for`], for a device that is known but not open.
    ///
    /// # Errors
    /// As [`SessionBuilder::plan_for`].
    pub fn plan_at(&self, device: &DeviceFingerprint, limits: &Limits, model: &Model) -> Result<Chosen, SessionError> {
        let chosen = self.choose(device, limits, model)?;
        self.tell_plan(&chosen.report);
        Ok(chosen)
    }

    /// The same, without a word.
    fn choose(&self, device: &DeviceFingerprint, limits: &Limits, model: &Model) -> Result<Chosen, SessionError> {
        let class = model_class(model);
        let place = Place { device, limits, class: &class, catalogue: &self.catalogue };
        let Chosen { plan, report } = match &self.plan {
            PlanChoice::Find => place.find(self.plan_store.as_ref()),
            PlanChoice::Default => place.default_plan(true),
            PlanChoice::File(path) => place.in_file(self.plan_in(path, &place)?, path),
        };
        let plan = Plan { state: self.state.unwrap_or(plan.state), ..plan };
        let plan = match self.precision {
            Some(precision) => plan.at_most(precision, &self.catalogue),
            None => plan,
        };
        Ok(Chosen { plan, report })
    }

    fn tell_plan(&self, report: &PlanReport) {
        if let Some(tell) = self.on_plan {
            tell(report);
        }
    }

    fn plan_in(&self, path: &Path, place: &Place<'_>) -> Result<Plan, SessionError> {
        let plan = Plan::load(path)?;
        let named = |error: PlanError| error.in_file(path);
        match plan.check(place.device, place.class.shape(), &self.catalogue) {
            Err(PlanError::Device { what, plan: theirs, here }) if self.foreign_plan => {
                tracing::warn!("using a plan of another device ({what}: '{theirs}', here '{here}')");
                plan.check_kernels(place.class.shape(), &self.catalogue).map_err(named)?;
            }
            other => other.map_err(named)?,
        }
        Ok(plan)
    }
}

/// What a thread comes to, or its panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What plans know a model by: its sizes and formats.
pub fn model_class(model: &Model) -> ModelClass {
    ModelClass::of(model.shape(), |weight| model.tensor(weight).format())
}
