//! How does a program call a model? Sessions, tokenizer, sampling, embeddings, states. Start with [`Session`].
//!
//! # A text
//! A session is one sequence of one model on one device. Opening takes milliseconds: weights reach the GPU with the
//! first pass.
//!
//! ```no_run
//! use std::ops::ControlFlow;
//! use wgoose_session::{GenerateOptions, GenerationEvent, Session};
//! use wgoose_session::sampling::SamplerOptions;
//!
//! let mut session = Session::builder().open("model.gguf")?;
//! let sampling = SamplerOptions { temperature: 0.8, top_p: 0.9, seed: 1, ..SamplerOptions::default() };
//! let options = GenerateOptions { sampling, max_tokens: 64, ..GenerateOptions::default() };
//! session.generate(b"The goose flies over", &options, &mut |event| {
//!     if let GenerationEvent::Text(text) = event {
//!         print!("{text}");
//!     }
//!     ControlFlow::Continue(())
//! })?;
//! # Ok::<(), wgoose_session::SessionError>(())
//! ```
//!
//! [`SessionBuilder`] says where and how the model runs: a device by name, a plan that `wgoose tune` wrote
//! ([`PlanChoice`]), a budget of GPU memory, the CPU reference, caches. Unless a plan is chosen, a session runs the
//! device's default plan, whatever was tuned.
//!
//! # Tokens and logits
//! ```no_run
//! # let mut session = wgoose_session::Session::builder().open("model.gguf")?;
//! let tokens = session.tokenizer()?.encode("今天天气很好".as_bytes());
//! let logits = session.prefill(&tokens)?;         // [V], after the last token
//! let likeliest = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0);
//! let logits = session.decode(likeliest as u32)?; // and after one more
//! # Ok::<(), wgoose_session::SessionError>(())
//! ```
//!
//! The tokenizer needs no model:
//!
//! ```
//! use wgoose_session::tokenizer::Tokenizer;
//!
//! let ids = Tokenizer::world().encode("Honk!".as_bytes());
//! assert_eq!(Tokenizer::world().decode(&ids)?, b"Honk!");
//! # Ok::<(), wgoose_session::tokenizer::UnknownToken>(())
//! ```
//!
//! # State
//! RWKV has no KV cache: it keeps a state of fixed size, whatever the length of the text. [`Session::state`] and
//! [`Session::set_state`] copy the state, [`Session::save_state`] and [`Session::load_state`] store it in a file,
//! [`Session::fork`] continues it in a second session, and [`PrefixOptions`] is a prefix cache: a prompt starts from
//! the longest prefix that was computed before.
//!
//! # Embeddings
//! ```no_run
//! use wgoose_session::{CancelToken, EmbedOptions};
//!
//! # let mut session = wgoose_session::Session::builder().open("model.gguf")?;
//! let texts = ["A goose.", "A swan."].map(|text| session.tokenizer().map(|t| t.encode(text.as_bytes())));
//! let texts: Vec<Vec<u32>> = texts.into_iter().collect::<Result<_, _>>()?;
//! let vectors = session.embed_batch(&texts, &EmbedOptions::default(), &CancelToken::default())?; // [C] each
//! # Ok::<(), wgoose_session::SessionError>(())
//! ```
//!
//! # Looking inside
//! [`Session::trace`] shows what every op makes, by name:
//!
//! ```no_run
//! # let mut session = wgoose_session::Session::builder().open("model.gguf")?;
//! session.trace(&[1, 2, 3], &mut |value| {
//!     let largest = value.values.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
//!     println!("{:?} {} {:?}: up to {largest}", value.layer, value.name, value.shape);
//!     std::ops::ControlFlow::Continue(())
//! })?;
//! # Ok::<(), wgoose_session::SessionError>(())
//! ```
//!
//! # Modules
//! In reading order: `builder` opens a `session`; `prompt` and `generate` read and continue a text, with [`tokenizer`],
//! [`sampling`], [`grammar`] and the cache in `prefix`; `batch` decodes many sequences together (continuous batching), `chat` keeps
//! a conversation, [`tools`] are functions that a model calls, `embed` and `embedding_cache` make vectors; [`state_file`] and [`initial_state`] are states in
//! files; [`eval`](mod@eval) and [`bit_allocation`] measure a model.
//!
//! The folder `examples/` has whole programs: `generate`, `embed_batch`, `state_cache` and `custom_kernel`. Each runs
//! without a model file as well. Nothing here names wgpu or WGSL: `wgoose_kernels` and `wgoose_runtime` do.

#![deny(missing_docs)]

mod batch;
pub mod bit_allocation;
mod builder;
mod chat;
mod embed;
mod embedding_cache;
mod error;
pub mod eval;
mod generate;
pub mod grammar;
pub mod initial_state;
mod model_file;
mod not_finite;
pub mod npy;
mod prefix;
mod printable;
mod prompt;
pub mod sampling;
mod session;
pub mod state_file;
pub mod tokenizer;
pub mod tools;
mod trace_selected;
mod vocabulary;

pub use batch::{BatchEvent, BatchRequest, SequenceId, SessionBatch, StateEnd};
pub use builder::{Backend, SessionBuilder, model_class};
pub use chat::{
    Chat, ChatFormat, ChatFormatError, ChatMessage, ChatOptions, ChatTurn, NEXT_USER, THINKING, after_thoughts,
    conversation, next_message,
};
pub use embed::{END_OF_TEXT, EmbedOptions, Pooling};
pub use embedding_cache::{EmbeddingCacheOptions, EmbeddingCacheStats, StoreError};
pub use error::{SessionError, one_line};
pub use generate::{Ending, GenerateOptions, Generated, GenerationEvent, OnGeneration};
pub use model_file::{ConvertFileOptions, ConvertedFile, ModelFileError, SynthFileOptions, convert_file, synth_file};
pub use prefix::{PrefixOptions, PrefixStats};
pub use printable::printable;
pub use session::Session;
pub use trace_selected::{TraceError, TracedOp};
pub use vocabulary::{ModelVocabularyError, VocabularyChoice};
pub use wgoose_graph::Level;
pub use wgoose_loader::Model;
pub use wgoose_plans::{Chosen, ModelClass, PlanChoice, PlanReport, Store as PlanStore};
pub use wgoose_runtime::{CancelToken, LoadReport, Residency, StateData, Traced};

use wgoose_runtime::Engine;

/// Makes room for so many sequences, or for half as many, and so on; returns how many there is room for.
fn grow(engine: &mut Engine, mut slots: usize) -> Result<usize, SessionError> {
    loop {
        let room = engine.grow(slots)?;
        if room >= slots {
            return Ok(room);
        }
        slots /= 2;
    }
}
