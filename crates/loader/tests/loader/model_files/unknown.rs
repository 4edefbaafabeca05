//! Tensors that no op reads are refused by name, in every container and naming; what converters add without meaning is
//! not.

use crate::model_files::support::gguf::Gguf;
use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::{TINY, Tensor, checkpoint, numbers, open, safetensors};
use std::io::Write;
use wgoose_graph::{Format, LayerWeight, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, MOST_ROUNDING, convert, kept_mix};
use wgoose_loader::{Container, LoadError, Model, OpenOptions};

/// Tensors that people have beside those of a model, and what the refusal says of them.
const UNKNOWN: [(&[&str], &str); 10] = [
    (
        &["blocks.0.ffn.s_emb_x.weight", "blocks.0.ffn.s0", "blocks.1.ffn.s1"],
        "3 tensors: 3 such as 'blocks.0.ffn.s0' and 'blocks.0.ffn.s_emb_x.weight' (DeepEmbed of RWKV-7a, whose table",
    ),
    (
        &["blocks.0.qkv.qq.weight", "blocks.0.ffn.s0"],
        "2 tensors: 'blocks.0.qkv.qq.weight' (attention of RWKV-7b, a model that does not run here), 'blocks.0.ffn.s0' (Deep",
    ),
    (
        &["blocks.1.rosa.q.weight"],
        "1 tensor: 'blocks.1.rosa.q.weight' (ROSA of RWKV-8, a model that does not run here)",
    ),
    (&["blocks.2.att.key.lora_A", "blocks.2.att.key.lora_B"], "'blocks.2.att.key.lora_B' (halves of an adapter"),
    (&["blocks.1.att.receptance.bone"], "1 tensor: 'blocks.1.att.receptance.bone' (halves of an adapter"),
    (&["blocks.0.att.time_state"], "'blocks.0.att.time_state' (a tuned initial state: save it as a file"),
    (&["blocks.0.att.receptance.bias", "head.bias"], "'head.bias' (biases, of which RWKV-7 has none there)"),
    (&["blocks.0.att.key.weight_scale"], "(scales of quantised weights: take the unquantised file)"),
    (&["optimizer.exp_avg.head.weight"], "(an optimizer's"),
    (&["blocks.0.att.x_q"], "'blocks.0.att.x_q' (unknown)"),
];

fn with(names: &[&str]) -> Vec<Tensor> {
    let mut tensors = checkpoint(&TINY, Format::F16, true);
    tensors.extend(names.iter().map(|name| Tensor::new(*name, Format::F16, &[2, 2], &[1.0; 4])));
    tensors
}

#[test]
fn unknown_tensors_are_refused_by_name() {
    for (names, says) in UNKNOWN {
        let tensors = with(names);
        for file in [safetensors::write(&tensors), pth::write(&tensors, Style::Plain)] {
            let error = open(&file).unwrap_err();
            assert!(matches!(&error, LoadError::UnknownTensors(unknown) if unknown.len() == names.len()), "{error:?}");
            assert!(error.to_string().contains(says), "'{error}' does not say '{says}'");
            assert!(error.to_string().contains("--ignore-unknown"), "{error}");
        }
    }
    let mut file = Gguf::of(&TINY);
    file.tensors.push(Tensor::new("blk.0.time_mix_x_q.weight", Format::F16, &[2, 2], &[1.0; 4]));
    let error = open(&file.write()).unwrap_err();
    assert!(error.to_string().contains("1 tensor: 'blk.0.time_mix_x_q.weight' (unknown)"), "{error}");
}

#[test]
fn a_value_residual_of_layer_0_means_nothing() {
    let mut tensors = checkpoint(&TINY, Format::F16, true);
    tensors.retain(|tensor| tensor.name != "blocks.0.att.v1");
    for (own, of) in [("v0", LayerWeight::IclrBias), ("v1", LayerWeight::IclrDown), ("v2", LayerWeight::IclrUp)] {
        let numbers = numbers(&TINY, Weight::Layer(0, of));
        tensors.push(Tensor::new(format!("blocks.0.att.{own}"), Format::F16, &[1, numbers.len()], &numbers));
    }
    assert!(open(&safetensors::write(&tensors)).unwrap().unknown().is_empty());
}

#[test]
fn ignored_tensors_are_named_and_left_out_of_copies() {
    let names = ["blocks.0.ffn.s0", "head.bias"];
    let folder = tempfile::tempdir().unwrap();
    let [source, copy] = ["source.st", "copy.gguf"].map(|name| folder.path().join(name));
    std::fs::File::create(&source).unwrap().write_all(&safetensors::write(&with(&names))).unwrap();
    assert!(matches!(Model::open_source(&source).map_err(LoadError::into_reason), Err(LoadError::UnknownTensors(_))));
    let model = Model::open_with(&source, OpenOptions { for_conversion: true, ignore_unknown: true }).unwrap();
    assert_eq!(model.unknown().names().collect::<Vec<_>>(), names);
    let options = ConvertOptions {
        container: Container::Gguf,
        mix: kept_mix(&model),
        chosen: None,
        name: String::new(),
        vocabulary: None,
        set: Vec::new(),
        replace: false,
        check: true,
        most_rounding: MOST_ROUNDING,
    };
    let converted: Result<_, ConvertError> =
        convert(&model, &options, &copy, &mut |_, _| std::ops::ControlFlow::Continue(()));
    converted.unwrap();
    let copy = Model::open(&copy).unwrap();
    for weight in Weight::all(&TINY) {
        assert_eq!(copy.tensor(weight).to_f32(), model.tensor(weight).to_f32(), "{weight}");
    }
}
