//! States as numpy arrays: out without a copy, back in from any mapping of names to arrays.

use crate::error::{StateError, of_other};
use numpy::ndarray::ArrayViewD;
use numpy::{PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMapping, PyTuple};
use std::sync::Arc;
use wgoose_graph as graph;
use wgoose_graph::ModelShape;
use wgoose_runtime::StateData;

/// What a model has read: a mapping of names to float32 arrays.
///
/// For each layer i: 'blocks.i.att_shift' [C], 'blocks.i.wkv' [heads, value, key], 'blocks.i.ffn_shift' [C]. The arrays
/// share this object's memory and keep it alive; nothing is copied. They are read-only, for other threads may be reading
/// them: to change a state, copy what changes and set a dict of all tensors as the model's state.
#[pyclass(frozen, mapping, module = "wgoose")]
pub(crate) struct State {
    data: Arc<StateData>,
    shape: ModelShape,
}

impl State {
    pub(crate) fn new(data: StateData, shape: ModelShape) -> Self {
        State { data: Arc::new(data), shape }
    }

    /// The array of a tensor, which shares its memory.
    fn array<'py>(this: &Bound<'py, Self>, index: usize) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let State { data, shape } = this.get();
        let (tensor, floats) = &data.0[index];
        let view =
            ArrayViewD::from_shape(dims(*tensor, shape), floats).map_err(|e| StateError::new_err(e.to_string()))?;
        // SAFETY: `State` is frozen and never changes `data`, so that the floats stay where they are as long as the array's
        // base, which is `this`; the array is made read-only before anyone else sees it.
        #[allow(unsafe_code)]
        let array = unsafe { PyArrayDyn::borrow_from_array(&view, this.clone().into_any()) };
        array.readwrite().make_nonwriteable();
        Ok(array)
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.data.0.iter().position(|(tensor, _)| tensor.to_string() == name)
    }
}

#[pymethods]
impl State {
    fn __getitem__<'py>(this: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let index = this.get().position(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        State::array(this, index)
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.position(name).is_some())
    }

    fn __len__(&self) -> usize {
        self.data.0.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.keys())?.try_iter()?.into_any())
    }

    /// The names of the tensors, layer by layer.
    fn keys(&self) -> Vec<String> {
        self.data.0.iter().map(|(tensor, _)| tensor.to_string()).collect()
    }

    /// The tensors, layer by layer.
    fn values<'py>(this: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyArrayDyn<f32>>>> {
        (0..this.get().data.0.len()).map(|index| State::array(this, index)).collect()
    }

    /// Names and tensors, layer by layer.
    fn items<'py>(this: &Bound<'py, Self>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let pairs = this.get().keys().into_iter().zip(State::values(this)?);
        pairs.map(|pair| pair.into_pyobject(this.py())).collect()
    }

    /// Bytes of all tensors.
    #[getter]
    fn nbytes(&self) -> usize {
        self.data.0.iter().map(|(_, floats)| floats.len() * 4).sum()
    }

    /// The tensor of that name, or the default.
    #[pyo3(signature = (name, default=None, /))]
    fn get<'py>(
        this: &Bound<'py, Self>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        match this.get().position(name) {
            Some(index) => Ok(Some(State::array(this, index)?.into_any())),
            None => Ok(default),
        }
    }

    /// How pickle and copy write it down: the sizes of its model, and its tensors.
    fn __reduce__<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = this.py();
        let shape = serde_json::to_string(&this.get().shape).map_err(|e| of_other(&e))?;
        let tensors = PyDict::new(py);
        for (name, array) in this.get().keys().into_iter().zip(State::values(this)?) {
            tensors.set_item(name, array)?;
        }
        let restore = py.import("wgoose.wgoose")?.getattr("_restore_state")?;
        (restore, (shape, tensors)).into_pyobject(py)
    }

    fn __repr__(&self) -> String {
        format!("<wgoose.State of {} layers, {} bytes>", self.shape.layers, self.nbytes())
    }
}

/// The state that [`State::__reduce__`] wrote down.
#[pyfunction]
pub(crate) fn _restore_state(shape: &str, tensors: &Bound<'_, PyAny>) -> PyResult<State> {
    let wrong = |e: &dyn std::fmt::Display| StateError::new_err(format!("this is no pickled state: {e}"));
    let shape: ModelShape = serde_json::from_str(shape).map_err(|e| wrong(&e))?;
    shape.validate().map_err(|e| wrong(&e))?;
    Ok(State { data: from_python(tensors, &shape)?, shape })
}

/// A state from Python: a [`State`], or a mapping that has every tensor; other numbers become float32.
pub(crate) fn from_python(value: &Bound<'_, PyAny>, shape: &ModelShape) -> PyResult<Arc<StateData>> {
    if let Ok(state) = value.cast::<State>() {
        return Ok(Arc::clone(&state.get().data));
    }
    let mapping = value.cast::<PyMapping>()?;
    let numpy = value.py().import("numpy")?;
    let mut tensors = Vec::new();
    for tensor in graph::State::all(shape) {
        let name = tensor.to_string();
        let missing = |_| StateError::new_err(format!("state {name} is missing"));
        let array = mapping.get_item(&name).map_err(missing)?;
        let wrong = || StateError::new_err(format!("state {name} is no array of floats: {}", kind(&array)));
        let floats = numpy.call_method1("asarray", (&array, "float32")).map_err(|_| wrong())?;
        let array: PyReadonlyArrayDyn<'_, f32> = floats.extract().map_err(|_| wrong())?;
        let want = dims(tensor, shape);
        if array.shape() != want {
            return Err(StateError::new_err(format!("state {name} is {:?}, this model has {want:?}", array.shape())));
        }
        tensors.push((tensor, array.as_array().iter().copied().collect()));
    }
    let (got, want) = (mapping.len()?, tensors.len());
    if got != want {
        return Err(StateError::new_err(format!("a state of {got} tensors, this model's has {want}")));
    }
    Ok(Arc::new(StateData(tensors)))
}

/// What something is, in a word.
fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "an object".to_owned(), |name| name.to_string())
}

fn dims(tensor: graph::State, shape: &ModelShape) -> Vec<usize> {
    match tensor {
        graph::State::AttShift(_) | graph::State::FfnShift(_) => vec![shape.width as usize],
        graph::State::Wkv(_) => vec![shape.heads() as usize, shape.head_size as usize, shape.head_size as usize],
    }
}
