//! Model files that are written: converted and synthetic ones.

use crate::boundary::outside;
use crate::error::{InputError, LoadError, of_other, of_session};
use crate::evaluate::{of_eval, source};
use crate::fork;
use crate::interrupt::Interrupt;
use crate::load::{Adapter, Bytes, Merging, Options};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::convert::ConvertError;
use wgoose_loader::writer::{Mix, Setting, UnknownSetting, WriteError};
use wgoose_session::bit_allocation::{AllocationError, AllocationGoal, AllocationOptions, AllocationStep, allocate};
use wgoose_session::{
    ConvertFileOptions, ModelFileError, SynthFileOptions, VocabularyChoice, convert_file, one_line, synth_file,
};

/// Writes a model as GGUF, or as safetensors, as `wgoose convert` does; the names say which. Returns a dict: bytes,
/// tensors and weights of the file, its mix of formats, source_bytes, rounding (the largest error that rounding has
/// made of one weight, relative, rms), worst (which) and, where it was checked, checked (weights compared).
///
/// to: the formats, 'F32', 'F16', 'BF16', 'Q8_0', 'Q4_0', 'Q4_K_M', 'Q5_K_M' or 'Q6_K'; None keeps the precision of the
/// source, F16 if it is quantised. 'auto' runs the model, measures every matrix in every format, and writes the
/// smallest file whose mean KL divergence from the source is at most target_kl nats a token, or the file of least
/// divergence that has at most budget_bytes (an int, or text such as '400MiB'); the dict then has allocation: tokens,
/// kl (measured), estimated_kl, mixes (Q4_K_M, auto and source, with bytes and divergence) and tensors (every matrix
/// with its format and what each format costs). text: a str or bytes, or the path of a file (an os.PathLike), to
/// measure on; None has the model write one. limit: most tokens to measure on, 1024 if None. plan, device, gpu_budget,
/// cpu, foreign_plan, chunk: as in `Model.load`.
///
/// set: metadata of a GGUF file, such as {'general.license': 'MIT'}, beside what the source says of itself or in its
/// place. force: replace a file of that name. check: read the file back and compare every tensor before it appears.
/// ignore_unknown: leave out tensors that no op reads; otherwise such a source is a LoadError. adapter,
/// adapter_initial: as in `Model.load`; the dict then has adapter, what was merged. vocab: a
/// vocabulary file, or 'world', for a GGUF file whose source has none and has other than 65536 tokens.
/// listen: called with the bytes done and in total, of the writing and then of the check, with 'auto' before that with
/// the measurements; what it raises, and KeyboardInterrupt, leave no file.
///
/// Raises LoadError, InputError (a name, a format, a goal), Error; with 'auto' also DeviceError and PlanError.
#[pyfunction]
#[pyo3(signature = (path, out, to=None, *, target_kl=None, budget_bytes=None, text=None, limit=None, plan=None, device=None,
    gpu_budget=None, cpu=false, foreign_plan=false, chunk=None, set=None, force=false, check=false,
    ignore_unknown=false, vocab=None, adapter=None, adapter_initial=None, listen=None))]
