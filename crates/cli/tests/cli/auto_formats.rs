//! `wgoose convert --to auto`: a mix whose measured divergence and size keep to what was asked.

use crate::binary::{printed, said, wgoose};
use serde_json::Value;
use std::path::Path;

const TEXT: &str = "The goose flies over the house. The goose flies over the house again.";

/// A model whose matrices can have every format.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let line = "dev synth tiny.gguf --layers 1 --width 256 --ffn 256 --vocab 320 --ranks 32,24,16,48";
    printed(folder.path(), line.split(' '));
    std::fs::write(folder.path().join("text.txt"), TEXT).unwrap();
    folder
}

fn run(folder: &Path, line: &str) -> String {
    printed(folder, format!("convert tiny.gguf {line} --to auto --text text.txt --limit 16").split_whitespace())
}

fn json(folder: &Path, line: &str) -> Value {
    serde_json::from_str(&run(folder, &format!("{line} --json"))).unwrap()
}

fn mix<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mixes = report["allocation"]["mixes"].as_array().unwrap();
    mixes.iter().find(|mix| mix["name"] == name).unwrap()
}

#[test]
fn a_target_is_kept_by_the_file_that_is_written() {
    let folder = folder();
    let folder = folder.path();
    let all = json(folder, "large.gguf --backend cpu --budget-bytes 1GB");
    assert_eq!(mix(&all, "source"), &{
        let mut auto = mix(&all, "auto").clone();
        auto["name"] = "source".into();
        auto
    });
    let target = 0.5 * mix(&all, "Q4_K_M")["mean_kl"].as_f64().unwrap();

    // On the GPU, and what `eval` says of the file there.
    let report = json(folder, &format!("small.gguf --target-kl {target}"));
    let (kl, written) = (report["allocation"]["kl"].as_f64().unwrap(), folder.join("small.gguf"));
    assert!(kl > 0.0 && kl <= target, "{kl} of {target}");
    assert_eq!(report["bytes"], std::fs::metadata(&written).unwrap().len());
    assert_eq!((&report["mix"], &report["bytes"]), (&"auto".into(), &mix(&report, "auto")["bytes"]));
    assert!(report["bytes"].as_u64() < all["bytes"].as_u64());
    let line = "eval small.gguf --against tiny.gguf --text text.txt --limit 16 --json";
    let evaluated: Value = serde_json::from_str(&printed(folder, line.split(' '))).unwrap();
    let found = evaluated["divergence"]["mean_kl"].as_f64().unwrap();
    assert!((found / kl - 1.0).abs() < 1e-6, "{found}, {kl} when it was chosen");

    let again = json(folder, &format!("again.gguf --target-kl {target}"));
    assert_eq!(again["allocation"], report["allocation"]);
    assert!(std::fs::read(folder.join("again.gguf")).unwrap() == std::fs::read(written).unwrap());
}

#[test]
fn a_mix_stays_within_its_budget_and_a_larger_budget_lowers_the_kl() {
    let folder = folder();
    let folder = folder.path();
    let mut estimates = Vec::new();
    let q4 = json(folder, "large.gguf --backend cpu --budget-bytes 1GB");
    let least = mix(&q4, "Q4_K_M")["bytes"].as_u64().unwrap();
    for (i, budget) in [least, least + 20_000, least + 100_000].into_iter().enumerate() {
        let report = json(folder, &format!("{i}.gguf --backend cpu --budget-bytes {budget} --check"));
        let bytes = report["bytes"].as_u64().unwrap();
        assert!(bytes <= budget && report["checked"].as_u64() > Some(20), "{bytes} of {budget}");
        assert_eq!(std::fs::metadata(folder.join(format!("{i}.gguf"))).unwrap().len(), bytes);
        estimates.push(report["allocation"]["estimated_kl"].as_f64().unwrap());
    }
    assert!(estimates.is_sorted_by(|less, more| less > more), "{estimates:?}");

    let table = run(folder, &format!("table.gguf --backend cpu --budget-bytes {}", least + 20_000));
    for part in [
        "table.gguf: ",
        " tensors, auto\nrounding has changed none by more than ",
        "\n\n| matrices | Q",
        "| ffn.key.weight |",
        "\n| auto | ",
        "\n| source | ",
    ] {
        assert!(table.contains(part), "{table}");
    }
}

#[test]
fn the_model_writes_the_text_if_none_is_given() {
    let folder = folder();
    let made = |name: &str| {
        let line = format!("convert tiny.gguf {name} --to auto --target-kl 0.001 --limit 12 --backend cpu --json");
        serde_json::from_str::<Value>(&printed(folder.path(), line.split(' '))).unwrap()
    };
    let report = made("a.gguf");
    assert_eq!(report["allocation"]["tokens"], 12);
    assert_eq!(made("b.gguf"), report);
}

#[test]
fn a_target_below_all_mixes_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Adapters in F32 become F16, as in every quantised file.
    let line = "dev synth tiny.gguf --layers 1 --width 256 --ffn 256 --vocab 320 --ranks 32,24,16,48 --mix F32";
    printed(folder, line.split(' '));
    std::fs::write(folder.join("text.txt"), TEXT).unwrap();
    let line = "convert tiny.gguf new.gguf --to auto --target-kl 1e-30 --text text.txt --limit 4 --backend cpu";
    let output = wgoose(folder, line.split(' '));
    assert_eq!(output.status.code(), Some(1));
    let error = said(output);
    assert!(error.contains("1.00e-30 nats a token cannot be reached: with every"), "{error}");
    assert_eq!((error.lines().count(), std::fs::read_dir(folder).unwrap().count()), (2, 2), "{error}");
    let estimate = error.lines().next().unwrap();
    assert!(estimate.contains(" measurements, about ") && estimate.contains("--limit"), "{estimate}");
}
