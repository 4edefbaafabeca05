//! A norm that is folded into the embedding is left out where that is said, and never taken for granted.

use crate::model_files::support::gguf::Gguf;
use crate::model_files::support::namings::NAMINGS;
use crate::model_files::support::{TINY, Tensor, checkpoint, numbers, open, safetensors};
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, MOST_ROUNDING, convert, kept_mix};
use wgoose_loader::writer::{WriteError, unwatched};
use wgoose_loader::{ConfigError, Container, LoadError, Model};

const FOLDED: ModelShape = ModelShape { embedding_norm: false, ..TINY };

fn without_norm() -> Vec<Tensor> {
    let mut tensors = checkpoint(&TINY, Format::F16, true);
    tensors.retain(|tensor| !tensor.name.contains("ln0"));
    tensors
}

/// Opens a model beside a `config.json` that says whether the norm is folded, where anything is said.
fn open_said(tensors: &[Tensor], is_folded: Option<bool>) -> Result<Model, LoadError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, safetensors::write(tensors)).unwrap();
    if let Some(is_folded) = is_folded {
        let config = format!(r#"{{"model_type": "rwkv7", "embedding_layer_norm_fused": {is_folded}}}"#);
        std::fs::write(folder.path().join("config.json"), config).unwrap();
    }
    Model::open(path).map_err(LoadError::into_reason)
}

#[test]
fn a_folded_norm_is_left_out_in_every_naming() {
    let authors = without_norm();
    for naming in NAMINGS.iter().filter(|naming| !naming.is_stacked) {
        let renamed = authors.iter().map(|tensor| Tensor { name: (naming.rename)(&tensor.name), ..tensor.clone() });
        let renamed: Vec<Tensor> = renamed.collect();
        let model = open_said(&renamed, Some(true)).unwrap();
        assert_eq!(model.shape(), &FOLDED, "{}", naming.title);
        for weight in Weight::all(&FOLDED) {
            assert_eq!(model.tensor(weight).to_f32(), numbers(&FOLDED, weight), "{}: {weight}", naming.title);
        }
        for unsaid in [None, Some(false)] {
            let error = open_said(&renamed, unsaid).unwrap_err();
            assert!(matches!(error, LoadError::MissingEmbeddingNorm { .. }), "{}: {error}", naming.title);
            let name = (naming.rename)("blocks.0.ln0.weight").replace("_orig_mod.", "").replace("module.", "");
            assert!(error.to_string().contains(&format!("tensor '{name}' is missing")), "{error}");
            assert!(error.to_string().contains("embedding_layer_norm_fused"), "{error}");
        }
    }
}

#[test]
fn a_norm_beside_an_embedding_that_has_it_is_refused() {
    let tensors = checkpoint(&TINY, Format::F16, true);
    assert_eq!(open_said(&tensors, Some(false)).unwrap().shape(), &TINY);
    let error = open_said(&tensors, Some(true)).unwrap_err();
    let is_named = |tensor: &String| tensor == "blocks.0.ln0.weight";
    assert!(matches!(&error, LoadError::Config(ConfigError::FusedNorm { tensor }) if is_named(tensor)), "{error}");
}

#[test]
fn half_a_norm_is_a_missing_tensor() {
    let mut tensors = checkpoint(&TINY, Format::F16, true);
    tensors.retain(|tensor| tensor.name != "blocks.0.ln0.bias");
    let error = open_said(&tensors, None).unwrap_err();
    assert!(matches!(&error, LoadError::MissingTensor { tensor, .. } if tensor == "blocks.0.ln0.bias"), "{error}");
    let mut file = Gguf::of(&TINY);
    file.tensors.retain(|tensor| !tensor.name.starts_with("token_embd_norm"));
    let error = open(&file.write()).unwrap_err();
    assert!(matches!(&error, LoadError::MissingTensor { tensor, .. } if tensor == "token_embd_norm.weight"), "{error}");
}

#[test]
fn a_model_with_a_folded_norm_is_not_converted() {
    let model = open_said(&without_norm(), Some(true)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (container, name) in [(Container::Gguf, "copy.gguf"), (Container::Safetensors, "copy.st")] {
        let path = folder.path().join(name);
        let options = ConvertOptions {
            container,
            mix: kept_mix(&model),
            chosen: None,
            name: String::new(),
            vocabulary: None,
            set: Vec::new(),
            replace: false,
            check: true,
            most_rounding: MOST_ROUNDING,
        };
        let error = convert(&model, &options, &path, &mut unwatched).unwrap_err();
        assert!(matches!(error, ConvertError::Write(WriteError::FoldedNorm)), "{error}");
        assert!(!path.exists());
    }
}
