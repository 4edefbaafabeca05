//! Adapters: what fine-tuning has learned beside the weights of a model, merged into them in memory.
//!
//! An adapter file has tensors for some modules of the model, and may have whole weights that take the place of the
//! model's. How the tensors of a module change its matrix, its kind says:
//!
//! | kind | tensors | what is added to `W [out, in]` |
//! |---|---|---|
//! | LoRA | `lora_A [r, in]`, `lora_B [out, r]` | `B A` |
//! | PiSSA | LoRA's, and their initial values | `B A - B0 A0` |
//! | MiSS, DiSHA, Bone | `miss`, `disha` or `bone`: `[r, out]` | the transposed block, side by side |
//! | Bat | MiSS's: `[n, r, r]` | `W D + D`, block by block |
//!
//! Names of files of RWKV-PEFT (github.com/JL-er/RWKV-PEFT) and of Hugging Face's `peft` are known. The model's own
//! weights must be called as in its authors' checkpoints, whatever the model file calls them.
//!
//! Weights that an adapter changes are kept in memory in their own format if that is a float. Quantised ones become
//! F16: what an adapter adds is often less than a step of a quantised format, and would be lost in part.

mod bat;
mod config;
mod error;
mod lora;
mod merge;
mod miss;
mod names;
mod pissa;
mod read;
mod source;
mod update;

pub use error::AdapterError;
pub use merge::{MergedAdapter, merge};
pub use source::AdapterSource;
