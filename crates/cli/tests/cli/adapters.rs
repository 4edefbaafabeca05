//! `--adapter`: the same model whether an adapter is merged at load or written into a file.

use crate::binary::{npy, printed, said, synth, wgoose};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn logits(folder: &Path, model: &str) -> Vec<f32> {
    run(folder, &format!("dev logits {model} --tokens tokens.json --out logits.npy --backend cpu"));
    npy(&folder.join("logits.npy")).2
}

/// A LoRA of rank 2 for one matrix of the model in `tiny.st`.
pub(crate) fn save_lora(folder: &Path) {
    let model = std::fs::read(folder.join("tiny.st")).unwrap();
    let key = SafeTensors::deserialize(&model).unwrap().tensor("blocks.1.ffn.key.weight").unwrap().shape().to_vec();
    let numbers = |len: usize| (0..len).flat_map(|i| ((i % 7) as f32 / 8.0 - 0.375).to_le_bytes()).collect::<Vec<u8>>();
    let (a, b) = (numbers(2 * key[1]), numbers(2 * key[0]));
    let a = TensorView::new(Dtype::F32, vec![2, key[1]], &a).unwrap();
    let b = TensorView::new(Dtype::F32, vec![key[0], 2], &b).unwrap();
    let tensors = [("blocks.1.ffn.key.lora_A", a), ("blocks.1.ffn.key.lora_B", b)];
    std::fs::write(folder.join("lora.st"), safetensors::serialize(tensors, None).unwrap()).unwrap();
}

#[test]
fn an_adapter_is_merged_at_load_or_into_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    save_lora(folder);
    std::fs::write(folder.join("tokens.json"), "[72, 101, 108, 108, 111]").unwrap();
    let plain = logits(folder, "tiny.st");
    let merged = logits(folder, "tiny.st --adapter lora.st:0.5");
    assert_ne!(merged, plain);
    assert_eq!(logits(folder, "tiny.st --adapter lora.st:0"), plain);
    assert_ne!(logits(folder, "tiny.st --adapter lora.st:1"), merged);
    let what = "adapter: lora.st: LoRA of rank 2, scale 0.5, merged into 1 matrix\n";
    let written = run(folder, "convert tiny.st merged.st --adapter lora.st:0.5 --check");
    assert!(written.starts_with(what), "{written}");
    assert_eq!(logits(folder, "merged.st"), merged);

    let output = wgoose(folder, "info tiny.st --adapter lora.st:0.5".split(' '));
    let (text, error) = (String::from_utf8(output.stdout.clone()).unwrap(), said(output));
    assert_eq!(error, what);
    let plain = run(folder, "info tiny.st");
    let fingerprint = |text: &str| text.split("fingerprint ").nth(1).unwrap()[..32].to_owned();
    assert_ne!(fingerprint(&text), fingerprint(&plain));
}

#[test]
fn a_misfit_adapter_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    save_lora(folder);
    for (line, says) in [
        ("info tiny.st --adapter lora.st", "'lora.st': it is a LoRA and does not say by how much"),
        ("convert tiny.st out.st --adapter none.st:1", "cannot read 'none.st'"),
        ("info tiny.st --adapter tiny.st", "'tiny.st': there is no LoRA, PiSSA, DiSHA (Bone) or MiSS in it"),
        ("info tiny.st --adapter lora.st --adapter-initial lora.st", "it is not what a PiSSA began with"),
    ] {
        let output = wgoose(folder, line.split(' '));
        let failed = !output.status.success();
        let error = said(output);
        assert!(failed && error.contains(says) && error.lines().count() == 1, "{line}: {error}");
    }
    assert!(!folder.join("out.st").exists());
}
