//! Ctrl-C and SIGTERM: one handler of the process, which does what the verb at work wants. Otherwise they end the
//! program, and no file is left half written.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use wgoose_runtime::CancelToken;

/// What can come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt,
    /// The system, or `kill`.
    Terminate,
}

impl Signal {
    /// What a program that it ends exits with, as shells have it: 128 and its number.
    fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
        }
    }
}

type Handler = Box<dyn FnMut(Signal) -> ControlFlow<()> + Send>;

static HANDLER: Mutex<Option<Handler>> = Mutex::new(None);

/// The exit code of the last one.
static LAST: AtomicU8 = AtomicU8::new(130);

/// Does this when one comes while it lives; a break ends the program, as without it.
pub(crate) struct OnSignal(());

impl OnSignal {
    /// From now on.
    pub(crate) fn call(handler: impl FnMut(Signal) -> ControlFlow<()> + Send + 'static) -> Self {
        set(Some(Box::new(handler)));
        OnSignal(())
    }

    /// The first signal cancels work, a second one ends the program.
    pub(crate) fn cancel(work: &CancelToken) -> Self {
        let work = work.clone();
        OnSignal::call(move |_| if work.cancel() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

impl Drop for OnSignal {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(handler: Option<Handler>) {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = handler;
}

/// What a program that broke off what it did exits with.
pub(crate) fn exit_code() -> u8 {
    LAST.load(Ordering::Relaxed)
}

/// Signals come here from now on, on a thread of their own.
///
/// # Errors
/// The system refuses.
pub(crate) fn install() -> io::Result<()> {
    listen(|signal| {
        LAST.store(signal.exit_code(), Ordering::Relaxed);
        let wanted = match &mut *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(handler) => handler(signal),
            None => ControlFlow::Break(()),
        };
        if wanted.is_break() {
            wgoose_files::remove_unfinished();
            eprintln!("wgoose: interrupted");
            exit(signal.exit_code().into());
        }
    })
}

#[cfg(unix)]
fn listen(handle: impl Fn(Signal) + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let listen = move || {
        signals
            .forever()
            .for_each(|signal| handle(if signal == SIGINT { Signal::Interrupt } else { Signal::Terminate }));
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map(drop)
}

#[cfg(not(unix))]
fn listen(handle: impl Fn(Signal) + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(move || handle(Signal::Interrupt)).map_err(io::Error::other)
}

/// At once: what libraries do when a program ends is no good while other threads are inside them.
#[cfg(unix)]
fn exit(code: i32) -> ! {
    signal_hook::low_level::exit(code)
}

#[cfg(not(unix))]
fn exit(code: i32) -> ! {
    std::process::exit(code)
}
