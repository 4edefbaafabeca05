//! Ctrl-C: it ends an answer, not the program.

use super::command::COMMANDS;
use crate::ctrl_c::OnCtrlC;
use crate::failure::Failure;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const WAITING: u8 = 0;
const ANSWERING: u8 = 1;
const INTERRUPTED: u8 = 2;

/// Whether an answer is given, and whether it is to end.
pub(super) struct Interrupt {
    state: Arc<AtomicU8>,
    _on_ctrl_c: OnCtrlC,
}

impl Interrupt {
    /// From now on Ctrl-C does not end the program.
    ///
    /// # Errors
    /// The system refuses.
    pub(super) fn install() -> Result<Self, Failure> {
        let state = Arc::new(AtomicU8::new(WAITING));
        let of_handler = Arc::clone(&state);
        let on_ctrl_c = OnCtrlC::call(move || {
            let answering = of_handler.compare_exchange(ANSWERING, INTERRUPTED, Ordering::Relaxed, Ordering::Relaxed);
            if answering == Err(WAITING) {
                eprintln!("\n(no answer to end; {COMMANDS})");
            }
        })?;
        Ok(Interrupt { state, _on_ctrl_c: on_ctrl_c })
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
