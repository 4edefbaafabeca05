//! Threads that generate, and that open models. Python must not end under them: a driver that is unloaded while they call it takes the process
//! with it. At exit they are told to stop, and waited for.

use crate::boundary::outside;
use crate::error::Error;
use crate::handoff::{Handoff, Taken};
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How often signals are looked at while a thread is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);

/// Those that may still run, by where they give their text.
static RUNNING: Mutex<Vec<Arc<Handoff>>> = Mutex::new(Vec::new());

/// Runs what cannot be broken off. An interruption returns at once, and leaves it to its thread, which drops the result.
///
/// # Errors
/// What a signal raises; no thread starts.
pub(crate) fn wait_for<T: Send + 'static>(py: Python<'_>, run: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let handoff = Arc::default();
    // Without a name: threads of drivers would inherit it.
    let worker =
        spawn(Builder::new(), &handoff, |_| run()).map_err(|e| Error::new_err(format!("no thread starts: {e}")))?;
    while !matches!(outside(py, || handoff.take(PATIENCE))?, Taken::Done) {
        py.check_signals()?;
    }
    outside(py, || worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Starts a thread that gives text; [`Handoff::finish`] is called however it ends.
pub(crate) fn spawn<T: Send + 'static>(
    thread: Builder,
    handoff: &Arc<Handoff>,
    run: impl FnOnce(&Handoff) -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    let entry = Entry(Arc::clone(handoff));
    RUNNING.lock().push(Arc::clone(handoff));
    thread.spawn(move || {
        // Also where it panics, or does not even start.
        let entry = entry;
        run(&entry.0)
    })
}

/// Stops all of them and returns when they have ended.
pub(crate) fn stop_all() {
    loop {
        let running = RUNNING.lock().clone();
        if running.is_empty() {
            return;
        }
        running.iter().for_each(|handoff| handoff.close());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

struct Entry(Arc<Handoff>);

impl Drop for Entry {
    fn drop(&mut self) {
        self.0.finish();
        RUNNING.lock().retain(|other| !Arc::ptr_eq(other, &self.0));
    }
}
