//! Texts in, embeddings out: what `wgoose embed` reads and writes.

mod output;

pub(crate) use output::{Kind, Output, Run};
