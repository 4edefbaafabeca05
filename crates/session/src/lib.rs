//! What people call: sessions, tokenizer, sampling, state. Start with [`Session`].
//!
//! Names neither wgpu nor WGSL.

mod builder;
mod error;
mod generate;
pub mod sampling;
mod session;
pub mod state_file;
pub mod tokenizer;

pub use builder::{Backend, SessionBuilder};
pub use error::SessionError;
pub use generate::{GenerateOptions, Generated};
pub use session::Session;
