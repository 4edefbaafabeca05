//! Tuning from Python.

use crate::boundary::outside;
use crate::error::{InputError, LoadError, of_other, of_runtime};
use crate::fork;
use crate::interrupt::Interrupt;
use crate::load::Adapter;
use crate::trials;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_kernels::Precision;
use wgoose_loader::Model;
use wgoose_measure::objective::Objective;
use wgoose_measure::runner::ChildCommand;
use wgoose_measure::seed;
use wgoose_plans::catalogue;
use wgoose_plans::{Destination, Place, Store};
use wgoose_runtime::kernel_bench::open_measured;
use wgoose_runtime::{CancelToken, Device, DeviceOptions};
use wgoose_session::{model_class, one_line};
use wgoose_tuner::sweep::{Part, STRATEGIES, SweepOptions, Swept, UnknownPart, sweep};

/// Finds the best plan for a model on a device: every candidate is checked against the reference, then timed. Returns
/// what the plan is called, how many kernels were chosen, the chunk, and how many experiments were measured or
/// recalled.
///
/// out: the plan's file; None files it where `Model.load` finds it. budget: seconds to spend, roughly. ledger: where
/// measurements are kept, by default beside the plan; an interrupted run goes on where it was. exhaustive: try every
/// legal configuration. only: what to decide, of layouts, fusions, state, chunk and kernels; None for all. chunks:
/// prefill chunks to compare. sequences: tune also for batched decode of so many. allow_int8: try also kernels that
/// round to int8, with a quality gate of their own. fresh: search as if no plan were in use; otherwise the one that
/// `Model.load` finds stays unless another is better. seeds: a file of configurations that enter the race, as `wgoose
/// tune --seeds` takes it. in_process: run trials in this process, which a kernel that hangs or crashes takes with it;
/// by default they run in another interpreter, which is killed then. listen: called with a line of text for whatever
/// happens; what it raises, and KeyboardInterrupt, ends the sweep.
///
/// Raises LoadError, DeviceError, Error.
#[pyfunction]
#[pyo3(signature = (path, out=None, *, ledger=None, budget=300.0, exhaustive=false, only=None, chunks=None, sequences=None,
    allow_int8=false, fresh=false, seeds=None, in_process=false, device=None, listen=None))]
pub(crate) fn tune(
    py: Python<'_>,
    path: PathBuf,
    out: Option<PathBuf>,
    ledger: Option<PathBuf>,
    budget: f64,
    exhaustive: bool,
    only: Option<Vec<String>>,
    chunks: Option<Vec<u32>>,
    sequences: Option<u32>,
    allow_int8: bool,
    fresh: bool,
    seeds: Option<PathBuf>,
    in_process: bool,
    device: Option<Adapter>,
    listen: Option<Py<PyAny>>,
) -> PyResult<Py<PyDict>> {
    fork::enter()?;
    let begun = Instant::now();
    let budget = Duration::try_from_secs_f64(budget).map_err(|e| InputError::new_err(format!("budget: {e}")))?;
    if let Some(out) = out.as_ref().filter(|out| ledger.as_ref() == Some(*out)) {
        return Err(InputError::new_err(format!("{}: the plan and the measurements need a file each", out.display())));
    }
    let parse = |name: String| name.parse().map_err(|e: UnknownPart| InputError::new_err(e.to_string()));
    let parts = only.map(|names| names.into_iter().map(parse).collect::<PyResult<_>>()).transpose()?;
    let seeds = seeds.map(|path| seed::load(&path)).transpose().map_err(|e| InputError::new_err(one_line(&e)))?;
    let interpreter = if in_process { None } else { trials::interpreter(py)? };
    let opening = DeviceOptions {
        adapter: device.map(Adapter::name),
        cache: wgoose_files::default_cache_dir(),
        ..DeviceOptions::default()
    };
    let (name, swept) = outside(py, move || {
        let model = Arc::new(Model::open(&path).map_err(|e| LoadError::new_err(one_line(&e)))?);
        let device = open_measured(&opening).map_err(|e| of_runtime(&e))?;
        let class = model_class(&model);
        let destination = Destination::new(out).map_err(|e| of_other(&e))?;
        let chat = Objective::chat(device.is_cpu());
        let objective = sequences.map_or(chat.clone(), |sequences| chat.and_together(sequences));
        let ledger = ledger.unwrap_or_else(|| destination.ledger(device.fingerprint(), &class));
        let child = interpreter.map(|(program, interpreter)| {
            let folder = ledger.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let command = ChildCommand::new(program, &path, (&device, &opening), folder)?;
            Ok::<_, std::io::Error>(ChildCommand { interpreter, ..command })
        });
        let catalogue = catalogue::embedded();
        let place =
            Place { device: device.fingerprint(), limits: device.limits(), class: &class, catalogue: &catalogue };
        let in_use = if fresh { None } else { place.in_use(Store::of_user().as_ref()) };
        let options = SweepOptions {
            ledger,
            begun,
            budget,
            parts: parts.unwrap_or_else(|| Part::ALL.into()),
            exhaustive,
            chunks: chunks.unwrap_or_else(|| SweepOptions::default_chunks(&device)),
            objective,
            persistent: !device.is_cpu(),
            catalogue,
            allowed: if allow_int8 { Precision::Q8 } else { Precision::F16 },
            child: child.transpose().map_err(|e| of_other(&e))?,
            strategy: STRATEGIES[0],
            in_use: in_use.map(|chosen| chosen.plan),
            seeds: seeds.unwrap_or_default(),
            hints: wgoose_plans::of_maker(device.fingerprint().vendor),
            cancel: CancelToken::default(),
        };
        let swept = interruptibly(&device, &model, &options, listen.as_ref())?;
        let name = match &destination {
            Destination::Store(_) if swept.is_unjudged => destination.name(device.fingerprint(), &class),
            _ => destination.save(&class, &swept.plan).map_err(|e| of_other(&e))?,
        };
        Ok::<_, PyErr>((name, swept))
    })??;
    let report = PyDict::new(py);
    report.set_item("plan", name)?;
    report.set_item("kernels", swept.plan.choices.len())?;
    report.set_item("prefill_chunk", swept.plan.prefill_chunk)?;
    report.set_item("measured", swept.measured)?;
    report.set_item("recalled", swept.recalled)?;
    Ok(report.unbind())
}

/// Sweeps until the end, or until Python raises an exception.
fn interruptibly(
    device: &Arc<Device>,
    model: &Arc<Model>,
    options: &SweepOptions,
    listen: Option<&Py<PyAny>>,
) -> PyResult<Swept> {
    let interrupt = Interrupt::default();
    let swept =
        sweep(device, model, options, &mut |event| interrupt.look(listen, |py| (event.to_string(),).into_pyobject(py)));
    interrupt.or_raise(swept.map_err(|e| of_other(&e)))
}
