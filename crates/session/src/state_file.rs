//! State files: safetensors with `blocks.i.wkv` (H x value x key), `blocks.i.att_shift` (C) and `blocks.i.ffn_shift`
//! (C); a chat's file has its text too.

use crate::{ChatTurn, SessionError, initial_state};
use safetensors::Dtype;
use safetensors::tensor::{SafeTensors, TensorView};
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use wgoose_graph::{ModelShape, State};
use wgoose_loader::TensorFile;
use wgoose_runtime::StateData;

/// Key under which the model's fingerprint is kept.
const MODEL: &str = "wgoose.model";

/// Key under which the text of a chat is kept: a JSON list of pairs, a message and its answer.
const CHAT: &str = "wgoose.chat";

fn shape_of(state: State, model: &ModelShape) -> Vec<usize> {
    match state {
        State::Wkv(_) => vec![model.heads() as usize, model.head_size as usize, model.head_size as usize],
        State::AttShift(_) | State::FfnShift(_) => vec![model.width as usize],
    }
}

/// What a file of a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateKind {
    /// What [`save`] wrote.
    Saved,
    /// A tuned initial state ([`initial_state`]).
    Initial,
}

/// What a file is, by the names of its tensors.
///
/// # Errors
/// It cannot be read, or is neither.
pub fn kind(path: &Path) -> Result<StateKind, SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let file = TensorFile::open(path).map_err(|e| fail(e.into_reason().to_string()))?;
    let first = State::Wkv(0).to_string();
    match () {
        () if file.names().any(|name| name.ends_with(initial_state::SUFFIX)) => Ok(StateKind::Initial),
        () if file.names().any(|name| name == first) => Ok(StateKind::Saved),
        () => Err(fail(format!(
            "it holds no state: neither '{first}', as saved by wgoose, nor 'blocks.0{}' of a tuned one",
            initial_state::SUFFIX
        ))),
    }
}

/// Writes a state, whole or not at all.
///
/// # Errors
/// The folder cannot be written.
pub fn save(path: &Path, state: &StateData, model: &ModelShape, fingerprint: &str) -> Result<(), SessionError> {
    save_chat(path, state, model, fingerprint, &[])
}

/// As [`save`], with the turns of the chat that made the state.
///
/// # Errors
/// As of [`save`].
pub fn save_chat(
    path: &Path,
    state: &StateData,
    model: &ModelShape,
    fingerprint: &str,
    turns: &[ChatTurn],
) -> Result<(), SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let bytes: Vec<(String, Vec<usize>, Vec<u8>)> = state
        .0
        .iter()
        .map(|(tensor, data)| {
            let raw = data.iter().flat_map(|x| x.to_le_bytes()).collect();
            (tensor.to_string(), shape_of(*tensor, model), raw)
        })
        .collect();
    let mut views = Vec::new();
    for (name, shape, raw) in &bytes {
        views.push((name, TensorView::new(Dtype::F32, shape.clone(), raw).map_err(|e| fail(e.to_string()))?));
    }
    let mut metadata = HashMap::from([(MODEL.to_owned(), fingerprint.to_owned())]);
    if !turns.is_empty() {
        let pairs: Vec<[&str; 2]> = turns.iter().map(|turn| [&*turn.message, &*turn.answer]).collect();
        metadata.insert(CHAT.to_owned(), serde_json::to_string(&pairs).map_err(|e| fail(e.to_string()))?);
    }
    let file = safetensors::serialize(views, Some(metadata)).map_err(|e| fail(e.to_string()))?;
    wgoose_files::replace(path, |out| out.write_all(&file)).map(drop).map_err(|e| fail(e.to_string()))
}

/// Reads a state; a file of another model is refused.
///
/// # Errors
/// The file is no state file, or of another model ([`SessionError::OtherModel`] where it says so itself).
pub fn load(path: &Path, model: &ModelShape, fingerprint: &str) -> Result<StateData, SessionError> {
    load_chat(path, model, fingerprint).map(|(state, _)| state)
}

/// As [`load`], with the turns of the chat that made the state; a state that no chat made has none.
///
/// # Errors
/// As of [`load`].
pub fn load_chat(
    path: &Path,
    model: &ModelShape,
    fingerprint: &str,
) -> Result<(StateData, Vec<ChatTurn>), SessionError> {
    let fail = |why: String| SessionError::StateFile { path: path.to_owned(), why };
    let file = wgoose_files::read(path).map_err(|e| fail(e.to_string()))?;
    let stored = SafeTensors::deserialize(&file).map_err(|e| fail(e.to_string()))?;
    let (_, header) = SafeTensors::read_metadata(&file).map_err(|e| fail(e.to_string()))?;
    let value = |key: &str| header.metadata().as_ref().and_then(|pairs| pairs.get(key)).cloned();
    if let Some(theirs) = value(MODEL).filter(|theirs| theirs != fingerprint) {
        return Err(SessionError::OtherModel { path: path.to_owned(), theirs, ours: fingerprint.to_owned() });
    }
    let mut tensors = Vec::new();
    for tensor in State::all(model) {
        let view = stored.tensor(&tensor.to_string()).map_err(|e| fail(format!("{tensor}: {e}")))?;
        let shape = shape_of(tensor, model);
        if view.dtype() != Dtype::F32 || view.shape() != shape {
            return Err(fail(format!("{tensor} is {:?} {:?}, expected F32 {shape:?}", view.dtype(), view.shape())));
        }
        let floats = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        tensors.push((tensor, floats));
    }
    let pairs: Vec<[String; 2]> = match value(CHAT) {
        Some(text) => serde_json::from_str(&text).map_err(|e| fail(format!("the text of its chat: {e}")))?,
        None => Vec::new(),
    };
    let turns = pairs.into_iter().map(|[message, answer]| ChatTurn { message, answer }).collect();
    Ok((StateData(tensors), turns))
}
