//! Ctrl-C: one handler of the process, which does what the verb at work wants.

use crate::failure::{Failure, INTERRUPTED};
use std::sync::{Mutex, Once, PoisonError};

type Handler = Box<dyn FnMut() + Send>;

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);
static INSTALL: Once = Once::new();

/// Does this on Ctrl-C while it lives; afterwards Ctrl-C ends the program.
pub(crate) struct OnCtrlC(());

impl OnCtrlC {
    /// From now on.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn call(handler: impl FnMut() + Send + 'static) -> Result<Self, Failure> {
        set(Some(Box::new(handler)));
        let mut installed = Ok(());
        INSTALL.call_once(|| installed = ctrlc::set_handler(handle));
        installed?;
        Ok(OnCtrlC(()))
    }
}

impl Drop for OnCtrlC {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(handler: Option<Handler>) {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = handler;
}

fn handle() {
    match &mut *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(handler) => handler(),
        None => std::process::exit(INTERRUPTED.into()),
    }
}
