//! The wish to end a sweep before its time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Raised once, by a signal or another thread, and looked at between jobs and while one runs in another process.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Raises it; says whether it was raised before.
    pub fn raise(&self) -> bool {
        self.0.swap(true, Ordering::Relaxed)
    }

    /// Whether it was raised.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
