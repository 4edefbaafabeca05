//! Ctrl-C, and what a listener raises, while Rust works on the thread that called: looked at from time to time, without
//! Python's lock in between.

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ops::ControlFlow;
use std::sync::Arc;
use wgoose_runtime::CancelToken;

/// What was raised while a call worked, if anything.
#[derive(Default)]
pub(crate) struct Interrupt(Arc<Mutex<Option<PyErr>>>);

impl Interrupt {
    /// Looks at signals, and calls `listen`, where there is one, with these arguments; what either raises ends the
    /// call.
    pub(crate) fn look(
        &self,
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
        let mut raised = self.0.lock();
        *raised = raised.take().or(heard.err());
        if raised.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Looks at signals.
    pub(crate) fn signals(&self) -> ControlFlow<()> {
        self.look(None, |py| Ok(PyTuple::empty(py)))
    }

    /// Cancels the call once a signal has come or a listener has raised; looks at signals each time it is asked.
    pub(crate) fn token(&self) -> CancelToken {
        let shared = Interrupt(Arc::clone(&self.0));
        CancelToken::polling(move || shared.signals().is_break())
    }

    /// The result of the call, unless something was raised.
    pub(crate) fn or_raise<T>(self, result: PyResult<T>) -> PyResult<T> {
        match self.0.lock().take() {
            Some(raised) => Err(raised),
            None => result,
        }
    }
}
