//! Options that several verbs share.

use crate::Failure;
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_kernels::{Plan, Sources};
use wgoose_loader::Model;
use wgoose_runtime::{Device, Engine, GpuExecutor, default_cache_dir};
use wgoose_session::{Backend, Session, SessionBuilder};

/// Where a model runs, and how.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// Where to run: the GPU, or the slow CPU reference that defines what is right.
    #[arg(long, value_enum, default_value_t = BackendName::Gpu)]
    pub(crate) backend: BackendName,
    /// Adapter: an index of `wgoose devices`, or a part of its name.
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// Plan made by `wgoose tune`; without one, the device's default.
    #[arg(long)]
    pub(crate) plan: Option<PathBuf>,
    /// Accept a plan made on another device.
    #[arg(long)]
    pub(crate) foreign_plan: bool,
    /// Most tokens in one pass when a prompt is read, instead of the plan's choice.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub(crate) chunk: Option<u32>,
    /// Read kernels from this folder (laid out like kernels-wgsl/) instead of the binary.
    #[arg(long, value_parser = folder)]
    pub(crate) kernels: Option<PathBuf>,
    #[command(flatten)]
    cache: CacheOptions,
}

/// Where compiled kernels are kept.
#[derive(Args)]
pub(crate) struct CacheOptions {
    /// Keep compiled kernels in this folder; default: $WGOOSE_CACHE_DIR, else the user's cache folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache_dir: Option<PathBuf>,
    /// Compile every kernel anew, and keep none.
    #[arg(long)]
    no_cache: bool,
}

impl CacheOptions {
    /// The folder; `None` if nothing is to be kept.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        if self.no_cache { None } else { self.cache_dir.clone().or_else(default_cache_dir) }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BackendName {
    Gpu,
    Cpu,
}

/// A folder that exists: files it lacks are taken from the binary, so that a misspelt one would go unnoticed.
pub(crate) fn folder(path: &str) -> Result<PathBuf, String> {
    if Path::new(path).is_dir() { Ok(path.into()) } else { Err("no such folder".into()) }
}

impl RunOptions {
    pub(crate) fn session(&self) -> SessionBuilder {
        let backend = match self.backend {
            BackendName::Gpu => Backend::Gpu,
            BackendName::Cpu => Backend::Cpu,
        };
        Session::builder()
            .backend(backend)
            .device(self.device.clone())
            .plan(self.plan.clone())
            .allow_foreign_plan(self.foreign_plan)
            .chunk(self.chunk)
            .kernels(self.kernels.clone())
            .pipeline_cache(self.cache.folder())
    }

    pub(crate) fn sources(&self) -> Sources {
        self.kernels.clone().map_or(Sources::Embedded, Sources::Folder)
    }

    /// The executor itself, for verbs that look inside.
    pub(crate) fn executor(&self, model: &Path, slots: usize) -> Result<GpuExecutor, Failure> {
        if let BackendName::Cpu = self.backend {
            return Err("the CPU reference has no dispatches: leave out --backend cpu".into());
        }
        let model = Arc::new(Model::open(model)?);
        let device = Device::open_with(&self.session().device_options())?;
        let mut plan = self.session().plan_for(&device, model.shape())?;
        plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk);
        Ok(GpuExecutor::new(device, model, plan, self.sources(), slots)?)
    }

    /// The engine that a session would run on, with that many sequences, and what it is.
    pub(crate) fn engine(&self, model: &Path, slots: usize) -> Result<Configured, Failure> {
        if let BackendName::Cpu = self.backend {
            let engine = Engine::cpu(Arc::new(Model::open(model)?), slots)?;
            return Ok(Configured { engine, plan: None, device: "CPU reference".to_owned() });
        }
        let executor = self.executor(model, slots)?;
        let (plan, device) = (executor.plan().clone(), executor.device().fingerprint());
        let device = format!("{}, {}", device.adapter, device.driver);
        let engine = Engine::new(Box::new(executor), plan.prefill_chunk as usize);
        Ok(Configured { engine, plan: Some(plan), device })
    }
}

/// An engine and what it is.
pub(crate) struct Configured {
    pub(crate) engine: Engine,
    /// None for the CPU reference.
    pub(crate) plan: Option<Plan>,
    /// Adapter and driver.
    pub(crate) device: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    #[test]
    fn pipelines_are_kept_where_and_only_if_wanted() {
        let cache = |args: &str| {
            let line = format!("wgoose {args}");
            Line::parse_from(line.split_whitespace()).options.session().device_options().cache
        };
        assert_eq!(cache(""), default_cache_dir());
        assert!(default_cache_dir().is_some());
        assert_eq!(cache("--cache-dir mine"), Some("mine".into()));
        assert_eq!(cache("--no-cache"), None);
    }
}
