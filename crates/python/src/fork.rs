//! Forked processes. A fork does not copy threads: the driver's, those that compute, those that hold a lock. Waiting
//! for one of them would never end, even where a value is dropped. So the process that used the package first is the
//! only one: in another process its values can be neither used nor dropped, and are leaked.

use crate::error::ForkError;
use pyo3::PyResult;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The process that used the package first; 0 while there is none. One that only imported it may fork as it likes.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The package is used here: at the beginning of whatever makes threads, a device or a file.
pub(crate) fn enter() -> PyResult<()> {
    let here = std::process::id();
    match OWNER.compare_exchange(0, here, Relaxed, Relaxed) {
        Ok(_) => Ok(()),
        Err(owner) if owner == here => Ok(()),
        Err(owner) => Err(ForkError::new_err(format!(
            "process {here} was forked from {owner}, which had used wgoose before: start processes with 'spawn' \
             (multiprocessing.set_start_method), or load no model before forking"
        ))),
    }
}

/// Whether nothing of another process is at hand.
pub(crate) fn is_owner() -> bool {
    [0, std::process::id()].contains(&OWNER.load(Relaxed))
}

/// What belongs to the process that made it.
pub(crate) struct OfProcess<T>(Option<T>);

impl<T> OfProcess<T> {
    /// Of this one.
    pub(crate) fn new(value: T) -> Self {
        OfProcess(Some(value))
    }

    /// The value.
    ///
    /// # Errors
    /// It belongs to another process.
    pub(crate) fn get(&self) -> PyResult<&T> {
        enter()?;
        // It is there until the drop.
        self.0.as_ref().ok_or_else(|| ForkError::new_err("it was dropped"))
    }

    /// The value, to be taken apart in a drop; `None` if it belongs to another process.
    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut().filter(|_| is_owner())
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if !is_owner() {
            std::mem::forget(self.0.take());
        }
    }
}
