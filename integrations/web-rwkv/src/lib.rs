//! Model files for [web-rwkv](https://crates.io/crates/web-rwkv): GGUF, `.pth` and sharded safetensors through its
//! [`Reader`](web_rwkv::runtime::loader::Reader).
//!
//! ```no_run
//! use web_rwkv::runtime::loader::Loader;
//! use wgoose_web_rwkv::ModelReader;
//!
//! let model = ModelReader::open("model.gguf")?;
//! let info = Loader::info(&model)?;
//! println!("{} layers of {} channels", info.num_layer, info.num_emb);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`ModelReader`] has the authors' names and F16 numbers, whatever the file has. A tensor is decoded when web-rwkv
//! asks for it, on all threads of rayon's pool; web-rwkv 0.10.20 asks for each tensor once, so nothing is kept. Tensors
//! that a file stores as F16 in one piece are borrowed from its map.
//!
//! Rounding to F16 is refused where a number is too large for it. Models that web-rwkv cannot run are refused by name.

#![deny(missing_docs)]

mod decode;
mod error;
mod names;
mod reader;

pub use error::ReadError;
pub use reader::ModelReader;
