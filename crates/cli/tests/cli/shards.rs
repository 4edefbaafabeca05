//! A model in several files answers as the model in one file does, whichever verb reads it and however it is named.

use crate::binary::{printed, said, synth, wgoose};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const COUNT: usize = 3;

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn shard(number: usize) -> String {
    format!("model-{number:05}-of-{COUNT:05}.safetensors")
}

/// Writes a model in shards, with an index and a configuration, as Hugging Face's libraries do.
fn split(model: &Path, folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let file = fs::read(model).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let mut names = tensors.names();
    names.sort();
    let mut weight_map = BTreeMap::new();
    for (i, names) in names.chunks(names.len().div_ceil(COUNT)).enumerate() {
        let views = names.iter().map(|name| (*name, tensors.tensor(name).unwrap()));
        let views: Vec<(&str, TensorView<'_>)> = views.collect();
        fs::write(folder.join(shard(i + 1)), safetensors::serialize(views, None).unwrap()).unwrap();
        weight_map.extend(names.iter().map(|name| (*name, shard(i + 1))));
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": weight_map });
    fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let config =
        serde_json::json!({ "model_type": "rwkv7", "num_hidden_layers": 2, "hidden_size": 128, "head_dim": 64 });
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
}

#[test]
fn a_sharded_model_has_the_logits_of_the_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "one.st", "");
    split(&folder.join("one.st"), &folder.join("goose-1.5b"));
    fs::write(folder.join("tokens.json"), "[72, 101, 108, 108, 111, 300, 1, 0]").unwrap();
    for backend in ["cpu", "gpu"] {
        let logits = |model: &str| {
            run(folder, &format!("dev logits {model} --tokens tokens.json --out logits.npy --backend {backend}"));
            fs::read(folder.join("logits.npy")).unwrap()
        };
        let wanted = logits("one.st");
        let named = format!("goose-1.5b/{}", shard(2));
        for model in ["goose-1.5b", "goose-1.5b/model.safetensors.index.json", &named] {
            assert!(logits(model) == wanted, "{model} on the {backend}");
        }
    }

    let about = run(folder, "info goose-1.5b --tensors");
    assert!(about.starts_with("goose-1.5b: safetensors in 3 files, "), "{about}");
    assert!(about.contains(&format!("head.weight  {}\n", shard(COUNT))), "{about}");
    let json = run(folder, "info goose-1.5b --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["files"].as_array().unwrap().len(), COUNT);

    run(folder, "convert goose-1.5b whole.st --check");
    assert!(fs::read(folder.join("whole.st")).unwrap() == fs::read(folder.join("one.st")).unwrap());
    run(folder, "convert goose-1.5b whole.gguf --check");
    let json: serde_json::Value = serde_json::from_str(&run(folder, "info whole.gguf --json")).unwrap();
    assert_eq!(json["name"], "goose-1.5b", "the name of the folder, whatever has a dot in it");
}

#[test]
fn a_faulty_folder_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "one.st", "");
    split(&folder.join("one.st"), &folder.join("goose"));
    fs::create_dir(folder.join("two")).unwrap();
    for name in ["a.gguf", "b.pth"] {
        fs::write(folder.join("two").join(name), "").unwrap();
    }
    let refused = |line: &str, says: &str| {
        let output = wgoose(folder, line.split(' '));
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(said(output), format!("wgoose: {says}\n"), "{line}");
    };
    refused("info two", "'two': 2 models in this folder, name one: 'a.gguf', 'b.pth'");
    let config = fs::read_to_string(folder.join("goose/config.json")).unwrap();
    fs::write(folder.join("goose/config.json"), config.replace("layers\":2", "layers\":24")).unwrap();
    let contradiction = "'goose/config.json': key 'num_hidden_layers' says 24, the tensors say 2";
    refused("generate goose --prompt a", contradiction);
    refused("convert goose new.gguf", contradiction);
    fs::remove_file(folder.join("goose").join(shard(3))).unwrap();
    refused(
        "verify goose",
        &format!(
            "'goose/model.safetensors.index.json': 1 of 3 shards missing: '{}' (download them to the same folder)",
            shard(3)
        ),
    );
}
