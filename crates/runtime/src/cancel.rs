//! The wish to end work before its time.

use crate::RuntimeError;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Looked at between passes, jobs and comparisons; copies share it. It is cancelled by a signal or another thread
/// ([`CancelToken::cancel`]), or by a function that is called at every look ([`CancelToken::polling`]). Once cancelled,
/// it stays so.
#[derive(Clone, Default)]
pub struct CancelToken {
    cancelled: Arc<AtomicBool>,
    poll: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
}

impl CancelToken {
    /// Asks `wants_to_end` at every look, on the thread that looks.
    pub fn polling(wants_to_end: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        CancelToken { cancelled: Arc::default(), poll: Some(Arc::new(wants_to_end)) }
    }

    /// Cancels the work; says whether it was cancelled before.
    pub fn cancel(&self) -> bool {
        self.cancelled.swap(true, Ordering::Relaxed)
    }

    /// Whether the work is to end.
    pub fn is_cancelled(&self) -> bool {
        let polled = || self.poll.as_ref().is_some_and(|wants_to_end| wants_to_end());
        if !self.cancelled.load(Ordering::Relaxed) && polled() {
            self.cancel();
        }
        self.cancelled.load(Ordering::Relaxed)
    }

    /// A break once the work is to end: what callbacks return.
    pub fn flow(&self) -> ControlFlow<()> {
        if self.is_cancelled() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// An error once the work is to end.
    ///
    /// # Errors
    /// [`RuntimeError::Cancelled`].
    pub fn check(&self) -> Result<(), RuntimeError> {
        if self.is_cancelled() { Err(RuntimeError::Cancelled) } else { Ok(()) }
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelToken").field("cancelled", &self.cancelled).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn copies_of_a_token_share_the_cancellation() {
        let token = CancelToken::default();
        let copy = token.clone();
        assert!(!copy.is_cancelled() && copy.check().is_ok() && copy.flow().is_continue());
        assert!(!token.cancel() && token.cancel());
        assert!(copy.is_cancelled() && copy.flow().is_break());
        assert!(matches!(copy.check(), Err(RuntimeError::Cancelled)));
    }

    #[test]
    fn a_function_is_asked_until_it_wants_to_end() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let token = CancelToken::polling(move || counted.fetch_add(1, Ordering::Relaxed) == 1);
        let copy = token.clone();
        assert!(!token.is_cancelled() && copy.is_cancelled());
        assert!(token.is_cancelled());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
