//! Text from the thread that generates to the one that reads, a piece at a time: the giver waits until it is taken, so
//! that nothing runs further ahead than its reader.

use parking_lot::{Condvar, Mutex};
use std::ops::ControlFlow;
use std::time::Duration;

/// Where pieces of text change hands.
#[derive(Default)]
pub(crate) struct Handoff {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    piece: Option<String>,
    /// The reader is gone.
    closed: bool,
    /// The giver is done.
    done: bool,
}

/// What a reader is given.
pub(crate) enum Taken {
    /// The next piece.
    Piece(String),
    /// Nothing yet.
    Waiting,
    /// There will be no more.
    Done,
}

impl Handoff {
    /// A break once the reader is gone.
    pub(crate) fn flow(&self) -> ControlFlow<()> {
        if self.inner.lock().closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Gives a piece, if there is any text, and waits until it is taken; breaks if it was not taken, or the next will
    /// not be.
    pub(crate) fn give(&self, piece: String) -> ControlFlow<()> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return ControlFlow::Break(());
        }
        if piece.is_empty() {
            return ControlFlow::Continue(());
        }
        inner.piece = Some(piece);
        self.changed.notify_all();
        while inner.piece.is_some() && !inner.closed {
            self.changed.wait(&mut inner);
        }
        // A piece that was taken counts as read, even if its reader has gone since.
        if inner.piece.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Takes the next piece, waiting for it no longer than `patience`.
    pub(crate) fn take(&self, patience: Duration) -> Taken {
        let mut inner = self.inner.lock();
        let idle = |inner: &mut Inner| inner.piece.is_none() && !inner.done && !inner.closed;
        self.changed.wait_while_for(&mut inner, idle, patience);
        if inner.closed {
            return Taken::Done;
        }
        match inner.piece.take() {
            Some(piece) => {
                self.changed.notify_all();
                Taken::Piece(piece)
            }
            None if inner.done => Taken::Done,
            None => Taken::Waiting,
        }
    }

    /// Says that the reader is gone.
    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.changed.notify_all();
    }

    /// Says that the giver is done.
    pub(crate) fn finish(&self) {
        self.inner.lock().done = true;
        self.changed.notify_all();
    }
}
