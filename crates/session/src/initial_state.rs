//! Tuned initial states: .pth or safetensors files with `blocks.i.att.time_state`, `[H, N, N]`, in F32, F16 or BF16,
//! and nothing else: what else a file has would be lost. State tuning trains the matrices that the recurrence starts
//! from; the token shifts start from zero.
//!
//! For RWKV-7 the file has each head's matrix as the recurrence of the model uses it, `[value][key]`, which is the
//! order of [`State::Wkv`]: `y[value] = sum over key of S[value][key] r[key]`. (Engines of RWKV-5 and 6 keep
//! `[key][value]` and transpose these files; doing so here would be wrong.)

use crate::SessionError;
use std::path::Path;
use wgoose_graph::{ModelShape, State};
use wgoose_loader::TensorFile;
use wgoose_runtime::StateData;

/// How the names of its tensors end.
pub(crate) const SUFFIX: &str = ".att.time_state";

/// Reads a tuned initial state for a model of that shape.
///
/// # Errors
/// The file cannot be read, has other tensors too, or is for a model with other heads or another number of layers.
pub fn load(path: &Path, model: &ModelShape) -> Result<StateData, SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let file = TensorFile::open(path).map_err(|e| fail(e.into_reason().to_string()))?;
    if let Some(other) = file.names().filter(|name| !name.ends_with(SUFFIX)).min() {
        return Err(fail(format!(
            "beside a tuned initial state it has '{other}', which would be lost: save the tensors '*{SUFFIX}' alone"
        )));
    }
    let layers = file.names().filter(|name| name.ends_with(SUFFIX)).count();
    if layers != model.layers as usize {
        return Err(fail(format!("a tuned initial state of {layers} layers, this model has {}", model.layers)));
    }
    let mut state = StateData::zero(model);
    for (tensor, data) in &mut state.0 {
        let State::Wkv(layer) = tensor else { continue };
        let name = format!("blocks.{layer}{SUFFIX}");
        let (dims, floats) = file.read(&name).map_err(|e| fail(e.into_reason().to_string()))?;
        let n = model.head_size as usize;
        let want = [model.heads() as usize, n, n];
        if dims != want {
            return Err(fail(format!("{name} is {dims:?}, this model has {want:?} (heads, value, key)")));
        }
        *data = floats;
    }
    Ok(state)
}
