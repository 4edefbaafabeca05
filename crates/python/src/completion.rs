//! Completions as dicts in the form of OpenAI's API, which clients of other engines know.

use crate::generation::Generation;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// What all dicts of a completion say.
pub(crate) struct Heading {
    id: String,
    created: u64,
    model: String,
}

impl Heading {
    pub(crate) fn new(model: String) -> Self {
        static COMPLETIONS: AtomicU64 = AtomicU64::new(0);
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let id = format!("cmpl-{created}-{}", COMPLETIONS.fetch_add(1, Ordering::Relaxed));
        Heading { id, created, model }
    }

    /// One choice with that text.
    fn dict<'py>(&self, py: Python<'py>, text: &str, reason: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
        let choice = PyDict::new(py);
        choice.set_item("text", text)?;
        choice.set_item("index", 0)?;
        choice.set_item("logprobs", py.None())?;
        choice.set_item("finish_reason", reason)?;
        let dict = PyDict::new(py);
        dict.set_item("id", &self.id)?;
        dict.set_item("object", "text_completion")?;
        dict.set_item("created", self.created)?;
        dict.set_item("model", &self.model)?;
        dict.set_item("choices", PyList::new(py, [choice])?)?;
        Ok(dict)
    }

    /// A text that has ended, and how many tokens it has: of the prompt, and generated.
    pub(crate) fn whole<'py>(
        &self,
        py: Python<'py>,
        text: &str,
        reason: Option<&str>,
        (prompt, completion): (usize, usize),
    ) -> PyResult<Bound<'py, PyDict>> {
        let dict = self.dict(py, text, reason)?;
        let usage = PyDict::new(py);
        usage.set_item("prompt_tokens", prompt)?;
        usage.set_item("completion_tokens", completion)?;
        usage.set_item("total_tokens", prompt + completion)?;
        dict.set_item("usage", usage)?;
        Ok(dict)
    }
}

/// The whole completion.
pub(crate) fn whole<'py>(
    py: Python<'py>,
    heading: &Heading,
    generation: &Generation,
    echo: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let text = generation.rest(py)?;
    let reason = generation.finish_reason(py)?;
    heading.whole(py, &format!("{echo}{text}"), reason, generation.counts(py)?)
}

/// An iterator over the pieces of a completion; the last one has no text and says why it ended.
#[pyclass(frozen, module = "wgoose")]
pub(crate) struct CompletionStream {
    heading: Heading,
    generation: Generation,
    echo: String,
    echoed: AtomicBool,
    over: AtomicBool,
}

impl CompletionStream {
    pub(crate) fn new(heading: Heading, generation: Generation, echo: String) -> Self {
        let echoed = AtomicBool::new(echo.is_empty());
        CompletionStream { heading, generation, echo, echoed, over: AtomicBool::new(false) }
    }
}

#[pymethods]
impl CompletionStream {
    fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        if !self.echoed.swap(true, Ordering::Relaxed) {
            return self.heading.dict(py, &self.echo, None).map(Some);
        }
        if self.over.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // Whatever goes wrong is said once.
        let piece = self.generation.next(py).inspect_err(|_| self.over.store(true, Ordering::Relaxed))?;
        if let Some(piece) = piece {
            return self.heading.dict(py, &piece, None).map(Some);
        }
        if self.over.swap(true, Ordering::Relaxed) {
            return Ok(None);
        }
        self.heading.dict(py, "", self.generation.finish_reason(py)?).map(Some)
    }
}
