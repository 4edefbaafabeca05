//! RWKV-7a: a checkpoint with DeepEmbed is read as that model, copied as that model, and refused where a part is
//! missing.

use crate::model_files::containers::assert_holds;
use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::{TINY, Tensor, checkpoint, named, open, safetensors};
use std::io::Write;
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, MOST_ROUNDING, convert, kept_mix};
use wgoose_loader::writer::WriteError;
use wgoose_loader::{Container, LoadError, Model};

const DEEP: ModelShape = ModelShape { deep_embed: Some(3), ..TINY };

#[test]
fn deep_embed_is_read_in_every_format_and_orientation() {
    let is_deep_embed = |tensor: &Tensor| tensor.name.contains(".ffn.s");
    for format in [Format::F32, Format::F16, Format::BF16] {
        let [out_in, in_out] = [false, true].map(|in_out| checkpoint(&DEEP, format, in_out));
        // As converters leave it that turn the adapters they know.
        let mixed = out_in.iter().zip(&in_out).map(|(other, ours)| if is_deep_embed(ours) { ours } else { other });
        let mixed: Vec<Tensor> = mixed.cloned().collect();
        for tensors in [&out_in, &in_out, &mixed] {
            assert_holds(&open(&safetensors::write(tensors)).unwrap(), Container::Safetensors, &DEEP);
            assert_holds(&open(&pth::write(tensors, Style::Plain)).unwrap(), Container::Pth, &DEEP);
        }
    }
}

#[test]
fn deep_embed_in_part_is_refused() {
    let with = |change: &dyn Fn(&mut Vec<Tensor>)| {
        let mut tensors = checkpoint(&DEEP, Format::F16, true);
        change(&mut tensors);
        open(&safetensors::write(&tensors)).unwrap_err()
    };
    for missing in ["blocks.0.ffn.s_emb_x.weight", "blocks.1.ffn.s_emb.weight", "blocks.2.ffn.s1", "blocks.2.ffn.s0"] {
        let error = with(&|tensors| tensors.retain(|tensor| tensor.name != missing));
        assert!(matches!(&error, LoadError::MissingTensor { tensor, .. } if tensor == missing), "{error}");
    }
    let error = with(&|tensors| tensors.retain(|tensor| !tensor.name.contains("s_emb.weight")));
    assert!(error.to_string().contains("(DeepEmbed of RWKV-7a, whose table 'blocks.0.ffn.s_emb.weight'"), "{error}");
    let error = with(&|tensors| named(tensors, "blocks.0.ffn.s_emb.weight").dims = vec![9, 10]);
    assert!(error.to_string().contains("square matrices"), "{error}");
    let error = with(&|tensors| tensors.push(Tensor::new("blocks.0.qkv.qq.weight", Format::F16, &[1], &[1.0])));
    assert!(error.to_string().contains("RWKV-7b, a model that does not run here"), "{error}");
}

#[test]
fn deep_embed_is_copied_to_safetensors_and_has_no_names_in_gguf() {
    let folder = tempfile::tempdir().unwrap();
    let [source, copy, gguf] = ["source.pth", "copy.st", "copy.gguf"].map(|name| folder.path().join(name));
    let file = pth::write(&checkpoint(&DEEP, Format::BF16, true), Style::Plain);
    std::fs::File::create(&source).unwrap().write_all(&file).unwrap();
    let source = Model::open_source(&source).unwrap();
    let to = |container, path: &std::path::Path| -> Result<_, ConvertError> {
        let (name, set) = (String::new(), Vec::new());
        let mix = kept_mix(&source);
        let options = ConvertOptions {
            container,
            mix,
            chosen: None,
            name,
            vocabulary: None,
            set,
            replace: false,
            check: true,
            most_rounding: MOST_ROUNDING,
        };
        convert(&source, &options, path, &mut wgoose_loader::writer::unwatched)
    };
    let converted = to(Container::Safetensors, &copy).unwrap();
    assert_eq!((converted.rounding.error, converted.checked), (0.0, Some(Weight::all(&DEEP).count())));
    let copied = Model::open(&copy).unwrap();
    assert_holds(&copied, Container::Safetensors, &DEEP);
    let table = copied.tensor(Weight::Layer(2, LayerWeight::DeepEmbedTable));
    assert_eq!((table.format(), table.rows(), table.cols()), (Format::BF16, 10, 9));
    let refused = to(Container::Gguf, &gguf).unwrap_err();
    assert!(matches!(refused, ConvertError::Write(WriteError::NoGgufNames("RWKV-7a"))), "{refused}");
    assert!(refused.to_string().contains("write a safetensors file"), "{refused}");
    assert!(!gguf.exists());
}
