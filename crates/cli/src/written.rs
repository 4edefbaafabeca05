//! What the verbs that write models share.

use crate::failure::Failure;
use crate::progress::Moving;
use std::path::Path;
use wgoose_loader::Container;
use wgoose_session::tokenizer::Tokenizer;

/// The kind of file that a name asks for.
pub(crate) fn container(path: &Path) -> Result<Container, Failure> {
    match path.extension().and_then(|e| e.to_str()) {
        Some("gguf") => Ok(Container::Gguf),
        Some("st" | "safetensors") => Ok(Container::Safetensors),
        _ => Err(format!("{}: expected a name that ends in .gguf, .st or .safetensors", path.display()).into()),
    }
}

/// As much of the World vocabulary as there are rows, if that covers the single bytes.
pub(crate) fn world_vocabulary(rows: u32) -> Option<Vec<Vec<u8>>> {
    let world = Tokenizer::world();
    let tokenizer = world.truncated((rows as usize).min(world.len())).ok()?;
    Some(tokenizer.vocabulary().map(<[u8]>::to_vec).collect())
}

/// A bar of bytes; drawn only where standard error is a terminal.
pub(crate) fn bar() -> Result<Moving, Failure> {
    Moving::bar(0, "{bytes}/{total_bytes} {bytes_per_sec} (left: {eta})")
}

/// Sets a bar to the bytes done and in total.
pub(crate) fn show(bar: &Moving) -> impl Fn(u64, u64) + Sync + '_ {
    |done, total| bar.done_of(done, total)
}
