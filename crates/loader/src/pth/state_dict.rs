//! Which of a file's dictionaries is the state dict: the file's own, or one that training put beside other things.

use super::PthError;
use super::value::{Heap, Value};

/// Keys under which trainers save a model's tensors (PyTorch Lightning, its examples, DeepSpeed).
const KEYS: [&str; 4] = ["state_dict", "model", "weights", "module"];

/// Dictionaries in each other, at most.
const MAX_DEPTH: usize = 4;

/// The state dict of a file.
pub(super) struct StateDict<'a> {
    /// Its number in the heap.
    pub(super) dict: usize,
    /// What else the file has that holds tensors, by its key.
    pub(super) beside: Vec<&'a str>,
}

/// Finds the state dict in the value that a program leaves.
///
/// # Errors
/// The value is no dictionary, or two of its entries are state dicts.
pub(super) fn find<'a>(heap: &Heap<'a>, value: Value<'a>) -> Result<StateDict<'a>, PthError> {
    let Value::Dict(mut dict) = value else { return Err(PthError::NoStateDict) };
    let has_tensors = heap.dicts_with_tensors();
    let holds = |value: Value<'_>| match value {
        Value::Dict(dict) => has_tensors[dict],
        Value::Tensor(_) => true,
        _ => false,
    };
    let mut beside = Vec::new();
    for _ in 0..MAX_DEPTH {
        let wrapped = heap.pairs(dict).filter_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Dict(inner)) if KEYS.contains(&key) && has_tensors[inner] => Some((key, inner)),
            _ => None,
        });
        let mut wrapped: Vec<(&str, usize)> = wrapped.collect();
        let Some((key, inner)) = wrapped.pop() else { break };
        if let Some((other, _)) = wrapped.into_iter().find(|(_, dict)| *dict != inner) {
            return Err(PthError::TwoStateDicts { first: other.to_owned(), second: key.to_owned() });
        }
        beside.extend(heap.pairs(dict).filter_map(|(key, value)| match (key, value) {
            (Value::Text(_), Value::Dict(dict)) if dict == inner => None,
            (Value::Text(key), value) if holds(value) => Some(key),
            _ => None,
        }));
        dict = inner;
    }
    Ok(StateDict { dict, beside })
}
