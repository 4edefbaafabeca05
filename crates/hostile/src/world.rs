//! The surroundings that parsers need: one small model and all files made of it, once a process.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tempfile::TempDir;
use wgoose_graph::{BatchShape, Format, LoraRanks, ModelShape, rwkv7};
use wgoose_kernels::{Catalogue, Feature, Instance, Limits};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};
use wgoose_measure::quality::{ExtendedReference, ExtendedWorkload, Reference};
use wgoose_runtime::{CancelToken, CpuExecutor, Engine};
use wgoose_serve::ServerWithoutModel;
use wgoose_session::{Backend, EmbeddingCacheOptions, Session, SessionError};

/// The smallest model whose quality can be told.
pub(crate) const SHAPE: ModelShape = ModelShape {
    layers: 1,
    width: 32,
    ffn: 32,
    head_size: 32,
    vocab: 300,
    ranks: LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// The model, and what is made of it.
pub(crate) struct World {
    pub(crate) model: Arc<Model>,
    /// The same sizes as safetensors.
    pub(crate) safetensors: Vec<u8>,
    pub(crate) fingerprint: String,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) reference: Reference,
    /// The file of the reference in a cache.
    pub(crate) reference_name: String,
    /// What long prompts and full batches come to, by the CPU.
    pub(crate) extended: ExtendedReference,
    pub(crate) extended_name: String,
    pub(crate) folder: TempDir,
}

impl World {
    /// That of this process.
    ///
    /// # Panics
    /// The system's temporary folder cannot be written: there is nothing to test with.
    pub(crate) fn get() -> &'static World {
        static WORLD: OnceLock<World> = OnceLock::new();
        WORLD.get_or_init(|| World::new().unwrap_or_else(|e| panic!("cannot make a model to test with: {e}")))
    }

    fn new() -> Result<World, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("model.gguf");
        write(&options(Container::Gguf), &path, &mut unwatched)?;
        let model = Arc::new(Model::open(&path)?);
        let other = folder.path().join("model.st");
        write(&options(Container::Safetensors), &other, &mut unwatched)?;
        let cache = folder.path().join("cache");
        let reference = Reference::cached(&model, &cache, &CancelToken::default())?;
        let name = fs::read_dir(&cache)?.next().ok_or("no reference is kept")??.file_name();
        let beside = folder.path().join("extended");
        let extended = World::extended(&model, &reference, &beside)?;
        let extended_name = fs::read_dir(&beside)?.next().ok_or("no extended reference is kept")??.file_name();
        Ok(World {
            fingerprint: model.fingerprint().to_string(),
            model,
            safetensors: fs::read(other)?,
            catalogue: Catalogue::embedded(),
            reference,
            reference_name: name.to_string_lossy().into_owned(),
            extended,
            extended_name: extended_name.to_string_lossy().into_owned(),
            folder,
        })
    }

    /// What a small workload comes to, kept in a folder.
    pub(crate) fn extended(
        model: &Arc<Model>,
        reference: &Reference,
        folder: &Path,
    ) -> Result<ExtendedReference, Box<dyn std::error::Error>> {
        const SLOTS: usize = 8;
        const CHUNK: usize = 32;
        let engine = Engine::new(Box::new(CpuExecutor::new(Arc::clone(model), SLOTS)?), CHUNK);
        let workload = ExtendedWorkload::new(CHUNK, SLOTS, true);
        Ok(ExtendedReference::cached(model, reference, &engine, workload, folder)?)
    }

    /// A session on the CPU.
    pub(crate) fn session(&self, cache: Option<EmbeddingCacheOptions>) -> Result<Session, SessionError> {
        Session::builder().backend(Backend::Cpu).embedding_cache(cache).open_model(Arc::clone(&self.model))
    }

    /// Asks the server of this thread, which stores its states in a folder.
    ///
    /// # Panics
    /// The system's temporary folder cannot be written.
    pub(crate) fn served<T>(ask: impl FnOnce(&ServerWithoutModel) -> T) -> T {
        thread_local! {
            static SERVED: (TempDir, ServerWithoutModel) = tempfile::tempdir()
                .map_err(|e| e.to_string())
                .and_then(|folder| {
                    let server = ServerWithoutModel::new(folder.path(), SHAPE, World::get().fingerprint.clone());
                    server.map(|server| (folder, server)).map_err(|e| e.to_string())
                })
                .unwrap_or_else(|e| panic!("cannot make a server to test with: {e}"));
        }
        SERVED.with(|(_, server)| ask(server))
    }

    /// Has these bytes read from a file, alone in a folder but for the folders on its way.
    ///
    /// # Panics
    /// The system's temporary folder cannot be written.
    pub(crate) fn with_file(name: &str, bytes: &[u8], read: impl FnOnce(&Path)) {
        let made = tempfile::tempdir().and_then(|folder| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder.path()))?;
            fs::write(&path, bytes)?;
            Ok((folder, path))
        });
        match made {
            Ok((_folder, path)) => read(&path),
            Err(e) => panic!("cannot write an input: {e}"),
        }
    }

    /// A product of the model on a device with all features: what kernels are made for.
    pub(crate) fn product() -> (Instance, Limits) {
        let limits = Limits { features: Feature::ALL.into(), storage_buffers: 16, ..Limits::webgpu() };
        let batch = BatchShape { tokens: 4, segments: 1, outputs: 1 };
        let of_matmul = rwkv7::forward(&SHAPE).ok().and_then(|graph| {
            let id = graph.op_ids().find(|id| graph.op(*id).op.name() == "matmul")?;
            Some(Instance::of(&graph, id, &batch, &|_| Format::F16))
        });
        match of_matmul {
            Some(instance) => (instance, limits),
            None => panic!("the model has no product"),
        }
    }
}

/// The model as a file of that kind.
pub(crate) fn options(container: Container) -> SynthOptions {
    SynthOptions { shape: SHAPE, seed: 1, container, mix: Mix::F16, hot: false, ffn_zeros: None, vocabulary: None }
}
