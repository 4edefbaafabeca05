//! The Python package `wgoose`: sessions with numpy arrays in and out.
//!
//! ```python
//! import wgoose
//!
//! model = wgoose.Model.load("model.gguf")
//! print(*model.generate("The goose flies over", max_tokens=64), sep="")
//! ```
//!
//! In reading order: `model` and `state` are what people call, `generation`, `completion` and `trace` what it returns;
//! `tune` and `model_file` are the tools; `fork` refuses sessions in a forked process, which cannot use its parent's.
//! Long calls release Python's lock and take the session's lock only then, so no thread waits for one while it holds
//! the other.

mod batch;
mod bench;
mod boundary;
mod chat;
mod completion;
mod devices;
mod embedding;
mod error;
mod evaluate;
mod fork;
mod generation;
mod grammar;
mod handoff;
mod input;
mod interrupt;
mod load;
mod model;
mod model_file;
mod running;
mod sampling;
mod state;
mod trace;
mod trials;
mod tune;

use pyo3::prelude::*;

/// RWKV-7 language models on any GPU: `Model.load`, then `generate`, `embed`, `logits`, `state`.
#[pymodule]
fn wgoose(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<model::Model>()?;
    module.add_class::<generation::Generation>()?;
    module.add_class::<grammar::Grammar>()?;
    module.add_class::<completion::CompletionStream>()?;
    module.add_class::<state::State>()?;
    module.add_function(wrap_pyfunction!(tune::tune, module)?)?;
    module.add_function(wrap_pyfunction!(bench::bench, module)?)?;
    module.add_function(wrap_pyfunction!(model_file::convert, module)?)?;
    module.add_function(wrap_pyfunction!(model_file::synth, module)?)?;
    module.add_function(wrap_pyfunction!(evaluate::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(trace::trace, module)?)?;
    module.add_function(wrap_pyfunction!(chat::chat_prompt, module)?)?;
    module.add_function(wrap_pyfunction!(devices::devices, module)?)?;
    // By setattr: they are no part of the interface.
    module.setattr("_run_trials", wrap_pyfunction!(trials::_run_trials, module)?)?;
    module.setattr("_restore_state", wrap_pyfunction!(state::_restore_state, module)?)?;
    #[cfg(debug_assertions)]
    module.setattr("_panic", wrap_pyfunction!(boundary::_panic, module)?)?;
    error::register(module)?;
    let atexit = module.py().import("atexit")?;
    atexit.call_method1("register", (wrap_pyfunction!(at_exit, module)?,))?;
    Ok(())
}

/// Called when Python ends.
#[pyfunction]
fn at_exit(py: Python<'_>) -> PyResult<()> {
    if fork::is_owner() { boundary::outside(py, running::stop_all) } else { Ok(()) }
}
