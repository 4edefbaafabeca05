//! Files of tensors that are no model: read by name, whatever the container.

use crate::model_files::support::pth::{Style, write, write_views};
use crate::model_files::support::{Tensor, safetensors};
use std::path::{Path, PathBuf};
use wgoose_graph::Format;
use wgoose_loader::{LoadError, TensorFile};

const DIMS: [usize; 3] = [2, 4, 3];

fn numbers(seed: usize) -> Vec<f32> {
    (0..24).map(|i| (i * 7 + seed) as f32 - 80.0).collect()
}

/// As state tuning writes them: three sizes, bf16 or f32.
fn tensors() -> Vec<Tensor> {
    vec![
        Tensor::new("blocks.0.att.time_state", Format::BF16, &DIMS, &numbers(0)),
        Tensor::new("blocks.1.att.time_state", Format::F32, &DIMS, &numbers(1)),
    ]
}

fn file(folder: &tempfile::TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

#[test]
fn tensors_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = [
        file(&folder, "plain", &write(&tensors(), Style::Plain)),
        file(&folder, "parameters", &write(&tensors(), Style::Parameters)),
        file(&folder, "attributes", &write(&tensors(), Style::ParametersWithAttributes)),
        file(&folder, "protocol5", &write(&tensors(), Style::Protocol5)),
        file(&folder, "one", &write(&tensors(), Style::OneStorage)),
        file(&folder, "safetensors", &safetensors::write(&tensors())),
    ];
    for path in files {
        let file = TensorFile::open(&path).unwrap();
        let mut names: Vec<&str> = file.names().collect();
        names.sort_unstable();
        assert_eq!(names, ["blocks.0.att.time_state", "blocks.1.att.time_state"]);
        for (seed, name) in names.into_iter().enumerate() {
            assert_eq!(file.read(name).unwrap(), (DIMS.to_vec(), numbers(seed)), "{}", path.display());
        }
        let missing = file.read("blocks.2.att.time_state").unwrap_err();
        assert!(missing.to_string().contains(&path.display().to_string()), "{missing}");
        let missing = missing.into_reason();
        assert!(matches!(missing, LoadError::NoTensor { .. }), "{missing}");
    }
}

/// `oracle/fixture.py` makes the file: each tensor holds 0, 1, 2, ... row by row.
#[test]
fn every_kind_of_tensor_that_pytorch_writes_is_read_or_refused_by_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens/protocol5.pth");
    let file = TensorFile::open(path).unwrap();
    for (name, dims) in [
        ("plain", &[2, 3][..]),
        ("half", &[5]),
        ("parameter", &[2, 3]),
        ("buffer", &[3]),
        ("attributes", &[4]),
        ("transposed", &[2, 3]),
        ("slice", &[3, 4]),
        ("permuted", &[2, 3, 4]),
        ("every_other", &[4]),
    ] {
        let count = (0..dims.iter().product()).map(|i: usize| i as f32).collect();
        assert_eq!(file.read(name).unwrap(), (dims.to_vec(), count), "{name}");
    }
    let error = file.read("float8").unwrap_err();
    assert!(error.to_string().contains("'float8' is stored as torch.float8_e4m3fn"), "{error}");
    assert_eq!(file.names().count(), 10);
}

#[test]
fn views_are_read_row_by_row() {
    let folder = tempfile::tempdir().unwrap();
    let stored = numbers(0);
    let read = |dims: &[usize], strides: &[usize]| {
        let tensor = Tensor { dims: dims.to_vec(), ..Tensor::new("t", Format::F32, &[24], &stored) };
        let path = file(&folder, "views", &write_views(&[(tensor, strides.to_vec())], Style::Plain));
        TensorFile::open(&path).unwrap().read("t").unwrap()
    };
    let wanted = |places: &[usize]| places.iter().map(|place| stored[*place]).collect::<Vec<_>>();
    assert_eq!(read(&[2, 3], &[1, 2]), (vec![2, 3], wanted(&[0, 2, 4, 1, 3, 5])));
    assert_eq!(read(&[2, 2, 2], &[6, 1, 3]), (vec![2, 2, 2], wanted(&[0, 3, 1, 4, 6, 9, 7, 10])));
    assert_eq!(read(&[2, 3], &[0, 4]), (vec![2, 3], wanted(&[0, 4, 8, 0, 4, 8])));
}

#[test]
fn a_file_without_tensors_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let none = TensorFile::open(file(&folder, "text", b"a goose")).unwrap_err().into_reason();
    assert!(matches!(none, LoadError::UnknownContainer { .. }), "{none}");
}
