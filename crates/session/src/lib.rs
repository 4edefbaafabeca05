//! What people call: sessions, tokenizer, sampling, state. Start with [`Session`].
//!
//! Names neither wgpu nor WGSL.

mod error;
mod generate;
pub mod sampling;
mod session;
pub mod state_file;
pub mod tokenizer;

pub use error::SessionError;
pub use generate::{GenerateOptions, Generated};
pub use session::{Backend, Session, SessionBuilder};
