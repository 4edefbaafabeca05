//! Errors as exceptions: the class says what kind it is, the message is the one line that Rust has for it.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use wgoose_runtime::{BatchError, DecodeError, RuntimeError};
use wgoose_session::{SessionError, one_line};

create_exception!(
    wgoose,
    Error,
    PyException,
    "What can go wrong in wgoose; every other exception of it is one of these."
);
create_exception!(wgoose, LoadError, Error, "The model file cannot be read.");
create_exception!(wgoose, DeviceError, Error, "There is no such device, or it failed.");
create_exception!(wgoose, PlanError, Error, "The plan cannot be read, or is for another device, model or kernels.");
create_exception!(wgoose, StateError, Error, "The state is of another model, or was lost when a call failed.");
create_exception!(
    wgoose,
    ForkError,
    Error,
    "This process was forked from one that had used wgoose: start it with 'spawn'."
);
create_exception!(wgoose, InputError, Error, "Text, tokens or an option that make no sense.");

/// Puts the exceptions into the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Error", py.get_type::<Error>())?;
    module.add("LoadError", py.get_type::<LoadError>())?;
    module.add("DeviceError", py.get_type::<DeviceError>())?;
    module.add("PlanError", py.get_type::<PlanError>())?;
    module.add("StateError", py.get_type::<StateError>())?;
    module.add("ForkError", py.get_type::<ForkError>())?;
    module.add("InputError", py.get_type::<InputError>())
}

/// The exception for what went wrong in a session.
pub(crate) fn of_session(error: &SessionError) -> PyErr {
    let line = one_line(error);
    match error {
        SessionError::Runtime(error) => of_runtime(error),
        SessionError::Load(_) => LoadError::new_err(line),
        SessionError::Plan(_) => PlanError::new_err(line),
        SessionError::OtherModel { .. } | SessionError::StateFile { .. } => StateError::new_err(line),
        SessionError::Vocabulary(_)
        | SessionError::GivenVocabulary(_)
        | SessionError::SamplerOptions(_)
        | SessionError::Grammar(_)
        | SessionError::NoEmbeddingHead { .. }
        | SessionError::HeadLevel
        | SessionError::EndInText { .. }
        | SessionError::EmptyPrompt => InputError::new_err(line),
        _ => Error::new_err(line),
    }
}

/// The exception for what went wrong on a device.
pub(crate) fn of_runtime(error: &RuntimeError) -> PyErr {
    let line = one_line(error);
    match error {
        RuntimeError::Model(_) => LoadError::new_err(line),
        RuntimeError::Plan(_) => PlanError::new_err(line),
        RuntimeError::StateSize { .. } | RuntimeError::Batch(BatchError::Invalidated { .. }) => {
            StateError::new_err(line)
        }
        RuntimeError::Batch(_) | RuntimeError::Decode(DecodeError::Setting { .. }) => InputError::new_err(line),
        _ => DeviceError::new_err(line),
    }
}

/// The exception for anything else.
pub(crate) fn of_other(error: &dyn std::error::Error) -> PyErr {
    Error::new_err(one_line(error))
}
