//! One model under every naming, in every kind of file, format and orientation of adapters, has the same bytes.

use crate::model_files::support::namings::{NAMINGS, Renaming};
use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::shards::{Form, folder_of};
use crate::model_files::support::{TINY, Tensor, checkpoint, open, safetensors};
use wgoose_graph::{Format, LoraRanks, ModelShape, Weight};
use wgoose_loader::{Container, LoadError, Model};

/// Tensors with the authors' names under others.
fn renamed(tensors: &[Tensor], naming: &Renaming) -> Vec<Tensor> {
    let mut renamed: Vec<Tensor> = Vec::new();
    for tensor in tensors {
        let follows = |mix: &char| tensor.name.ends_with(&format!(".att.x_{mix}"));
        if naming.is_stacked && ['w', 'k', 'v', 'a', 'g'].iter().any(follows) {
            let stack = renamed.last_mut().unwrap();
            stack.dims[0] += 1;
            stack.bytes.extend(&tensor.bytes);
        } else {
            renamed.push(Tensor { name: (naming.rename)(&tensor.name), ..tensor.clone() });
        }
    }
    renamed
}

/// A file of these tensors.
fn file(container: Container, tensors: &[Tensor]) -> Vec<u8> {
    match container {
        Container::Safetensors => safetensors::write(tensors),
        Container::Pth => pth::write(tensors, Style::Plain),
        Container::Gguf => panic!("GGUF has one naming"),
    }
}

/// The canonical bytes of every weight.
fn bytes(model: &Model) -> Vec<(Weight, Vec<u8>)> {
    let weight = |weight| {
        let view = model.tensor(weight);
        let mut bytes = vec![0; view.byte_len()];
        view.copy_rows(0..view.rows(), &mut bytes);
        (weight, bytes)
    };
    Weight::all(model.shape()).map(weight).collect()
}

#[test]
fn every_naming_has_the_bytes_of_the_authors_file() {
    for format in [Format::F32, Format::F16, Format::BF16] {
        let [out_in, in_out] = [false, true].map(|in_out| checkpoint(&TINY, format, in_out));
        let wanted = bytes(&open(&file(Container::Pth, &in_out)).unwrap());
        for naming in &NAMINGS {
            for (container, tensors) in [
                (Container::Safetensors, &out_in),
                (Container::Safetensors, &in_out),
                (Container::Pth, &out_in),
                (Container::Pth, &in_out),
            ] {
                let is_in_out = std::ptr::eq(tensors, &in_out);
                let case = format!("{} in {container}, {format}, in x out: {is_in_out}", naming.title);
                let tensors = renamed(tensors, naming);
                let model = open(&file(container, &tensors)).unwrap_or_else(|why| panic!("{case}: {why}"));
                assert_eq!(model.shape(), &TINY, "{case}");
                assert!(bytes(&model) == wanted, "{case}: other bytes");
            }
        }
    }
}

#[test]
fn every_naming_in_shards_has_the_bytes_of_the_authors_file() {
    for (format, form) in [(Format::F32, Form::Bin), (Format::F16, Form::Safetensors), (Format::BF16, Form::Bin)] {
        let [out_in, in_out] = [false, true].map(|in_out| checkpoint(&TINY, format, in_out));
        let wanted = bytes(&open(&file(Container::Pth, &in_out)).unwrap());
        for naming in &NAMINGS {
            for tensors in [&out_in, &in_out] {
                let folder = folder_of(form, &renamed(tensors, naming));
                let model = Model::open(folder.path()).unwrap_or_else(|why| panic!("{}: {why}", naming.title));
                assert!(bytes(&model) == wanted, "{}, {format}: other bytes", naming.title);
            }
        }
    }
}

