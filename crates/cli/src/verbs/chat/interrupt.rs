//! Ctrl-C: it ends an answer, not the program, which SIGTERM does.

use crate::signals::{OnSignal, Signal};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const ANSWERING: u8 = 1;
const INTERRUPTED: u8 = 2;

/// Whether an answer is given, and whether it is to end.
pub(super) struct Interrupt {
    state: Arc<AtomicU8>,
    _on_signal: OnSignal,
}

impl Interrupt {
    /// From now on Ctrl-C does not end the program.
    pub(super) fn install() -> Self {
        let state = Arc::new(AtomicU8::new(WAITING));
        let of_handler = Arc::clone(&state);
        let on_signal = OnSignal::call(move |signal| {
            if signal == Signal::Terminate {
                return ControlFlow::Break(());
            }
            let answering = of_handler.compare_exchange(ANSWERING, INTERRUPTED, Ordering::Relaxed, Ordering::Relaxed);
            if answering == Err(WAITING) {
                eprintln!("\n(no answer to end; Ctrl-D or /quit leaves)");
            }
            ControlFlow::Continue(())
        });
        Interrupt { state, _on_signal: on_signal }
    }

    /// An answer begins.
    pub(super) fn answering(&self) {
        self.state.store(ANSWERING, Ordering::Relaxed);
    }

    /// Whether the answer is to end.
    pub(super) fn is_wanted(&self) -> bool {
        self.state.load(Ordering::Relaxed) == INTERRUPTED
    }

    /// The answer has ended.
    pub(super) fn waiting(&self) {
        self.state.store(WAITING, Ordering::Relaxed);
    }
}
