//! A model whose arithmetic breaks gives no numbers, and the error says where.

use crate::binary::{printed, said, synth, wgoose};
use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// Puts NaN into the first element of a weight.
fn breaks(folder: &Path, model: &str, weight: &str) {
    let tensors = printed(folder, ["info", model, "--tensors"]);
    let line = tensors.lines().find(|line| line.ends_with(&format!(" {weight}"))).unwrap();
    let offset = line.split_whitespace().next().unwrap().parse().unwrap();
    let mut file = OpenOptions::new().write(true).open(folder.join(model)).unwrap();
    file.seek(SeekFrom::Start(offset)).unwrap();
    file.write_all(&f32::NAN.to_le_bytes()).unwrap();
}

#[test]
fn the_first_op_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "--mix F32");
    breaks(folder, "tiny.gguf", "blocks.1.ln1.weight");
    std::fs::write(folder.join("ids.json"), "[1, 2, 3]").unwrap();
    for backend in ["cpu", "gpu"] {
        for line in [
            "dev logits tiny.gguf --tokens ids.json --out l.npy",
            "embed tiny.gguf goose",
            "embed tiny.gguf goose --out e.npy",
            "embed tiny.gguf goose --store s --prefix duck",
        ] {
            let output = wgoose(folder, format!("{line} --backend {backend}").split(' '));
            assert!(output.stdout.is_empty(), "{line}");
            let said = said(output);
            assert!(said.starts_with("wgoose: the model computes NaN: '"), "{line}: {said}");
            assert!(said.contains(" of layer 1 is the first op ") && said.lines().count() == 1, "{line}: {said}");
        }
        assert!(!folder.join("l.npy").exists() && !folder.join("e.npy").exists());
        // Nothing is kept that another run would take for sound; layers below are.
        let again = wgoose(folder, "embed tiny.gguf goose --store s --prefix duck".split(' '));
        assert!(!again.status.success());
        printed(folder, format!("embed tiny.gguf goose --layer 0 --backend {backend}").split(' '));
    }
}
