//! Ctrl-C, and what a listener raises, while Rust works on the thread that called: looked at from time to time, without Python's lock
//! in between.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ops::ControlFlow;

/// Whether a call goes on.
#[derive(Default)]
pub(crate) struct Interrupt(Option<PyErr>);

impl Interrupt {
    /// Looks at signals, and calls `listen`, where there is one, with these arguments; what either raises ends the call.
    pub(crate) fn look(
        &mut self,
        listen: Option<&Py<PyAny>>,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>,
    ) -> ControlFlow<()> {
        let heard = Python::attach(|py| {
            py.check_signals()?;
            match listen {
                Some(listen) => listen.call1(py, arguments(py)?).map(drop),
                None => Ok(()),
            }
        });
        self.0 = self.0.take().or(heard.err());
        if self.0.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Looks at signals.
    pub(crate) fn signals(&mut self) -> ControlFlow<()> {
        self.look(None, |py| Ok(PyTuple::empty(py)))
    }

    /// The result of the call, unless something was raised.
    pub(crate) fn or_raise<T>(self, result: PyResult<T>) -> PyResult<T> {
        match self.0 {
            Some(raised) => Err(raised),
            None => result,
        }
    }
}
