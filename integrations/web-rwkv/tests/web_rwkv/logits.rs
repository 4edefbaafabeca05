//! The same model through web-rwkv's own reader and through ours: the same logits, to the bit.

use crate::engine::{bits, context, logits, tokens};
use crate::models::{SMALL, own_file, pth, synthetic};
use safetensors::{SafeTensorError, SafeTensors};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use web_rwkv::runtime::infer::RnnOption;
use web_rwkv::runtime::loader::{Reader, ReaderTensor};
use web_rwkv::runtime::model::ModelBuilder;
use wgoose_loader::Container;
use wgoose_loader::synth::Mix;
use wgoose_web_rwkv::ModelReader;

/// A pass of the matrix kernel and one of the vector kernel.
fn answers(model: impl Reader) -> Vec<u32> {
    bits(&logits(model, tokens(45, SMALL.vocab), 32, RnnOption::Full))
}

/// Compares a file with the F16 file that has its weights.
fn same(path: &Path, own: &[u8]) {
    let wanted = answers(SafeTensors::deserialize(own).unwrap());
    let mut answered = answers(ModelReader::open(path).unwrap());
    assert!(wanted.iter().all(|bits| f32::from_bits(*bits).is_finite()), "no logits at all");
    assert_eq!(wanted.len(), 45 * SMALL.vocab as usize);
    assert!(answered == wanted, "{}: other logits", path.display());
    // They would tell.
    answered[7] ^= 1;
    assert_ne!(answered, wanted);
}

#[test]
fn every_format_has_the_logits_of_its_dequantised_weights() {
    let folder = tempfile::tempdir().unwrap();
    for mix in Mix::ALL {
        let path = synthetic(&folder, SMALL, Container::Gguf, mix);
        same(&path, &own_file(&path));
    }
}

#[test]
fn safetensors_and_pth_have_the_logits_of_web_rwkv_s_own_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = synthetic(&folder, SMALL, Container::Safetensors, Mix::F16);
    let own = std::fs::read(&path).unwrap();
    same(&path, &own);
    let checkpoint = folder.path().join("model.pth");
    std::fs::write(&checkpoint, pth(&own)).unwrap();
    same(&checkpoint, &own);
}

/// Counts what is asked for.
struct Counted<'a>(ModelReader, &'a RefCell<BTreeMap<String, usize>>);

impl Reader for Counted<'_> {
    fn names(&self) -> Vec<&str> {
        self.0.names()
    }

    fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    fn shape(&self, name: &str) -> Result<Vec<usize>, SafeTensorError> {
        self.0.shape(name)
    }

    fn tensor(&self, name: &str) -> Result<ReaderTensor<'_>, SafeTensorError> {
        *self.1.borrow_mut().entry(name.to_owned()).or_default() += 1;
        self.0.tensor(name)
    }
}

#[test]
fn each_tensor_is_asked_for_once() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelReader::open(synthetic(&folder, SMALL, Container::Gguf, Mix::Q4_K_M)).unwrap();
    let mut names: Vec<String> = model.names().into_iter().map(str::to_owned).collect();
    names.sort();
    let asked = RefCell::default();
    crate::engine::block_on(ModelBuilder::new(context(), Counted(model, &asked)).build_v7()).unwrap();
    let asked = asked.into_inner();
    assert!(asked.values().all(|times| *times == 1), "{asked:?}");
    assert_eq!(asked.into_keys().collect::<Vec<_>>(), names);
}
