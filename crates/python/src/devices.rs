//! The GPU adapters of the machine.

use crate::boundary::outside;
use crate::error::of_other;
use crate::fork;
use pyo3::prelude::*;
use wgoose_runtime::adapters;

/// The GPU adapters of this machine, the default first: a list of dicts, as `wgoose devices --json` prints them; empty where
/// there are none. An adapter's place in it is what `device` takes.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Py<PyAny>> {
    fork::enter()?;
    let rows = outside(py, || {
        let rows = adapters().into_iter().map(|adapter| {
            serde_json::json!({
                "device": adapter.fingerprint,
                "kind": adapter.kind,
                "limits": adapter.limits,
                "timestamps": adapter.timestamps,
            })
        });
        serde_json::to_string(&rows.collect::<Vec<_>>()).map_err(|e| of_other(&e))
    })??;
    Ok(py.import("json")?.call_method1("loads", (rows,))?.unbind())
}
