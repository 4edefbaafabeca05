//! Where Python's threads leave Python: without its lock, and never with a panic on the way back.

use crate::error::Error;
use pyo3::prelude::*;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs something that takes time while other Python threads go on. All work of the package goes this way: `clippy.toml` sees to it.
///
/// # Errors
/// A panic, which is a bug of this program, as [`Error`]: what Python has for panics is no `Exception`, and would end programs that
/// handle those.
#[allow(clippy::disallowed_methods)] // the one place
pub(crate) fn outside<T: Send>(py: Python<'_>, run: impl FnOnce() -> T + Send) -> PyResult<T> {
    // What it was about is left as it was, or refuses to be used: locks do not keep others out, sequences are invalid.
    py.detach(|| catch_unwind(AssertUnwindSafe(run))).map_err(|panic| Error::new_err(said(&*panic)))
}

/// The one line that a panic came with.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic").replace('\n', " ");
    format!("this is a bug of wgoose, please report it: {text}")
}

/// Panics, as bugs do: for tests.
#[cfg(debug_assertions)]
#[pyfunction]
pub(crate) fn _panic(py: Python<'_>, text: String) -> PyResult<()> {
    outside(py, || std::panic::panic_any(text))
}