#[allow(clippy::needless_pass_by_value)] // as it comes from Python
pub(crate) fn convert(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    to: Option<&str>,
    target_kl: Option<f64>,
    budget_bytes: Option<Bytes>,
    text: Option<Bound<'_, PyAny>>,
    limit: Option<NonZeroUsize>,
    plan: Option<PathBuf>,
    device: Option<Adapter>,
    gpu_budget: Option<Bytes>,
    cpu: bool,
    foreign_plan: bool,
    chunk: Option<u32>,
    set: Option<Bound<'_, PyMapping>>,
    force: bool,
    check: bool,
    ignore_unknown: bool,
    vocab: Option<PathBuf>,
    adapter: Option<Merging>,
    adapter_initial: Option<PathBuf>,
    listen: Option<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    fork::enter()?;
    let set = set.map_or_else(|| Ok(Vec::new()), |set| settings(&set))?;
    let is_auto = to.is_some_and(|to| to.eq_ignore_ascii_case("auto"));
    let to = to.filter(|_| !is_auto).map(mix).transpose()?;
    let goal = goal(is_auto, target_kl, budget_bytes)?;
    if !is_auto && (text.is_some() || limit.is_some()) {
        return Err(InputError::new_err("text and limit choose formats: they go with to='auto'"));
    }
    let text = text.map(|text| source(&text)).transpose()?;
    let adapter = Merging::source(adapter, adapter_initial)?;
    let mut options = ConvertFileOptions {
        to,
        chosen: None,
        set,
        replace: force,
        check,
        most_rounding: None,
        ignore_unknown,
        vocabulary: VocabularyChoice::named(vocab.clone().map(Into::into)),
        adapter: adapter.clone(),
    };
    let loading = Options {
        plan,
        foreign_plan,
        ignore_unknown,
        vocab,
        adapter,
        device,
        cpu,
        gpu_budget,
        chunk,
        ..Options::default()
    };
    let builder = loading.builder()?;
    let json = outside(py, move || {
        let mut allocation = None;
        if let Some(goal) = goal {
            let wanted = AllocationOptions { goal, tokens: limit.unwrap_or(AllocationOptions::TOKENS) };
            let (mut text, name) = text.map_or((None, None), |(text, name)| (Some(text), name));
            let text = text.as_mut().map(|text| &mut **text as &mut dyn Read);
            let interrupt = Interrupt::default();
            let made = allocate(&path, &out, &options, &wanted, builder, text, &mut |step| match step {
                AllocationStep::Tensor { done, total, .. } => {
                    interrupt.look(listen.as_ref(), |py| (done, total).into_pyobject(py))
                }
                AllocationStep::Text { .. } | AllocationStep::Measurements { .. } | AllocationStep::Mix { .. } => {
                    interrupt.signals()
                }
            });
            let made = interrupt.or_raise(made.map_err(|e| of_allocation(&e, name.as_deref())))?;
            (options.to, options.chosen) = (Some(made.mix), Some(made.chosen.clone()));
            allocation = Some(made.json());
        }
        let interrupt = Interrupt::default();
        let file = convert_file(&path, &out, &options, &mut |done, total| {
            interrupt.look(listen.as_ref(), |py| (done, total).into_pyobject(py))
        });
        let mut fields = interrupt.or_raise(file.map_err(|e| of_file(&e)))?.json();
        if let Some(allocation) = allocation {
            fields["allocation"] = allocation;
        }
        serde_json::to_string(&fields).map_err(|e| of_other(&e))
    })??;
    Ok(py.import("json")?.call_method1("loads", (json,))?.unbind())
}

/// What formats are chosen for, if they are.
fn goal(is_auto: bool, target_kl: Option<f64>, budget_bytes: Option<Bytes>) -> PyResult<Option<AllocationGoal>> {
    match (is_auto, target_kl, budget_bytes) {
        (false, None, None) => Ok(None),
        (true, Some(kl), None) => Ok(Some(AllocationGoal::Divergence(kl))),
        (true, None, Some(bytes)) => Ok(Some(AllocationGoal::Bytes(bytes.count()?))),
        (true, ..) => Err(InputError::new_err("to='auto' needs one goal: target_kl or budget_bytes")),
        (false, ..) => Err(InputError::new_err("target_kl and budget_bytes choose formats: they go with to='auto'")),
    }
}

/// Makes a synthetic model, as `wgoose dev synth` does: same options, same bytes. Returns a dict: bytes, tensors and
/// weights of the file, and its mix of formats.
///
/// preset: a published size, '0.1B', '0.4B', '1.5B', '2.9B', '7.2B' or '13.3B'; or layers and width for a size of your
/// own. ffn: width of the channel mix, 4 x width if None. head_size: channels per head, 64 if None. vocab: rows of the
/// embedding and of the head, 65536 if None. ranks: of the adapters: decay, iclr, value, gate. deep_embed: size of the
/// matrices of an RWKV-7a model, 32 in published ones; None makes an RWKV-7 model. mix: formats as in `convert`. hot:
/// let relu^2 come near the largest f16. ffn_zeros: share of zeros among the squares that ffn.value is multiplied with,
/// 0.5 to 0.99. listen: as in `convert`.
///
/// Raises InputError (a size, a format, a name), Error.
#[pyfunction]
#[pyo3(signature = (out, preset=None, *, layers=None, width=None, ffn=None, head_size=None, vocab=None, ranks=None,
    deep_embed=None, mix="F16", seed=0, hot=false, ffn_zeros=None, listen=None))]
