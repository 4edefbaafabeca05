//! An HTTP server with OpenAI's interface: completions, chats and embeddings, with streaming and continuous batching.
//! Start with [`Server`].
//!
//! ```no_run
//! use wgoose_serve::{ServeOptions, Server};
//!
//! let server = Server::bind(ServeOptions { model: "goose".to_owned(), ..ServeOptions::default() })?;
//! let session = wgoose_session::Session::builder().open("model.gguf")?;
//! server.run(session, |sequences| println!("{sequences} sequences decode together"))?;
//! # Ok::<(), wgoose_serve::ServeError>(())
//! ```
//!
//! # Modules
//! `server` accepts connections, `guard` checks keys, hosts and origins, `api` translates requests and answers.
//! `engine` is a thread with the model and its batch, so `/health` and `/metrics` are answered at once whatever it
//! does. `states` stores states and conversations in a folder. `access` writes a line for each request.
//! `untrusted` parses requests without a model.

#![deny(missing_docs)]

mod access;
mod api;
mod engine;
mod error;
mod guard;
mod metrics;
mod options;
mod server;
mod states;
mod untrusted;

pub use error::ServeError;
pub use options::ServeOptions;
pub use server::{Server, Stopper};
pub use untrusted::ServerWithoutModel;
