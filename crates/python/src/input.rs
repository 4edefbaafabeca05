//! Text and tokens from Python.

use crate::boundary::outside;
use crate::error::InputError;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString};
use wgoose_session::tokenizer::Tokenizer;

/// The bytes of a str or bytes.
pub(crate) fn bytes(text: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = text.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    Ok(text.cast::<PyBytes>()?.as_bytes().to_vec())
}

/// Token ids: those of a str or bytes, or any iterable of integers.
pub(crate) fn tokens(input: &Bound<'_, PyAny>, tokenizer: &PyResult<&Tokenizer>) -> PyResult<Vec<u32>> {
    if input.is_instance_of::<PyString>() || input.is_instance_of::<PyBytes>() {
        let text = bytes(input)?;
        let tokenizer = tokenizer.as_ref().map_err(|e| e.clone_ref(input.py()))?;
        return outside(input.py(), || tokenizer.encode(&text));
    }
    if let Ok(array) = input.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(array.as_array().to_vec());
    }
    input.try_iter()?.map(|token| token?.extract::<u32>()).collect()
}

/// Several texts: one alone would be taken for those of its characters.
pub(crate) fn several<'py>(texts: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    match texts.is_instance_of::<PyString>() || texts.is_instance_of::<PyBytes>() {
        true => Err(InputError::new_err("several texts are wanted, this is one: put it into a list")),
        false => texts.try_iter(),
    }
}

/// Stop strings: none, one, or several.
pub(crate) fn stops(stop: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<String>> {
    let stops: Vec<String> = match stop {
        None => Vec::new(),
        Some(one) if one.is_instance_of::<PyString>() => vec![one.extract()?],
        Some(several) => several.extract()?,
    };
    match stops.iter().any(String::is_empty) {
        true => Err(InputError::new_err("a stop string is empty: it would end every text before it begins")),
        false => Ok(stops),
    }
}
