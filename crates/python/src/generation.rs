//! A generation: streamed text, from a separate sequence on a separate thread.

use crate::boundary::outside;
use crate::error::{Error, of_session};
use crate::fork::OfProcess;
use crate::handoff::{Handoff, Taken};
use crate::running;
use crate::state::State;
use parking_lot::Mutex;
use pyo3::prelude::*;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use wgoose_session::{self as session, GenerateOptions, Generated, GenerationEvent, Session, SessionError};

/// An iterator over the text of a generation, never splitting a character.
///
/// It reads and writes a sequence of its own, which began with the model's state; the model's state stays as it was. To
/// go on from here, set the model's state to this object's.
#[pyclass(frozen, module = "wgoose")]
pub(crate) struct Generation(OfProcess<Running>);

/// What runs.
struct Running {
    handoff: Arc<Handoff>,
    progress: Mutex<Progress>,
}

/// What a thread that generates comes back with.
type Outcome = (Session, Result<Ending, SessionError>);

enum Progress {
    Running(JoinHandle<Outcome>),
    Ended(Box<Session>, Ending),
    Failed,
}

impl Progress {
    /// The thread, unless it was waited for already; taking it leaves a failure until the outcome is known.
    fn take_worker(&mut self) -> Option<JoinHandle<Outcome>> {
        if !matches!(self, Progress::Running(_)) {
            return None;
        }
        match std::mem::replace(self, Progress::Failed) {
            Progress::Running(worker) => Some(worker),
            Progress::Ended(..) | Progress::Failed => None,
        }
    }
}

/// How a generation ended.
#[derive(Clone)]
struct Ending {
    prompt_tokens: usize,
    tokens: Vec<u32>,
    reason: Option<&'static str>,
    /// The last token, if the sequence has not read it.
    unread: Option<u32>,
}

impl Generation {
    /// Starts to generate in `session`.
    pub(crate) fn start(mut session: Session, prompt: Vec<u32>, options: GenerateOptions) -> std::io::Result<Self> {
        let handoff = Arc::new(Handoff::default());
        let run = move |handoff: &Handoff| {
            let ending = generate(&mut session, handoff, &prompt, &options);
            (session, ending)
        };
        let worker = running::spawn(Builder::new().name("wgoose generate".to_owned()), &handoff, run)?;
        Ok(Generation(OfProcess::new(Running { handoff, progress: Mutex::new(Progress::Running(worker)) })))
    }

    /// The next piece of text; signals are looked at meanwhile, and an interruption ends the generation.
    pub(crate) fn next(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let handoff = &self.0.get()?.handoff;
        loop {
            if let Err(interrupted) = py.check_signals() {
                handoff.close();
                return Err(interrupted);
            }
            match outside(py, || handoff.take(running::PATIENCE))? {
                Taken::Piece(piece) => return Ok(Some(piece)),
                Taken::Waiting => {}
                Taken::Done => return self.ended(py, |_, _| Ok(())).map(|_| None),
            }
        }
    }

    /// All of the text that is left.
    pub(crate) fn rest(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = String::new();
        while let Some(piece) = self.next(py)? {
            text.push_str(&piece);
        }
        Ok(text)
    }

    /// Waits for the end and looks at what it left. `None` where the generation failed; that is said once.
    fn ended<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&mut Session, &mut Ending) -> Result<T, SessionError> + Send,
    ) -> PyResult<Option<T>> {
        let running = self.0.get()?;
        outside(py, || {
            let mut progress = running.progress.lock();
            if let Some(worker) = progress.take_worker() {
                let (session, ending) = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                *progress = Progress::Ended(Box::new(session), ending.map_err(|e| of_session(&e))?);
            }
            match &mut *progress {
                Progress::Ended(session, ending) => look(session, ending).map(Some).map_err(|e| of_session(&e)),
                _ => Ok(None),
            }
        })?
    }

    /// Ends it, and looks at what it left.
    fn end<T: Send>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&mut Session, &mut Ending) -> Result<T, SessionError> + Send,
    ) -> PyResult<T> {
        self.close()?;
        self.ended(py, look)?.ok_or_else(|| Error::new_err("this generation failed: there is nothing left of it"))
    }

    pub(crate) fn counts(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        self.end(py, |_, ending| Ok((ending.prompt_tokens, ending.tokens.len())))
    }
}

#[pymethods]
impl Generation {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.next(py)
    }

    /// Ends the generation; iterating over it gives nothing more.
    fn close(&self) -> PyResult<()> {
        self.0.get()?.handoff.close();
        Ok(())
    }

    /// Why it ended: 'stop' (the text ended, or came to a stop string), 'length' (max_tokens), or None (closed before).
    /// Ends the generation.
    #[getter]
    pub(crate) fn finish_reason(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        self.end(py, |_, ending| Ok(ending.reason))
    }

    /// The tokens generated, those of a stop string included. Ends the generation.
    #[getter]
    fn tokens(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.end(py, |_, ending| Ok(ending.tokens.clone()))
    }

    /// Tokens of the prompt. Ends the generation.
    #[getter]
    fn prompt_tokens(&self, py: Python<'_>) -> PyResult<usize> {
        self.end(py, |_, ending| Ok(ending.prompt_tokens))
    }

    /// The state after the prompt and all of `tokens`. Ends the generation.
    #[getter]
    fn state(&self, py: Python<'_>) -> PyResult<State> {
        self.end(py, |session, ending| {
            if let Some(token) = ending.unread {
                session.decode(token)?;
                ending.unread = None;
            }
            Ok(State::new(session.state()?, *session.model().shape()))
        })
    }
}

impl Drop for Generation {
    /// Waits until the thread has ended, so that what it holds on the device is free again.
    fn drop(&mut self) {
        let Some(running) = self.0.get_mut() else { return };
        running.handoff.close();
        if let Some(worker) = running.progress.get_mut().take_worker() {
            // The thread may be in the middle of a pass: others need not wait for it.
            // How it ended is of interest to no one any more.
            let _ = Python::attach(|py| outside(py, || drop(worker.join())));
        }
    }
}

/// Generates until the end, a stop, or until the reader is gone.
fn generate(
    session: &mut Session,
    handoff: &Handoff,
    prompt: &[u32],
    options: &GenerateOptions,
) -> Result<Ending, SessionError> {
    let generated = session.generate_after(prompt, options, &mut |event| match event {
        GenerationEvent::Prefill { .. } | GenerationEvent::Logprobs(_) => handoff.flow(),
        GenerationEvent::Text(piece) => handoff.give(piece.to_owned()),
    })?;
    let reason = finish_reason(&generated);
    let (tokens, unread) = match reason {
        Some(_) => (generated.tokens.clone(), generated.unread()),
        // The reader was gone before the last token's text.
        None => (generated.read().to_vec(), None),
    };
    Ok(Ending { prompt_tokens: generated.prompt_tokens, tokens, reason, unread })
}

/// Why a text ended, as the OpenAI API has it; `None` where the caller ended it.
pub(crate) fn finish_reason(generated: &Generated) -> Option<&'static str> {
    match generated.ending {
        session::Ending::StopToken(_) | session::Ending::StopString(_) => Some("stop"),
        session::Ending::MaxTokens => Some("length"),
        session::Ending::Caller => None,
    }
}
