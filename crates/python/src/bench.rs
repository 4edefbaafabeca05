//! Benchmarks from Python.

use crate::boundary::outside;
use crate::error::{InputError, of_other};
use crate::fork;
use crate::interrupt::Interrupt;
use crate::load::{Adapter, Bytes, Options};
use pyo3::prelude::*;
use std::path::PathBuf;
use wgoose_bench::{Load, Subject, measure};
use wgoose_measure::timer::AtLeast;
use wgoose_session::Backend;

/// Measures a model as `wgoose bench` does: loading, the first token, reading a prompt, writing greedily; medians of so
/// many samples, which are returned too. The answers must pass the quality gate, whose reference runs on the CPU once
/// and is then kept in the folder `cache`.
///
/// listen: called with a line of text for whatever comes next; what it raises, and KeyboardInterrupt, end the
/// measurement after the run at hand.
///
/// Raises LoadError, DeviceError, PlanError, Error.
#[pyfunction]
#[pyo3(signature = (path, plan=None, device=None, gpu_budget=None, cpu=false, *, foreign_plan=false, chunk=None,
    prefill_tokens=256, decode_tokens=64, sequences=1, runs=6, cache=None, listen=None))]
pub(crate) fn bench(
    py: Python<'_>,
    path: PathBuf,
    plan: Option<PathBuf>,
    device: Option<Adapter>,
    gpu_budget: Option<Bytes>,
    cpu: bool,
    foreign_plan: bool,
    chunk: Option<u32>,
    prefill_tokens: u32,
    decode_tokens: u32,
    sequences: u32,
    runs: u32,
    cache: Option<PathBuf>,
    listen: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    fork::enter()?;
    if [prefill_tokens, decode_tokens, sequences, runs].contains(&0) {
        return Err(InputError::new_err("prefill_tokens, decode_tokens, sequences and runs are at least 1"));
    }
    let options = Options { plan, foreign_plan, device, cpu, gpu_budget, chunk, ..Options::default() };
    let backend = if cpu { Backend::Cpu } else { Backend::Gpu };
    let subject = Subject { builder: options.builder()?, backend, chunk };
    let load = Load {
        prefill_tokens: prefill_tokens as usize,
        decode_tokens: decode_tokens as usize,
        sequences: sequences as usize,
        at_least: AtLeast { runs: runs as usize, ms: 0.0 },
    };
    let record = outside(py, move || {
        let interrupt = Interrupt::default();
        let record = measure(&path, &subject, &load, "", "", cache.as_deref(), &interrupt.token(), &mut |now| {
            interrupt.look(listen.as_ref(), |py| (now.to_string(),).into_pyobject(py))
        });
        let record = interrupt.or_raise(record.map_err(|e| of_bench(&e)))?;
        serde_json::to_string(&record).map_err(|e| of_other(&e))
    })??;
    let record = py.import("json")?.call_method1("loads", (record,))?;
    // They are for records of several benchmarks.
    for name in ["title", "change"] {
        record.del_item(name)?;
    }
    Ok(record.unbind())
}

fn of_bench(error: &wgoose_bench::BenchError) -> PyErr {
    match error {
        wgoose_bench::BenchError::Session(error) => crate::error::of_session(error),
        other => of_other(other),
    }
}
