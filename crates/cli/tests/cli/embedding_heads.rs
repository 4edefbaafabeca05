//! Embedding models on the command line: `info`, `embed`, `convert`, and what only language models do.

use crate::binary::{printed, said, wgoose};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, serialize_to_file};
use std::path::Path;

const WIDTH: usize = 64;

/// Writes a model that only embeds. Its heads add another number each to the normalised hidden state.
pub(crate) fn embedding_model(folder: &Path, name: &str) {
    let options = "--layers 1 --width 64 --ffn 64 --vocab 65536 --ranks 16,16,16,16 --mix F16";
    printed(folder, format!("dev synth body.st {options}").split_whitespace());
    let body = std::fs::read(folder.join("body.st")).unwrap();
    let body = SafeTensors::deserialize(&body).unwrap();
    let floats = |x: f32, count: usize| x.to_le_bytes().repeat(count);
    let zeros = floats(0.0, WIDTH * WIDTH);
    let ones = floats(1.0, WIDTH);
    let heads = [("cls", floats(1.0, WIDTH)), ("sts", floats(2.0, WIDTH)), ("retr", floats(3.0, WIDTH))];
    let view = |dims: &[usize], data| TensorView::new(Dtype::F32, dims.to_vec(), data).unwrap();
    let weights = body.iter().filter(|(name, _)| *name != "head.weight");
    let mut tensors: Vec<_> = weights.map(|(name, view)| (format!("rwkv.{name}"), view)).collect();
    for (head, bias) in &heads {
        let parts = [
            ("fc1.weight", view(&[WIDTH, WIDTH], &zeros)),
            ("fc2.weight", view(&[WIDTH, WIDTH], &zeros)),
            ("norm.weight", view(&[WIDTH], &ones)),
            ("norm.bias", view(&[WIDTH], bias)),
        ];
        tensors.extend(parts.map(|(part, view)| (format!("head.{head}_head.{part}"), view)));
    }
    serialize_to_file(tensors, None, &folder.join(name)).unwrap();
}

#[test]
fn an_embedding_model_embeds_with_its_heads_and_refuses_other_verbs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    embedding_model(folder, "embed.st");
    let info = printed(folder, ["info", "embed.st", "--backend", "cpu"]);
    assert!(
        info.contains("embedding heads cls, sts, retr\nno output head: it embeds texts, and generates none\n"),
        "{info}"
    );
    let embed = |model: &str, more: &str| {
        printed(folder, format!("embed {model} --backend cpu --raw {more} goose").split_whitespace())
    };
    let usual = embed("embed.st", "");
    assert_eq!(embed("embed.st", "--head retr"), usual);
    let vector = |line: &str| -> Vec<f32> {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        serde_json::from_value(line["embedding"].clone()).unwrap()
    };
    let [cls, retr] = [embed("embed.st", "--head cls"), usual.clone()].map(|line| vector(&line));
    assert!(cls.iter().zip(&retr).all(|(cls, retr)| (retr - cls - 2.0).abs() < 1e-5));
    printed(folder, ["convert", "embed.st", "copy.st", "--check"]);
    assert_eq!(embed("copy.st", ""), usual);

    let refused = |args: &str| {
        let output = wgoose(folder, args.split_whitespace());
        assert!(!output.status.success(), "{args}");
        said(output)
    };
    let no_logits = refused("generate embed.st --backend cpu --prompt goose");
    assert!(no_logits.contains("this model has no output head"), "{no_logits}");
    let no_names = refused("convert embed.st copy.gguf");
    assert!(no_names.contains("GGUF has no names for the heads of an embedding model"), "{no_names}");
    let unknown = refused("embed embed.st --head sim goose");
    assert!(unknown.contains("'sim' is none of the embedding heads cls, sts, retr"), "{unknown}");
    refused("embed embed.st --head cls --layer 0 goose");
}
