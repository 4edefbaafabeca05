//! How well a model predicts a text.

use crate::boundary::outside;
use crate::error::{Error, InputError, of_other, of_session};
use crate::fork;
use crate::input;
use crate::interrupt::Interrupt;
use crate::load::{Adapter, Bytes, Merging, Options};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::io::{Cursor, Read};
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::{Path, PathBuf};
use wgoose_session::eval::{EvalError, EvalOptions, evaluate as run};
use wgoose_session::{Backend, PlanChoice, Session, VocabularyChoice};

/// How well a model predicts a text, as `wgoose eval` has it: bits per byte, perplexity, and, with against, how far it
/// is from another model, quantisation or plan on the same tokens. Returns a dict, as `wgoose eval --json` prints it.
///
/// text: a str or bytes, or the path of a file (an os.PathLike). Every token counts: reading begins with end-of-text,
/// token 0. context: begin anew, with a fresh state, every so many tokens; None carries the state through the whole
/// text. limit: stop after so many tokens. against: another model's path, or 'reference', the same model on the CPU
/// reference, which is slow. against_plan: plan of that model, found if None. plan, device, gpu_budget, cpu,
/// foreign_plan, chunk, ignore_unknown, vocab, adapter, adapter_initial: as in `Model.load`; another model is read
/// without the adapter. listen: called with the bytes read and the bits per byte so far; what it raises, and
/// KeyboardInterrupt, end the reading after the pass at hand.
///
/// Raises LoadError, DeviceError, PlanError, InputError, Error.
#[pyfunction]
#[pyo3(signature = (path, text, plan=None, device=None, gpu_budget=None, cpu=false, *, context=None, limit=None,
    against=None, against_plan=None, foreign_plan=false, chunk=None, ignore_unknown=false, vocab=None, adapter=None,
    adapter_initial=None, listen=None))]
pub(crate) fn evaluate(
    py: Python<'_>,
    path: PathBuf,
    text: &Bound<'_, PyAny>,
    plan: Option<PathBuf>,
    device: Option<Adapter>,
    gpu_budget: Option<Bytes>,
    cpu: bool,
    context: Option<NonZeroUsize>,
    limit: Option<NonZeroU64>,
    against: Option<PathBuf>,
    against_plan: Option<PathBuf>,
    foreign_plan: bool,
    chunk: Option<u32>,
    ignore_unknown: bool,
    vocab: Option<PathBuf>,
    adapter: Option<Merging>,
    adapter_initial: Option<PathBuf>,
    listen: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    fork::enter()?;
    let (mut text, name) = source(text)?;
    let adapter = Merging::source(adapter, adapter_initial)?;
    let loading = Options {
        plan,
        foreign_plan,
        device,
        cpu,
        gpu_budget,
        chunk,
        ignore_unknown,
        vocab: vocab.clone(),
        adapter: adapter.clone(),
        ..Options::default()
    };
    let builder = loading.builder()?;
    let is_reference = against.as_deref() == Some(Path::new("reference"));
    if against_plan.is_some() && (is_reference || against.is_none()) {
        return Err(InputError::new_err("against_plan is the plan of a model: name one in against"));
    }
    let options = EvalOptions { context, limit };
    let json = outside(py, move || {
        let open =
            |builder: wgoose_session::SessionBuilder, path: &Path| builder.open(path).map_err(|e| of_session(&e));
        let mut reference = match &against {
            None => None,
            Some(_) if is_reference => {
                let reference = Session::builder().backend(Backend::Cpu).ignore_unknown(ignore_unknown);
                let vocabulary = VocabularyChoice::named(vocab.map(Into::into));
                Some(open(reference.vocabulary(vocabulary).adapter(adapter), &path)?)
            }
            Some(other) => {
                let plan = PlanChoice::named(against_plan.map(Into::into));
                Some(open(builder.clone().plan(plan).adapter(None), other)?)
            }
        };
        let mut model = open(builder, &path)?;
        let interrupt = Interrupt::default();
        let evaluation = run(&mut model, reference.as_mut(), &mut *text, &options, &mut |score| {
            interrupt.look(listen.as_ref(), |py| (score.bytes, score.bits_per_byte()).into_pyobject(py))
        });
        let evaluation = interrupt.or_raise(evaluation.map_err(|e| of_eval(&e, name.as_deref())))?;
        serde_json::to_string(&evaluation.json()).map_err(|e| of_other(&e))
    })??;
    Ok(py.import("json")?.call_method1("loads", (json,))?.unbind())
}

/// A text, and the file that it is in, if any.
pub(crate) fn source(text: &Bound<'_, PyAny>) -> PyResult<(Box<dyn Read + Send>, Option<PathBuf>)> {
    if text.is_instance_of::<PyString>() || text.is_instance_of::<PyBytes>() {
        return Ok((Box::new(Cursor::new(input::bytes(text)?)), None));
    }
    let path: PathBuf = text.extract()?;
    let file = wgoose_files::open_text(&path).map_err(|e| InputError::new_err(format!("{}: {e}", path.display())))?;
    Ok((Box::new(file), Some(path)))
}

pub(crate) fn of_eval(error: &EvalError, text: Option<&Path>) -> PyErr {
    let line = text.map_or_else(|| error.to_string(), |path| format!("{}: {error}", path.display()));
    match error {
        EvalError::Session(error) => of_session(error),
        EvalError::Empty => InputError::new_err(line),
        EvalError::Text(_) => Error::new_err(line),
        EvalError::Rows { .. } | EvalError::Vocabulary { .. } => InputError::new_err(error.to_string()),
        EvalError::NoNumbers { .. } => of_other(error),
    }
}
