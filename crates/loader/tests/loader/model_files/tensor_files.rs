//! Files of tensors that are no model: read by name, whatever the container.

use crate::model_files::support::pth::{Style, row_major, write, write_views};
use crate::model_files::support::{Tensor, safetensors};
use std::path::PathBuf;
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

#[test]
fn what_lies_in_another_order_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Tensor::new("m", Format::F32, &[4, 6], &numbers(0));
    let path = file(&folder, "transposed", &write_views(&[(matrix, vec![1, 4])], Style::Plain));
    let error = TensorFile::open(&path).unwrap().read("m").unwrap_err().into_reason();
    assert!(matches!(error, LoadError::UnsupportedType { .. }), "{error}");
    let cube = Tensor::new("c", Format::F32, &DIMS, &numbers(0));
    let mut strides = row_major(&DIMS);
    strides.swap(1, 2);
    let path = file(&folder, "cube", &write_views(&[(cube, strides)], Style::Plain));
    assert!(matches!(TensorFile::open(&path).unwrap_err().into_reason(), LoadError::Pth(_)));
    let none = TensorFile::open(file(&folder, "text", b"a goose")).unwrap_err().into_reason();
    assert!(matches!(none, LoadError::UnknownContainer { .. }), "{none}");
}
