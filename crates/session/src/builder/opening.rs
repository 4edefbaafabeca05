//! How a session is opened: the driver opens the device while other threads prepare what needs none.

use super::{Backend, SessionBuilder, model_class};
use crate::embedding_cache::EmbeddingCache;
use crate::prefix::Prefixes;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::{ModelVocabularyError, VocabularyChoice};
use crate::{Session, SessionError};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::ScopedJoinHandle;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Fusions;
use wgoose_loader::adapter::merge;
use wgoose_loader::{LoadError, Model, OpenOptions};
use wgoose_plans::{Chosen, PlanChoice, PlanReport, likely_fusions};
use wgoose_runtime::timeline::Track;
use wgoose_runtime::{AdapterSummary, Device, Engine, FoundAdapter, GpuExecutor, Graphs, RuntimeError};

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

impl SessionBuilder {
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
        let (heads, grammars) = (HashMap::new(), OnceLock::new());
        Ok(Session { model, engine, device, plan, tokenizer, prefixes, embeddings, heads, grammars })
    }

    fn open_on_cpu(&self, model: Arc<Model>) -> Result<Opened, SessionError> {
        if self.invariant {
            return Err(SessionError::InvariantOnCpu);
        }
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
            grammars: OnceLock::new(),
        })
    }

    /// The tokenizer of a model, or why it can only be given token ids.
    fn tokenizer_of(&self, model: &Model) -> Result<Result<Tokenizer, ModelVocabularyError>, SessionError> {
        match self.vocabulary.tokenizer(model) {
            Err(why) if self.vocabulary != VocabularyChoice::Find => Err(SessionError::GivenVocabulary(why)),
            found => Ok(found),
        }
    }
}

/// What a thread comes to, or its panic.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
