//! A trace: the output of every op of a model.

use crate::boundary::outside;
use crate::embedding::array;
use crate::error::{Error, InputError, of_other, of_runtime, of_session};
use crate::fork;
use crate::input;
use crate::interrupt::Interrupt;
use crate::load::{Adapter, Bytes, Options};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use wgoose_bench::Subject;
use wgoose_runtime::{Comparison, OpError};
use wgoose_session::{Backend, SessionBuilder, TraceError, TracedOp};

/// What an op made, kept for Python.
struct Kept {
    pass: usize,
    number: usize,
    layer: Option<u32>,
    name: String,
    op: &'static str,
    dims: Vec<usize>,
    values: Vec<f32>,
}

/// Shows what every op of the model makes, and the first that goes wrong on this GPU, as `wgoose dev trace` does.
/// Returns a dict.
///
/// outputs: a dict for each op in the order in which they run: pass, number in it, layer (None before the first and
/// behind the last), name, op, values (float32 [rows, columns] or [planes, rows, columns]); with out, written: how many
/// files. With first_divergence, ops: how many are within their tolerances, nearest: which came nearest to its own,
/// divergence: the first that is not, or None; both with name, op, layer, kernel, got, want, error and tolerance.
///
/// tokens: ids, as `Model.encode` makes them of a text. out: write each output into this folder instead, as
/// pass-P/NNN-blocks.L.NAME.npy. only: only the outputs of these names, such as 'att.key'. first_divergence: hold each
/// op against its CPU reference on the same operands, instead of outputs unless out is given; chunk=1 does so for the
/// kernels of decoding. plan, device, gpu_budget, cpu, foreign_plan, chunk: as in `Model.load`.
///
/// Raises LoadError, DeviceError, PlanError, InputError, Error; KeyboardInterrupt after the pass at hand.
#[pyfunction]
#[pyo3(signature = (path, tokens, plan=None, device=None, gpu_budget=None, cpu=false, *, out=None, only=None,
    first_divergence=false, foreign_plan=false, chunk=None))]
#[allow(clippy::needless_pass_by_value)] // as it comes from Python
pub(crate) fn trace<'py>(
    py: Python<'py>,
    path: PathBuf,
    tokens: &Bound<'py, PyAny>,
    plan: Option<PathBuf>,
    device: Option<Adapter>,
    gpu_budget: Option<Bytes>,
    cpu: bool,
    out: Option<PathBuf>,
    only: Option<Vec<String>>,
    first_divergence: bool,
    foreign_plan: bool,
    chunk: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    fork::enter()?;
    if first_divergence && cpu {
        return Err(InputError::new_err("the CPU reference diverges from nothing: leave out cpu or first_divergence"));
    }
    let tokens =
        input::tokens(tokens, &Err(InputError::new_err("token ids are wanted: Model.encode makes them of a text")))?;
    let builder = Options { plan, foreign_plan, device, cpu, gpu_budget, chunk, ..Options::default() }.builder()?;
    let report = PyDict::new(py);
    if out.is_some() || !first_divergence {
        let only = only.unwrap_or_default();
        let (kept, written) = outside(py, || outputs(builder.clone(), &path, &tokens, &only, out.as_deref()))??;
        match out {
            Some(_) => report.set_item("written", written)?,
            None => {
                let dicts = kept.into_iter().map(|kept| kept.dict(py)).collect::<PyResult<Vec<_>>>()?;
                report.set_item("outputs", PyList::new(py, dicts)?)?;
            }
        }
    }
    if first_divergence {
        let subject = Subject { builder, backend: Backend::Gpu, chunk };
        let comparison = outside(py, || compare(&subject, &path, &tokens))??;
        report.set_item("ops", comparison.ops)?;
        report.set_item("nearest", comparison.nearest.map(|error| of_op(py, &error)).transpose()?)?;
        let divergence = comparison.divergence.map(|at| -> PyResult<_> {
            let dict = of_op(py, &at.error)?;
            dict.set_item("pass", at.pass)?;
            dict.set_item("tokens", (at.tokens.start, at.tokens.end))?;
            dict.set_item("text", at.to_string())?;
            Ok(dict)
        });
        report.set_item("divergence", divergence.transpose()?)?;
    }
    Ok(report)
}

/// What ended a trace.
enum Ended {
    Trace(TraceError),
    Interrupted,
}

impl From<TraceError> for Ended {
    fn from(error: TraceError) -> Self {
        Ended::Trace(error)
    }
}

/// The outputs, or, where they are written, how many.
fn outputs(
    builder: SessionBuilder,
    path: &Path,
    tokens: &[u32],
    only: &[String],
    out: Option<&Path>,
) -> PyResult<(Vec<Kept>, usize)> {
    let mut session = builder.open(path).map_err(|e| of_session(&e))?;
    let (mut kept, mut written, interrupt) = (Vec::new(), 0, Interrupt::default());
    let traced = session.trace_selected(tokens, only, &mut |op: &TracedOp<'_>| {
        match out {
            _ if !op.is_selected => {}
            Some(folder) => {
                op.save(folder)?;
                written += 1;
            }
            None => kept.push(Kept::of(op)),
        }
        match interrupt.signals() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Ended::Interrupted),
        }
    });
    let traced = traced.map_err(|ended| match ended {
        Ended::Trace(TraceError::Session(error)) => of_session(&error),
        Ended::Trace(error @ TraceError::Unknown { .. }) => InputError::new_err(error.to_string()),
        Ended::Trace(error) => of_other(&error),
        Ended::Interrupted => Error::new_err("interrupted"),
    });
    interrupt.or_raise(traced)?;
    Ok((kept, written))
}

fn compare(subject: &Subject, path: &Path, tokens: &[u32]) -> PyResult<Comparison> {
    let mut executor = subject.executor(path, 1).map_err(|e| of_session(&e))?;
    let interrupt = Interrupt::default();
    let comparison = executor.compare_text(tokens, &mut |_| interrupt.signals());
    interrupt.or_raise(comparison.map_err(|e| of_runtime(&e)))
}

impl Kept {
    fn of(op: &TracedOp<'_>) -> Self {
        Kept {
            pass: op.value.pass,
            number: op.number,
            layer: op.value.layer,
            name: op.value.name.to_owned(),
            op: op.value.op,
            dims: op.dims().to_vec(),
            values: op.value.values.to_vec(),
        }
    }

    fn dict(self, py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("pass", self.pass)?;
        dict.set_item("number", self.number)?;
        dict.set_item("layer", self.layer)?;
        dict.set_item("name", self.name)?;
        dict.set_item("op", self.op)?;
        dict.set_item("values", array(py, &self.dims, self.values)?)?;
        Ok(dict)
    }
}

/// How far an op is from its reference.
fn of_op<'py>(py: Python<'py>, error: &OpError) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", &error.name)?;
    dict.set_item("op", error.op)?;
    dict.set_item("layer", error.layer)?;
    dict.set_item("kernel", &error.kernel)?;
    dict.set_item("got", error.got)?;
    dict.set_item("want", error.want)?;
    dict.set_item("error", error.error)?;
    dict.set_item("tolerance", error.tolerance)?;
    Ok(dict)
}