#[test]
fn a_naming_decides_the_orientation_of_square_adapters() {
    let c = TINY.width;
    let ranks = LoraRanks { decay: c, iclr: c, value: c, gate: c };
    let shape = ModelShape { layers: 2, ranks, ..TINY };
    let [out_in, in_out] = [false, true].map(|in_out| checkpoint(&shape, Format::F16, in_out));
    let wanted = bytes(&open(&file(Container::Pth, &in_out)).unwrap());
    for naming in &NAMINGS {
        for container in [Container::Safetensors, Container::Pth] {
            let of = |tensors| bytes(&open(&file(container, &renamed(tensors, naming))).unwrap());
            let (right, wrong) = match naming.in_out.unwrap_or(container == Container::Pth) {
                true => (&in_out, &out_in),
                false => (&out_in, &in_out),
            };
            assert!(of(right) == wanted, "{} in {container}", naming.title);
            assert!(of(wrong) != wanted, "{} in {container}: both orientations are alike", naming.title);
        }
    }
}

#[test]
fn stacked_mixes_may_drop_the_size_of_1() {
    let naming = NAMINGS.iter().find(|naming| naming.is_stacked).unwrap();
    let mut tensors = renamed(&checkpoint(&TINY, Format::F16, false), naming);
    let wanted = bytes(&open(&safetensors::write(&tensors)).unwrap());
    for tensor in tensors.iter_mut().filter(|tensor| tensor.name.ends_with("x_x")) {
        assert_eq!(tensor.dims, [6, 1, 64]);
        tensor.dims = vec![6, 64];
    }
    assert!(bytes(&open(&safetensors::write(&tensors)).unwrap()) == wanted);
    for tensor in tensors.iter_mut().filter(|tensor| tensor.name.ends_with("x_x")) {
        tensor.dims = vec![64, 6];
    }
    let error = open(&safetensors::write(&tensors)).unwrap_err();
    assert!(matches!(error, LoadError::WrongShape { .. }), "{error}");
}

#[test]
fn a_missing_tensor_is_named_as_in_its_file() {
    for (title, missing, whose) in [
        ("authors", "blocks.1.att.k_k", "the authors' names"),
        ("flash-linear-attention", "model.layers.1.attn.k_k", "flash-linear-attention's names"),
        ("port in a module rwkv", "rwkv.rwkv7.blocks.1.att.k_k", "(Rwkv7ForCausalLM)"),
        ("decoder", "model.layers.1.linear_attn.k_k", "(RwkvForCausalLM)"),
    ] {
        let naming = NAMINGS.iter().find(|naming| naming.title == title).unwrap();
        let mut tensors = renamed(&checkpoint(&TINY, Format::F16, false), naming);
        let all = tensors.len();
        tensors.retain(|tensor| tensor.name != missing);
        assert_eq!(tensors.len(), all - 1, "{missing}");
        let error = open(&safetensors::write(&tensors)).unwrap_err();
        assert!(matches!(error, LoadError::MissingTensor { .. }), "{error}");
        for says in [format!("tensor '{missing}' is missing"), format!("{} of its tensors have", all - 1), whose.into()]
        {
            assert!(error.to_string().contains(&says), "'{error}' does not say '{says}'");
        }
    }
}

#[test]
fn tensors_that_no_op_reads_are_refused_in_every_naming() {
    let authors = checkpoint(&TINY, Format::F16, false);
    for naming in &NAMINGS {
        let mut tensors = renamed(&authors, naming);
        let name = (naming.rename)("blocks.1.ffn.s0");
        tensors.push(Tensor::new(&name, Format::F16, &[2], &[0.0; 2]));
        let error = open(&safetensors::write(&tensors)).unwrap_err();
        assert!(error.to_string().contains(&format!("no op reads 1 tensor: '{name}'")), "{}: {error}", naming.title);
    }
}

#[test]
fn a_value_residual_of_layer_0_means_nothing_in_every_naming() {
    let mut tensors = checkpoint(&TINY, Format::F16, false);
    tensors.retain(|tensor| tensor.name != "blocks.0.att.v1");
    for (own, of) in [("v0", "a0"), ("v1", "a1"), ("v2", "a2")] {
        let copied = tensors.iter().find(|tensor| tensor.name == format!("blocks.0.att.{of}")).unwrap();
        tensors.push(Tensor { name: format!("blocks.0.att.{own}"), ..copied.clone() });
    }
    for naming in &NAMINGS {
        let model = open(&safetensors::write(&renamed(&tensors, naming))).unwrap();
        assert!(model.unknown().is_empty(), "{}: {}", naming.title, model.unknown());
    }
}
