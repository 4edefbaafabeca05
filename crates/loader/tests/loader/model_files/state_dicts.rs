//! A state dict that training saved beside other things is found, and what is beside it is named.

use crate::model_files::support::pth::{Program, Zip, row_major, zip};
use crate::model_files::support::{TINY, Tensor, checkpoint, numbers, open};
use wgoose_graph::{Format, Weight};
use wgoose_loader::{LoadError, Model, PthError};

const INNER: &[u8] = b"ccollections\nOrderedDict\nq\x00)Rq\x01(";

/// A file of nested dictionaries, in the order of the pickle program.
struct Nested {
    program: Program,
    entries: Vec<(String, Vec<u8>)>,
}

impl Nested {
    fn begin() -> Self {
        Nested { program: Program::of(b"\x80\x02}("), entries: vec![("data.pkl".into(), Vec::new())] }
    }

    /// A dictionary of tensors under a key.
    fn dict(mut self, key: &str, tensors: &[Tensor]) -> Self {
        self.program.text(key);
        self.program.0.extend(INNER);
        for tensor in tensors {
            self = self.tensor(tensor);
        }
        self.program.0.extend(b"u");
        self
    }

    fn tensor(mut self, tensor: &Tensor) -> Self {
        let data = (self.entries.len() - 1).to_string();
        self.program.tensor(tensor, &data, 0, &row_major(&tensor.dims));
        self.entries.push((format!("data/{data}"), tensor.bytes.clone()));
        self
    }

    /// A small number under a key.
    fn number(mut self, key: &str) -> Self {
        self.program.text(key);
        self.program.0.extend(b"K\x03");
        self
    }

    /// Puts everything so far into a dictionary under a key.
    fn inside(mut self, key: &str) -> Self {
        let mut program = Program::of(b"\x80\x02}(");
        program.text(key);
        program.0.extend(&self.program.0[2..]);
        program.0.extend(b"u");
        self.program = program;
        self
    }

    fn file(mut self) -> Vec<u8> {
        self.program.0.extend(b"u.");
        self.entries[0].1 = self.program.0;
        zip(&self.entries, Zip::default())
    }
}

fn weights() -> Vec<Tensor> {
    checkpoint(&TINY, Format::F16, true)
}

fn moment() -> Tensor {
    Tensor::new("exp_avg", Format::F32, &[2], &[1.0, 2.0])
}

fn assert_tiny(model: &Model) {
    assert_eq!(model.shape(), &TINY);
    for weight in Weight::all(&TINY) {
        assert_eq!(model.tensor(weight).to_f32(), numbers(&TINY, weight), "{weight}");
    }
}

#[test]
fn a_state_dict_under_a_key_is_found() {
    for key in ["state_dict", "model", "weights", "module"] {
        let file = Nested::begin().number("epoch").dict(key, &weights()).number("step").file();
        assert_tiny(&open(&file).unwrap());
    }
    let twice = Nested::begin().dict("state_dict", &weights()).inside("model").number("epoch").file();
    assert_tiny(&open(&twice).unwrap());
}

#[test]
fn tensors_beside_a_state_dict_are_refused_by_name() {
    let file = Nested::begin().dict("state_dict", &weights()).dict("optimizer_states", &[moment()]).file();
    let error = open(&file).unwrap_err();
    let says = "no op reads 1 tensor: 'optimizer_states' (an optimizer's: take the checkpoint of the weights alone)";
    assert!(error.to_string().contains(says), "{error}");
    let file = Nested::begin().dict("model", &weights()).tensor(&moment()).dict("empty", &[]).file();
    let error = open(&file).unwrap_err();
    assert!(matches!(&error, LoadError::UnknownTensors(unknown) if unknown.len() == 1), "{error}");
}

#[test]
fn two_state_dicts_in_a_file_are_refused() {
    let file = Nested::begin().dict("model", &weights()).dict("weights", &weights()).file();
    let error = open(&file).unwrap_err();
    assert!(matches!(error, LoadError::Pth(PthError::TwoStateDicts { .. })), "{error}");
    assert!(error.to_string().contains("'model' and 'weights' are both state dicts"), "{error}");
}

#[test]
fn dictionaries_of_other_names_are_no_state_dicts() {
    let other = Nested::begin().dict("teacher", &weights()).file();
    assert!(matches!(open(&other).unwrap_err(), LoadError::Pth(PthError::NotATensor { entry }) if entry == "teacher"));
    // A dictionary in itself: `h` takes it from the memo, in which the tensors' helper expects a class.
    let mut cyclic =
        Nested { program: Program::of(b"\x80\x02ccollections\nOrderedDict\nq\x000}q\x01("), ..Nested::begin() };
    cyclic.program.text("model");
    cyclic.program.0.extend(b"h\x01");
    let error = open(&cyclic.tensor(&moment()).file()).unwrap_err();
    assert!(matches!(error, LoadError::Pth(_)), "{error}");
}