#[allow(clippy::needless_pass_by_value)] // as it comes from Python
pub(crate) fn synth(
    py: Python<'_>,
    out: PathBuf,
    preset: Option<&str>,
    layers: Option<u32>,
    width: Option<u32>,
    ffn: Option<u32>,
    head_size: Option<u32>,
    vocab: Option<u32>,
    ranks: Option<[u32; 4]>,
    deep_embed: Option<u32>,
    mix: &str,
    seed: u64,
    hot: bool,
    ffn_zeros: Option<f32>,
    listen: Option<Py<PyAny>>,
) -> PyResult<Py<PyDict>> {
    fork::enter()?;
    let mut shape = match (preset, layers, width) {
        (Some(name), None, None) => ModelShape::preset(name).ok_or_else(|| {
            let names = ModelShape::PRESETS.map(|(name, _)| name).join(", ");
            InputError::new_err(format!("preset '{name}' is none of {names}"))
        })?,
        (None, Some(layers), Some(width)) => ModelShape::small(layers, width),
        _ => return Err(InputError::new_err("either preset, or layers and width: a model has one size")),
    };
    shape.ffn = ffn.unwrap_or(shape.ffn);
    shape.head_size = head_size.unwrap_or(shape.head_size);
    shape.vocab = vocab.unwrap_or(shape.vocab);
    shape.deep_embed = deep_embed;
    if let Some([decay, iclr, value, gate]) = ranks {
        shape.ranks = LoraRanks { decay, iclr, value, gate };
    }
    let options = SynthFileOptions { shape, mix: self::mix(mix)?, seed, hot, ffn_zeros };
    let written = outside(py, || {
        let interrupt = Interrupt::default();
        let written = synth_file(&out, &options, &mut |done, total| {
            interrupt.look(listen.as_ref(), |py| (done, total).into_pyobject(py))
        });
        interrupt.or_raise(written.map_err(|e| of_file(&e)))
    })??;
    let report = PyDict::new(py);
    report.set_item("bytes", written.bytes)?;
    report.set_item("tensors", written.tensors)?;
    report.set_item("weights", written.weights)?;
    report.set_item("mix", options.mix.name())?;
    Ok(report.unbind())
}

fn mix(name: &str) -> PyResult<Mix> {
    Mix::from_str(name).map_err(|e| InputError::new_err(e.to_string()))
}

/// In the order of the mapping: keys that are new follow one another in the file.
fn settings(set: &Bound<'_, PyMapping>) -> PyResult<Vec<Setting>> {
    let one = |item: Bound<'_, PyAny>| {
        let (key, value): (String, String) = item.extract()?;
        format!("{key}={value}").parse().map_err(|e: UnknownSetting| InputError::new_err(e.to_string()))
    };
    set.items()?.iter().map(one).collect()
}

fn of_allocation(error: &AllocationError, text: Option<&Path>) -> PyErr {
    match error {
        AllocationError::File(error) => of_file(error),
        AllocationError::Session(error) => of_session(error),
        AllocationError::Eval(error) => of_eval(error, text),
        AllocationError::Target(_)
        | AllocationError::BudgetTooSmall { .. }
        | AllocationError::TargetTooSmall { .. }
        | AllocationError::Convert(ConvertError::Range { .. }) => InputError::new_err(one_line(error)),
        AllocationError::Convert(ConvertError::Load(_)) => LoadError::new_err(one_line(error)),
        AllocationError::Convert(ConvertError::Write(WriteError::OneFormat)) => InputError::new_err(one_line(error)),
        AllocationError::Convert(_) | AllocationError::Stopped => of_other(error),
    }
}

fn of_file(error: &ModelFileError) -> PyErr {
    use wgoose_loader::synth::SynthError;
    let line = one_line(error);
    let of_write = |write: &WriteError| match write {
        WriteError::Io { .. } | WriteError::Exists { .. } | WriteError::Stopped => of_other(error),
        _ => InputError::new_err(line.clone()),
    };
    match error {
        ModelFileError::Ending(_) | ModelFileError::Vocabulary(_) => InputError::new_err(line),
        ModelFileError::Load(_) | ModelFileError::Convert(ConvertError::Load(_)) => LoadError::new_err(line),
        ModelFileError::Convert(ConvertError::Range { .. }) => InputError::new_err(line),
        ModelFileError::Synth(SynthError::HotQuantised(_) | SynthError::Zeros(_)) => InputError::new_err(line),
        ModelFileError::Convert(ConvertError::Write(write)) | ModelFileError::Synth(SynthError::Write(write)) => {
            of_write(write)
        }
        ModelFileError::Convert(_) => of_other(error),
    }
}
