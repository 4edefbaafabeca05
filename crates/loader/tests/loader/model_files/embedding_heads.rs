//! Embedding models: heads beside a body with a prefix, with and without an output head.

use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::{TINY, Tensor, checkpoint, named, numbers, open, safetensors};
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, MOST_ROUNDING, convert, kept_mix};
use wgoose_loader::writer::{WriteError, unwatched};
use wgoose_loader::{Container, EmbeddingHead, LoadError, Model, TensorView};

const WITHOUT_OUTPUT: ModelShape = ModelShape { output_head: false, ..TINY };
const C: usize = TINY.width as usize;

/// A matrix that no other head has, each part in another type.
fn head(head: EmbeddingHead) -> [Tensor; 4] {
    let number = |i: usize| (i * 37 % 101) as f32 - 50.0 + head.name().len() as f32;
    let tensor = |part: &str, format, dims: &[usize]| {
        let numbers: Vec<f32> = (0..dims.iter().product()).map(|i| number(i + part.len())).collect();
        Tensor::new(format!("head.{head}_head.{part}"), format, dims, &numbers)
    };
    [
        tensor("fc1.weight", Format::BF16, &[C, C]),
        tensor("fc2.weight", Format::F16, &[C, C]),
        tensor("norm.weight", Format::F32, &[C]),
        tensor("norm.bias", Format::BF16, &[C]),
    ]
}

/// As training saves an embedding model.
fn embedding_model(shape: &ModelShape) -> Vec<Tensor> {
    let body = checkpoint(shape, Format::F16, true).into_iter();
    let body = body.map(|tensor| Tensor { name: format!("rwkv.{}", tensor.name), ..tensor });
    body.chain(EmbeddingHead::ALL.into_iter().flat_map(head)).collect()
}

fn bytes(view: TensorView<'_>) -> (Format, Vec<u8>) {
    let mut bytes = vec![0; view.byte_len()];
    view.copy_rows(0..view.rows(), &mut bytes);
    (view.format(), bytes)
}

fn check_heads(model: &Model) {
    assert_eq!(model.embedding_heads().collect::<Vec<_>>(), EmbeddingHead::ALL);
    for name in EmbeddingHead::ALL {
        let tensors = model.embedding_head(name).unwrap();
        assert_eq!([tensors.fc1.rows(), tensors.fc1.cols(), tensors.norm_bias.rows()], [C, C, 1]);
        let views = [tensors.fc1, tensors.fc2, tensors.norm_scale, tensors.norm_bias];
        for (view, tensor) in views.into_iter().zip(head(name)) {
            assert_eq!(bytes(view), (tensor.format, tensor.bytes), "{}", tensor.name);
        }
    }
}

fn options(container: Container, model: &Model) -> ConvertOptions {
    ConvertOptions {
        container,
        mix: kept_mix(model),
        chosen: None,
        name: String::new(),
        vocabulary: None,
        set: Vec::new(),
        replace: false,
        check: true,
        most_rounding: MOST_ROUNDING,
    }
}

#[test]
fn heads_are_read_beside_a_body_with_or_without_an_output_head() {
    for shape in [TINY, WITHOUT_OUTPUT] {
        let tensors = embedding_model(&shape);
        for file in [safetensors::write(&tensors), pth::write(&tensors, Style::Plain)] {
            let model = open(&file).unwrap();
            assert_eq!(model.shape(), &shape);
            assert!(model.unknown().is_empty());
            for weight in Weight::all(&shape) {
                assert_eq!(model.tensor(weight).to_f32(), numbers(&shape, weight), "{weight}");
            }
            check_heads(&model);
        }
    }
    let plain = open(&safetensors::write(&checkpoint(&TINY, Format::F16, true))).unwrap();
    assert_eq!(plain.embedding_heads().count(), 0);
    assert!(plain.embedding_head(EmbeddingHead::Retr).is_none());
}

#[test]
fn a_language_model_without_an_output_head_is_incomplete() {
    let error = open(&safetensors::write(&checkpoint(&WITHOUT_OUTPUT, Format::F16, true))).unwrap_err();
    assert!(matches!(&error, LoadError::MissingTensor { tensor, .. } if tensor == "head.weight"), "{error}");
}

#[test]
fn heads_that_are_wrong_are_refused_by_name() {
    let refused = |alter: &dyn Fn(&mut Vec<Tensor>)| {
        let mut tensors = embedding_model(&WITHOUT_OUTPUT);
        alter(&mut tensors);
        open(&safetensors::write(&tensors)).unwrap_err()
    };
    let error = refused(&|tensors| tensors.retain(|tensor| tensor.name != "head.sts_head.fc2.weight"));
    let says = "tensor 'head.sts_head.fc2.weight' is missing: the file has only a part of the embedding head 'sts'";
    assert!(error.to_string().starts_with(says), "{error}");
    let error = refused(&|tensors| {
        *named(tensors, "head.retr_head.fc1.weight") =
            Tensor::new("head.retr_head.fc1.weight", Format::F16, &[C, 2], &[0.0; 2 * C]);
    });
    let says = format!("has shape [{C}, 2], expected {C} x {C}, row major");
    assert!(matches!(&error, LoadError::WrongShape { tensor, .. } if tensor == "head.retr_head.fc1.weight"), "{error}");
    assert!(error.to_string().ends_with(&says), "{error}");
    let error = refused(&|tensors| {
        let names =
            ["vit.vision_model.embeddings.patch_embedding.bias", "proj.gate.weight", "head.cls_head.fc3.weight"];
        tensors.extend(names.map(|name| Tensor::new(name, Format::F16, &[2, 2], &[0.0; 4])));
    });
    let says =
        "'proj.gate.weight' and 'vit.vision_model.embeddings.patch_embedding.bias' (an image encoder, without which";
    assert!(error.to_string().contains(says), "{error}");
    assert!(error.to_string().contains("'head.cls_head.fc3.weight' (unknown)"), "{error}");
}

#[test]
fn rerankers_are_refused_by_name() {
    let names = ["reranker.token.weight", "reranker.blocks.0.ln0.weight", "reranker.head.0.bias"];
    let tensors = names.map(|name| Tensor::new(name, Format::F16, &[2, 2], &[0.0; 4]));
    let error = open(&safetensors::write(&tensors)).unwrap_err();
    assert!(matches!(error, LoadError::Reranker), "{error}");
}

#[test]
fn conversion_keeps_heads_or_refuses() {
    let model = open(&safetensors::write(&embedding_model(&WITHOUT_OUTPUT))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.st");
    convert(&model, &options(Container::Safetensors, &model), &path, &mut unwatched).unwrap();
    let copy = Model::open(&path).unwrap();
    assert_eq!(copy.shape(), &WITHOUT_OUTPUT);
    check_heads(&copy);
    let path = folder.path().join("copy.gguf");
    let error = convert(&model, &options(Container::Gguf, &model), &path, &mut unwatched).unwrap_err();
    assert!(matches!(error, ConvertError::Write(WriteError::NoGgufHeads)), "{error}");
    assert!(!path.exists());
}

#[test]
fn models_that_differ_in_a_head_differ_in_their_fingerprint() {
    let mut tensors = embedding_model(&WITHOUT_OUTPUT);
    let own = open(&safetensors::write(&tensors)).unwrap().fingerprint();
    named(&mut tensors, "head.cls_head.norm.bias").bytes[1] ^= 1;
    assert_ne!(own, open(&safetensors::write(&tensors)).unwrap().fingerprint());
}
