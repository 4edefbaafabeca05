//! Compiled kernels, each once, by the hash of their text; on disk too, so that the next process need not compile them.

mod compile;
mod disk;
mod pool;
mod spirv;
mod verdict;

use crate::{Device, RuntimeError};
use compile::compile;
pub(crate) use disk::Store;
use pool::Pool;
use std::collections::HashMap;
use std::sync::Arc;
pub(crate) use verdict::Verdict;
use wgoose_kernels::{Kernel, KernelHash};

/// A compiled kernel.
#[derive(Clone)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// How many pipelines there are, by where they came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineCounts {
    /// Compiled here.
    pub compiled: u32,
    /// Taken from the pipeline cache on disk.
    pub found: u32,
}

/// The pipeline of a kernel that is run once: nothing is kept of it.
pub(crate) fn compile_once(device: &Device, kernel: &Kernel) -> Result<Pipeline, RuntimeError> {
    compile(device, kernel, None).map(|(pipeline, _)| pipeline)
}

/// Compiles kernels, or takes them from disk. A copy of it can work on another thread.
#[derive(Clone)]
pub(crate) struct Compiler {
    device: Arc<Device>,
    store: Option<Arc<Store>>,
}

/// What a compiler makes.
pub(crate) struct Compiled {
    hash: KernelHash,
    pipeline: Pipeline,
    /// Whether it was on disk.
    found: bool,
}

impl Compiler {
    /// Whether a kernel need not be compiled, unless what is kept of it is refused.
    pub(crate) fn has_on_disk(&self, kernel: &Kernel) -> bool {
        self.store.as_ref().is_some_and(|store| store.load(&kernel.hash).is_some())
    }

    /// Compiles a kernel, or takes it from disk.
    ///
    /// # Errors
    /// It does not compile.
    pub(crate) fn compile(&self, kernel: &Kernel) -> Result<Compiled, RuntimeError> {
        let (pipeline, found) = compile(&self.device, kernel, self.store.as_deref())?;
        Ok(Compiled { hash: kernel.hash, pipeline, found })
    }
}

/// The compiled kernels of a device.
pub(crate) struct Pipelines {
    pool: Pool,
    compiled: HashMap<KernelHash, Pipeline>,
    counts: PipelineCounts,
}

impl Pipelines {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        let store = device.cache().map(|cache| Arc::new(Store::pipelines(cache, device.fingerprint())));
        let pool = Pool::new(Compiler { device, store });
        Pipelines { pool, compiled: HashMap::new(), counts: PipelineCounts::default() }
    }

    /// What makes them.
    pub(crate) fn compiler(&self) -> Compiler {
        self.pool.compiler().clone()
    }

    /// The pipeline of a kernel that was compiled before.
    pub(crate) fn get(&self, hash: &KernelHash) -> Option<&Pipeline> {
        self.compiled.get(hash)
    }

    /// How many there are, by where they came from.
    pub(crate) fn counts(&self) -> PipelineCounts {
        self.counts
    }

    /// Keeps what was compiled elsewhere.
    pub(crate) fn keep(&mut self, compiled: Compiled) {
        let count = if compiled.found { &mut self.counts.found } else { &mut self.counts.compiled };
        *count += 1;
        self.compiled.insert(compiled.hash, compiled.pipeline);
    }

    /// Begins to compile kernels that [`Pipelines::compile`] is asked for later, on cores that have nothing else to compile. `find`
    /// says which; it runs there too.
    pub(crate) fn compile_ahead(&self, find: impl FnOnce() -> Vec<Kernel> + Send + 'static) {
        self.pool.ahead(Box::new(find));
    }

    /// The same for kernels that are asked for as soon as the pass at hand is done: they compile beside its own.
    pub(crate) fn compile_soon(&self, find: impl FnOnce() -> Vec<Kernel> + Send + 'static) {
        self.pool.soon(Box::new(find));
    }

    /// Begins to compile what is missing, or to take it from disk, on every core: the next [`Pipelines::compile`] waits for less.
    pub(crate) fn begin(&self, kernels: &[&Kernel]) {
        self.pool.begin(&self.missing(kernels));
    }

    /// Compiles what is missing, or takes it from disk, on every core. What compiles is kept, whatever else does not.
    ///
    /// # Errors
    /// One of them does not compile.
    pub(crate) fn compile(&mut self, kernels: &[&Kernel]) -> Result<(), RuntimeError> {
        let missing = self.missing(kernels);
        self.pool.begin(&missing);
        let compiled_before = self.counts.compiled;
        let mut failed = None;
        for kernel in missing {
            match self.pool.wait(&kernel.hash) {
                Ok(compiled) => self.keep(compiled),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        let compiler = self.pool.compiler();
        if let Some(store) = compiler.store.as_ref().filter(|_| self.counts.compiled > compiled_before) {
            store.prune();
        }
        failed.map_or(Ok(()), Err)?;
        compiler.device.check("compiling kernels")
    }

    /// Those of them that are not compiled, each once.
    fn missing<'a>(&self, kernels: &[&'a Kernel]) -> Vec<&'a Kernel> {
        let mut missing: Vec<&Kernel> =
            kernels.iter().copied().filter(|k| !self.compiled.contains_key(&k.hash)).collect();
        missing.sort_by_key(|k| k.hash);
        missing.dedup_by_key(|k| k.hash);
        missing
    }
}
