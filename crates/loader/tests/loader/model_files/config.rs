//! `config.json` beside a model: what it says is held against the tensors.

use crate::model_files::support::shards::{Form, folder, whole, write};
use crate::model_files::support::{TINY, Tensor, checkpoint, safetensors};
use serde_json::{Value, json};
use std::path::Path;
use wgoose_graph::{Format, ModelShape};
use wgoose_loader::Model;

/// The configuration that the port to flash-linear-attention writes for the tiny model.
fn config() -> Value {
    json!({
        "architectures": ["RWKV7ForCausalLM"], "model_type": "rwkv7", "torch_dtype": "float16", "fuse_norm": true,
        "hidden_size": 64, "head_dim": 32, "num_hidden_layers": 3, "intermediate_size": 96, "vocab_size": 10,
        "decay_low_rank_dim": 5, "a_low_rank_dim": 6, "v_low_rank_dim": 7, "gate_low_rank_dim": 8,
        "norm_eps": 1e-5, "norm_first": true, "hidden_act": "sqrelu", "attn": null, "group_norm_epsilon": 32e-5,
    })
}

/// The same with one key changed.
fn changed(key: &str, value: Value) -> String {
    let mut config = config();
    config[key] = value;
    config.to_string()
}

/// Why a model with that configuration beside it is refused.
fn refusal(path: &Path, config: &str) -> String {
    write(path.parent().unwrap(), "config.json", config.as_bytes());
    Model::open(path).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn a_configuration_that_the_tensors_agree_with_is_no_obstacle() {
    for form in [Form::Safetensors, Form::Bin] {
        let folder = folder(form);
        write(folder.path(), "tokenizer_config.json", b"{\"tokenizer_class\": \"RwkvTokenizer\"}");
        for text in [config().to_string(), "{}".to_owned(), changed("head_dim", Value::Null)] {
            write(folder.path(), "config.json", text.as_bytes());
            let model = Model::open(folder.path()).unwrap();
            assert_eq!(model.shape(), &TINY);
            let tokenizer = (text != "{}").then_some("RwkvTokenizer");
            assert_eq!(model.about().tokenizer.as_deref(), tokenizer, "{text}");
        }
    }
}

#[test]
fn contradictions_name_both_values() {
    let folder = folder(Form::Safetensors);
    let path = folder.path().join(Form::Safetensors.index().unwrap());
    for (key, found) in [
        ("num_hidden_layers", 3),
        ("hidden_size", 64),
        ("intermediate_size", 96),
        ("head_dim", 32),
        ("head_size", 32),
        ("vocab_size", 10),
        ("decay_low_rank_dim", 5),
        ("a_low_rank_dim", 6),
        ("v_low_rank_dim", 7),
        ("gate_low_rank_dim", 8),
    ] {
        let text = refusal(&path, &changed(key, json!(16)));
        let says = format!("config.json': key '{key}' says 16, the tensors say {found}");
        assert!(text.ends_with(&says), "'{text}' does not say '{says}'");
    }
    for (key, value, says) in [
        ("norm_eps", json!(1e-6), "config.json': layer norm epsilon 0.000001, but RWKV-7 is defined with 1e-5"),
        (
            "group_norm_epsilon",
            json!(64e-5),
            "'group_norm_epsilon' is 0.00064: RWKV-7 with heads of 32 is defined with 0.00032",
        ),
        (
            "embedding_layer_norm_fused",
            json!(true),
            "'embedding_layer_norm_fused' is true, but the model has tensor 'blocks.0.ln0.weight'",
        ),
    ] {
        let text = refusal(&path, &changed(key, value));
        assert!(text.contains(says), "'{text}' does not say '{says}'");
    }
}

#[test]
fn models_of_other_types_are_refused_by_name() {
    let folder = folder(Form::Safetensors);
    let path = folder.path().join(Form::Safetensors.shard(1));
    for (text, says) in [
        (changed("model_type", json!("rwkv6")), "config.json': a model of type 'rwkv6': only 'rwkv7' can be run"),
        (changed("model_type", json!("arwkv7")), "a model of type 'arwkv7': only 'rwkv7' can be run"),
        (json!({ "architectures": ["LlamaForCausalLM"] }).to_string(), "a model of type 'LlamaForCausalLM'"),
        (changed("hidden_act", json!("gelu")), "'hidden_act' is 'gelu': RWKV-7 has the square of relu ('sqrelu')"),
        (changed("attn", json!({ "layers": [1] })), "'attn' asks for layers of softmax attention"),
        (changed("hidden_size", json!("64")), "invalid type: string \"64\", expected u64 at line 1 column "),
        ("no JSON".to_owned(), "config.json': expected ident at line 1 column 2 (copy it again, or move it away"),
    ] {
        let found = refusal(&path, &text);
        assert!(found.contains(says), "'{found}' does not say '{says}'");
    }
}

/// A file among many may have a neighbour that has nothing to do with it.
#[test]
fn a_named_file_ignores_configurations_of_other_models() {
    let folder = tempfile::tempdir().unwrap();
    let own = write(folder.path(), "goose.safetensors", &whole(Form::Safetensors));
    let gguf = write(folder.path(), "goose.gguf", &whole(Form::Gguf));
    for other in [changed("model_type", json!("llama")), "no JSON".to_owned()] {
        write(folder.path(), "config.json", other.as_bytes());
        Model::open(&own).unwrap();
        let saved = write(folder.path(), "model.safetensors", &whole(Form::Safetensors));
        Model::open(&saved).map(|_| ()).unwrap_err();
    }
    assert!(refusal(&own, &changed("vocab_size", json!(11))).contains("'vocab_size' says 11, the tensors say 10"));
    Model::open(&gguf).unwrap();
}

/// A bonus in one row leaves the size of the heads open.
#[test]
fn the_configuration_gives_the_head_size_if_the_tensors_do_not() {
    let mut tensors: Vec<Tensor> = checkpoint(&TINY, Format::F16, false);
    tensors.iter_mut().filter(|tensor| tensor.name.ends_with(".r_k")).for_each(|tensor| tensor.dims = vec![64]);
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "model.safetensors", &safetensors::write(&tensors));
    assert_eq!(Model::open(&path).unwrap().shape(), &ModelShape { head_size: 64, ..TINY });
    write(folder.path(), "config.json", config().to_string().as_bytes());
    assert_eq!(Model::open(&path).unwrap().shape(), &TINY);
}
