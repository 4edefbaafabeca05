//! Can bytes of strangers make a parser panic, hang or take memory out of proportion?
//!
//! ```
//! // A refusal is an answer like any other.
//! for (_, parse) in wgoose_hostile::ALL {
//!     parse(b"a goose");
//! }
//! ```
//!
//! Parsers of untrusted input, one function for each format. Fuzzers look for bytes that break one (`fuzz/`); inputs
//! that did are kept in `inputs/` and tested. Where a parser promises more than to survive, the function asserts it.
//! `seeds` has valid inputs to begin with, `world` the files that a parser needs around its input.

#![deny(missing_docs)]

mod seeds;
mod world;

use seeds::{SHARD, last_part};
pub use seeds::{Seed, seeds};
use std::path::Path;
use wgoose_graph::Weight;
use wgoose_kernels::{Catalogue, Kernel, Plan, PrecisionClass};
use wgoose_loader::adapter::{AdapterSource, merge};
use wgoose_loader::{Model, TensorFile};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::ledger::read as read_ledger;
use wgoose_measure::objective::Objective;
use wgoose_measure::quality::Reference;
use wgoose_runtime::CancelToken;
use wgoose_session::tokenizer::{Tokenizer, parse_vocabulary_text};
use wgoose_session::{EmbeddingCacheOptions, state_file};
use world::{SHAPE, World};

/// Reads the bytes of one input.
pub type Reads = fn(&[u8]);

/// Every format by name.
pub const ALL: [(&str, Reads); 17] = [
    ("gguf", gguf),
    ("safetensors", safetensors),
    ("pth", pth),
    ("index", index),
    ("config", config),
    ("split", split),
    ("plan", plan),
    ("ledger", ledger),
    ("state", state),
    ("store", store),
    ("reference", reference),
    ("extended", extended),
    ("kernel", kernel),
    ("vocabulary", vocabulary),
    ("tokens", tokens),
    ("request", request),
    ("upload", upload),
];

/// A model file: opens it, and reads a row of every weight, the vocabulary and the fingerprint.
fn model(name: &str, bytes: &[u8]) {
    World::with_file(name, bytes, read_model);
}

/// Opens what the path names, and reads a row of every weight, the vocabulary and the fingerprint.
fn read_model(path: &Path) {
    let Ok(model) = Model::open(path) else { return };
    for weight in Weight::all(model.shape()) {
        let tensor = model.tensor(weight);
        let mut row = vec![0.0; tensor.cols()];
        if tensor.rows() > 0 {
            tensor.row_f32(tensor.rows() - 1, &mut row);
        }
    }
    for head in model.embedding_heads() {
        if let Some(tensors) = model.embedding_head(head) {
            tensors.norm_bias.row_f32(0, &mut vec![0.0; tensors.norm_bias.cols()]);
        }
    }
    model.fingerprint();
    if let Some(entries) = model.vocabulary() {
        drop(Tokenizer::from_vocabulary(&entries));
    }
}

/// A file in the folder of a model: opens the folder, as a model file is opened.
fn model_folder(name: &str, bytes: &[u8], other: &str, model: &[u8]) {
    World::with_file(name, bytes, |path| {
        let written = std::fs::write(path.with_file_name(other), model);
        written.unwrap_or_else(|e| panic!("cannot write a model to test with: {e}"));
        read_model(path.parent().unwrap_or(path));
    });
}

/// A model as GGUF.
pub fn gguf(bytes: &[u8]) {
    model("model.gguf", bytes);
}

/// A model as safetensors.
pub fn safetensors(bytes: &[u8]) {
    model("model.st", bytes);
}

/// A model as a checkpoint of PyTorch, or tensors of another use, such as an adapter.
pub fn pth(bytes: &[u8]) {
    model("model.pth", bytes);
    World::with_file("tensors.pth", bytes, |path| {
        let Ok(file) = TensorFile::open(path) else { return };
        file.names().for_each(|name| drop(file.read(name)));
        let adapter = AdapterSource { path: path.to_owned(), scale: Some(1.0), initial: None };
        drop(merge(&mut Model::clone(&World::get().model), &adapter));
    });
}

/// An index of shards, beside the one that it should list.
pub fn index(bytes: &[u8]) {
    model_folder("model.safetensors.index.json", bytes, SHARD, &World::get().safetensors);
}

/// A configuration beside a model.
pub fn config(bytes: &[u8]) {
    model_folder("config.json", bytes, SHARD, &World::get().safetensors);
}

/// The first part of a split GGUF file, beside a second one without tensors.
pub fn split(bytes: &[u8]) {
    model_folder("model-00001-of-00002.gguf", bytes, "model-00002-of-00002.gguf", &last_part());
}

/// A plan: what is read of it is written so that the same is read again.
///
/// # Panics
/// It is not.
pub fn plan(bytes: &[u8]) {
    let (Ok(text), path) = (std::str::from_utf8(bytes), Path::new("plan.ron")) else { return };
    let Ok(plan) = Plan::parse(text, path) else { return };
    // Choices that are refused are not written; kernels are looked up all the same.
    drop(plan.check_kernels(&plan.model, &World::get().catalogue));
    let again = Plan::parse(&plan.to_ron(), path);
    // What was left out the first time is not missed the second.
    let plan = Plan { lost_evidence: false, ..plan };
    assert!(again.as_ref().is_ok_and(|again| *again == plan), "{:?}", again.err().map(|e| e.to_string()));
}

