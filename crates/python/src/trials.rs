//! The process in which [`tune`](crate::tune) runs its trials: another interpreter, which can be killed.

use crate::boundary::outside;
use crate::error::{LoadError, of_other, of_runtime};
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wgoose_bench::first_token;
use wgoose_loader::Model;
use wgoose_measure::runner::{GpuRunner, serve};
use wgoose_plans::PlanChoice;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, DeviceOptions};
use wgoose_session::{Session, one_line};

/// This interpreter, and what has another one of it run trials with this package; none where Python is part of another
/// program.
pub(crate) fn interpreter(py: Python<'_>) -> PyResult<Option<(PathBuf, Vec<OsString>)>> {
    let program: Option<PathBuf> = py.import("sys")?.getattr("executable")?.extract()?;
    let package: PathBuf = py.import("wgoose")?.getattr("__file__")?.extract()?;
    let Some(program) = program.filter(|program| program.is_file()) else { return Ok(None) };
    let Some(root) = package.parent().and_then(Path::parent) else { return Ok(None) };
    let root = root.into_pyobject(py)?.str()?.repr()?;
    let code = format!("import sys; sys.path[0] = {root}; from wgoose.trials import main; main()");
    Ok(Some((program, vec!["-c".into(), code.into()])))
}

/// Runs trials as standard input asks for them, until it ends.
#[pyfunction]
pub(crate) fn _run_trials(
    py: Python<'_>,
    model: PathBuf,
    reference: PathBuf,
    multiprocessors: u32,
    device: Option<String>,
    cache: Option<PathBuf>,
) -> PyResult<()> {
    let begun = Instant::now();
    outside(py, move || {
        let open = || {
            let options = DeviceOptions { adapter: device.clone(), cache: cache.clone(), ..DeviceOptions::default() };
            let device = Device::open_limited(&options, &|limits| limits.multiprocessors = multiprocessors);
            let device = device.map_err(|e| of_runtime(&e))?;
            let model = Arc::new(Model::open(&model).map_err(|e| LoadError::new_err(one_line(&e)))?);
            let runner = GpuRunner::of_trials(&device, &model, &catalogue::embedded(), &reference, begun);
            Ok((device, runner.map_err(|e| of_other(&e))?))
        };
        let start = |plan: &Path, tokens, is_chosen: &mut dyn FnMut()| {
            let builder = Session::builder().device(device.clone()).pipeline_cache(cache.clone());
            let builder = builder.plan(PlanChoice::File(plan.to_owned()));
            first_token(builder, &model, tokens, is_chosen).map_err(|e| of_other(&e))
        };
        serve(open, start)
    })?
}
