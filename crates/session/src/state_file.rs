//! State files: safetensors with `blocks.i.wkv` [H, value, key], `blocks.i.att_shift` [C], `blocks.i.ffn_shift` [C].

use crate::SessionError;
use safetensors::Dtype;
use safetensors::tensor::{SafeTensors, TensorView};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use wgoose_graph::{ModelShape, State};
use wgoose_runtime::StateData;

/// Key under which the model's fingerprint is kept.
const MODEL: &str = "wgoose.model";

fn shape_of(state: State, model: &ModelShape) -> Vec<usize> {
    match state {
        State::Wkv(_) => vec![model.heads() as usize, model.head_size as usize, model.head_size as usize],
        State::AttShift(_) | State::FfnShift(_) => vec![model.width as usize],
    }
}

/// Writes a state, atomically: a temporary file beside it, then a rename.
///
/// # Errors
/// The folder cannot be written.
pub fn save(path: &Path, state: &StateData, model: &ModelShape, fingerprint: &str) -> Result<(), SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = state
        .0
        .iter()
        .map(|(piece, data)| {
            let raw = data.iter().flat_map(|x| x.to_le_bytes()).collect();
            (piece.to_string(), shape_of(*piece, model), raw)
        })
        .collect();
    let mut views = Vec::new();
    for (name, shape, raw) in &bytes {
        views.push((name, TensorView::new(Dtype::F32, shape.clone(), raw).map_err(|e| fail(e.to_string()))?));
    }
    let metadata = HashMap::from([(MODEL.to_owned(), fingerprint.to_owned())]);
    let file = safetensors::serialize(views, Some(metadata)).map_err(|e| fail(e.to_string()))?;
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(|e| fail(e.to_string()))?;
    temporary.write_all(&file).map_err(|e| fail(e.to_string()))?;
    temporary.persist(path).map_err(|e| fail(e.to_string()))?;
    Ok(())
}

/// Reads a state; a file of another model is refused.
///
/// # Errors
/// The file is no state file, or of another model ([`SessionError::OtherModel`] where it says so itself).
pub fn load(path: &Path, model: &ModelShape, fingerprint: &str) -> Result<StateData, SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let file = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    let tensors = SafeTensors::deserialize(&file).map_err(|e| fail(e.to_string()))?;
    let (_, header) = SafeTensors::read_metadata(&file).map_err(|e| fail(e.to_string()))?;
    let made_with = header.metadata().as_ref().and_then(|m| m.get(MODEL)).cloned();
    if let Some(theirs) = made_with.filter(|theirs| theirs != fingerprint) {
        return Err(SessionError::OtherModel { path: path.to_owned(), theirs, ours: fingerprint.to_owned() });
    }
    let mut pieces = Vec::new();
    for piece in State::all(model) {
        let tensor = tensors.tensor(&piece.to_string()).map_err(|e| fail(format!("{piece}: {e}")))?;
        let shape = shape_of(piece, model);
        if tensor.dtype() != Dtype::F32 || tensor.shape() != shape {
            return Err(fail(format!("{piece} is {:?} {:?}, expected F32 {shape:?}", tensor.dtype(), tensor.shape())));
        }
        let floats = tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        pieces.push((piece, floats));
    }
    Ok(StateData(pieces))
}