/// A ledger: reads it, and derives a plan from it.
pub fn ledger(bytes: &[u8]) {
    World::with_file("plan.jsonl", bytes, |path| {
        let Ok((records, _)) = read_ledger(path) else { return };
        drop(derive(&records, &World::get().catalogue, &Objective::chat(true), &Policy::all()));
    });
}

/// A saved state.
pub fn state(bytes: &[u8]) {
    World::with_file("state", bytes, |path| drop(state_file::load(path, &SHAPE, &World::get().fingerprint)));
}

/// A store of embeddings: opens a session with it, which repairs what can be.
pub fn store(bytes: &[u8]) {
    World::with_file("store", bytes, |path| {
        let cache = EmbeddingCacheOptions { store: Some(path.to_owned()), ..EmbeddingCacheOptions::default() };
        drop(World::get().session(Some(cache)));
    });
}

/// A quality reference in a cache: whatever is in the file, what comes of it is what the model says.
///
/// # Panics
/// It is not.
pub fn reference(bytes: &[u8]) {
    let world = World::get();
    World::with_file(&world.reference_name, bytes, |path| {
        let Some(folder) = path.parent() else { return };
        let hash = Reference::cached(&world.model, folder, &CancelToken::default())
            .map(|reference| reference.expected(PrecisionClass::default()));
        assert_eq!(hash.ok(), Some(world.reference.expected(PrecisionClass::default())));
    });
}

/// A reference of long prompts and full batches in a cache, likewise.
///
/// # Panics
/// What comes of it is something else.
pub fn extended(bytes: &[u8]) {
    let world = World::get();
    World::with_file(&world.extended_name, bytes, |path| {
        let Some(folder) = path.parent() else { return };
        let found = World::extended(&world.model, &world.reference, folder);
        assert!(found.is_ok_and(|found| found == world.extended), "it is not what the model comes to");
    });
}

/// The text of a kernel in a folder: reads it, and makes a kernel of each of its first configurations.
pub fn kernel(bytes: &[u8]) {
    const CONFIGS: usize = 4;
    World::with_file("ops/matmul/mine.wgsl", bytes, |path| {
        let Some(folder) = path.ancestors().nth(3) else { return };
        let Ok(catalogue) = Catalogue::with_folder(folder) else { return };
        let (instance, limits) = World::product();
        let mine = catalogue.variants("matmul").iter().find(|variant| variant.name() == "mine");
        for (variant, config) in
            mine.into_iter().flat_map(|v| v.configs().into_iter().take(CONFIGS).map(move |config| (v, config)))
        {
            drop(Kernel::new(variant, &instance, &config, &limits));
        }
    });
}

/// A vocabulary as text: a tokenizer of it encodes and decodes.
pub fn vocabulary(bytes: &[u8]) {
    let Ok(entries) = parse_vocabulary_text(bytes) else { return };
    let Ok(tokenizer) = Tokenizer::from_vocabulary(&entries) else { return };
    drop(tokenizer.decode(&tokenizer.encode(&bytes[..bytes.len().min(1000)])));
}

/// A text: its tokens are that text, and any ids are decoded or refused.
///
/// # Panics
/// They are another text.
pub fn tokens(bytes: &[u8]) {
    let world = Tokenizer::world();
    assert_eq!(world.decode(&world.encode(bytes)).as_deref(), Ok(bytes));
    let ids: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    drop(world.decode(&ids));
}

/// Paths that take requests with a body.
const PATHS: [&str; 16] = [
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/rerank",
    "/v1/states",
    "/v1/batch/completions",
    "/v1/state/upload",
    "/v1/state/list",
    "/v1/state/delete",
    "/v1/tokens/count",
    "/state/chat/completions",
    "/openai/v1/chat/completions",
    "/tokenize",
    "/detokenize",
    "/v1/none",
];

/// A request to the server: the first byte chooses the path, the rest is the body.
///
/// # Panics
/// The server fails.
pub fn request(bytes: &[u8]) {
    request_status(bytes);
}

/// The status of the answer to such a request: 503 where a model would be asked.
///
/// # Panics
/// The server fails.
pub fn request_status(bytes: &[u8]) -> u16 {
    let (path, body) = match bytes.split_first() {
        Some((first, body)) => (PATHS[usize::from(*first) % PATHS.len()], body),
        None => (PATHS[0], bytes),
    };
    let status = World::served(|server| server.post(path, "multipart/form-data; boundary=x", body));
    assert!(status != 500, "{path} fails");
    status
}

/// A state that is uploaded to the server: a saved one, or a tuned one as safetensors or .pth.
///
/// # Panics
/// The server fails.
pub fn upload(bytes: &[u8]) {
    upload_status(bytes);
}

/// The status of the answer to such an upload.
///
/// # Panics
/// The server fails.
pub fn upload_status(bytes: &[u8]) -> u16 {
    let status = World::served(|server| server.post("/v1/states", "application/octet-stream", bytes));
    assert!(status != 500, "the upload fails");
    status
}
