//! Verbs on a tiny model.

use crate::binary::{deviation, npy, printed, said, synth, wgoose};
use std::path::Path;

/// A folder with `tiny.gguf` and `tokens.json`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::write(folder.path().join("tokens.json"), "[72, 101, 108, 108, 111, 300, 1, 0]").unwrap();
    folder
}

/// The stdout of a command line.
#[track_caller]
fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn json(folder: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&run(folder, line)).unwrap()
}

#[test]
fn synth_repeats_itself() {
    let folder = folder();
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    synth(folder.path(), "again.gguf", "");
    synth(folder.path(), "other.gguf", "--seed 1");
    assert!(bytes("again.gguf") == bytes("tiny.gguf"));
    assert!(bytes("other.gguf") != bytes("tiny.gguf"));
}

#[test]
fn info_describes_a_synthetic_model() {
    let folder = folder();
    let text = run(folder.path(), "info tiny.gguf --tensors");
    for part in ["GGUF", "layers 2, width 128, channel mix 256, 2 heads of 64", "vocabulary 320", "blocks.1.att.g2"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let info = json(folder.path(), "info tiny.gguf --json");
    assert_eq!(info["container"], "GGUF");
    assert_eq!(info["file_bytes"], std::fs::metadata(folder.path().join("tiny.gguf")).unwrap().len());
    let shape = serde_json::json!({
        "layers": 2, "width": 128, "ffn": 256, "head_size": 64, "vocab": 320,
        "ranks": { "decay": 32, "iclr": 24, "value": 16, "gate": 48 },
    });
    assert_eq!(info["shape"], shape);
    assert!(text.contains(info["fingerprint"].as_str().unwrap()));
    assert_eq!((&info["quantisation"], &info["formats"]["F16"]["tensors"].is_u64()), (&"F16".into(), &true));
    assert!(
        text.contains("name: ") && text.contains("quantisation: F16\n") && text.contains(" MiB, opened in "),
        "{text}"
    );
}

#[test]
fn rwkv_7a_is_made_described_and_copied_but_not_to_gguf() {
    let folder = folder();
    synth(folder.path(), "deep.st", "--deep-embed 4");
    let text = run(folder.path(), "info deep.st");
    assert!(text.contains("RWKV-7a: DeepEmbed with a 4 x 4 matrix for each token in each layer\n"), "{text}");
    let info = json(folder.path(), "info deep.st --json");
    assert_eq!((&info["architecture"], &info["shape"]["deep_embed"]), (&"RWKV-7a".into(), &4.into()));
    assert_eq!(json(folder.path(), "info tiny.gguf --json")["architecture"], "RWKV-7");
    run(folder.path(), "convert deep.st copy.st --check");
    let bytes = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(bytes("copy.st") == bytes("deep.st"));
    for (line, says) in [
        (
            "convert deep.st copy.gguf",
            "GGUF has no names for the tensors of RWKV-7a (DeepEmbed): write a safetensors file",
        ),
        ("dev synth deep.gguf --layers 1 --width 64 --deep-embed 4", "GGUF has no names for the tensors of RWKV-7a"),
        ("dev synth none.st --layers 1 --width 64 --deep-embed 0", "DeepEmbed size is 0: a model has at least one"),
    ] {
        let said = said(wgoose(folder.path(), line.split(' ')));
        assert!(said.contains(says), "{said}");
    }
}

#[test]
fn logits_of_both_backends_agree() {
    let folder = folder();
    let logits = |options: &str| {
        run(folder.path(), &format!("dev logits tiny.gguf --tokens tokens.json --out logits.npy {options}"));
        npy(&folder.path().join("logits.npy"))
    };
    let cpu = logits("--backend cpu");
    assert_eq!((cpu.0, cpu.1), (8, 320));
    for options in ["", "--chunk 3"] {
        let gpu = logits(options);
        assert_eq!((gpu.0, gpu.1), (8, 320));
        for (t, (got, want)) in gpu.2.chunks(320).zip(cpu.2.chunks(320)).enumerate() {
            let off = deviation(got, want);
            assert!(off <= if t == 0 { 5e-4 } else { 1e-4 }, "token {t} with '{options}' is off by {off:.1e}");
        }
    }
}

#[test]
fn a_seed_repeats_the_text() {
    let folder = folder();
    let text = |options: &str| {
        let line = format!("generate tiny.gguf --prompt goose --max-tokens 16 --top-p 1 {options}");
        let output = wgoose(folder.path(), line.split_whitespace());
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let report = said(output);
        assert!(report.starts_with("5 prompt tokens, ") && report.lines().count() == 1, "{report}");
        text
    };
    assert_eq!(text("--seed 3"), text("--seed 3"));
    assert_ne!(text("--seed 3"), text("--seed 4"));
    assert_eq!(text("--temperature 0 --seed 3"), text("--temperature 0 --backend cpu"));
}

#[test]
fn graphs_are_printed() {
    let folder = folder();
    let dot = run(folder.path(), "dev graph 0.1B --dot");
    assert!(dot.starts_with("digraph") && dot.trim_end().ends_with('}'), "{dot}");
    let lines = |line: &str| run(folder.path(), line).lines().count();
    assert!(lines("dev graph tiny.gguf --fuse all") < lines("dev graph tiny.gguf"));
    let dispatches = run(folder.path(), "dev graph tiny.gguf --dispatches 4");
    assert!(dispatches.contains("head.weight") && dispatches.contains("wkv"), "{dispatches}");
}

#[test]
fn devices_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let devices = json(folder.path(), "devices --json");
    let text = run(folder.path(), "devices");
    for device in devices.as_array().unwrap() {
        let name = device["device"]["adapter"].as_str().unwrap();
        assert!(text.contains(name), "{name} is not in {text}");
    }
}

#[test]
fn the_default_plan_passes_the_gate() {
    let folder = folder();
    let first = json(folder.path(), "verify tiny.gguf --json --cache references");
    assert_eq!(first["agreements"][0]["disagreements"], 0);
    let again = json(folder.path(), "verify tiny.gguf --chunk 24 --json --cache references");
    assert_eq!(again["agreements"], first["agreements"]);
}

#[test]
fn texts_become_tokens_and_texts_again() {
    let folder = folder();
    let ids = printed(folder.path(), ["tokenize", "- a goose"]);
    std::fs::write(folder.path().join("ids.json"), &ids).unwrap();
    assert_eq!(run(folder.path(), "tokenize --ids ids.json"), "- a goose");
    let list: Vec<u32> = serde_json::from_str(&ids).unwrap();
    assert_eq!(printed(folder.path(), ["tokenize", "--count", "- a goose"]), format!("{}\n", list.len()));
    let pieces = printed(folder.path(), ["tokenize", "--pieces", "- a goose"]);
    assert_eq!(
        pieces.lines().map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect::<Vec<u32>>(),
        list
    );
    // The model has single bytes only: token 1 is byte 0.
    assert_eq!(run(folder.path(), "tokenize AB --model tiny.gguf"), "[66,67]\n");
}

#[test]
fn completions_man_pages_and_versions_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, part) in [("bash", "complete -F _wgoose"), ("zsh", "#compdef wgoose"), ("fish", "complete -c wgoose")] {
        let script = run(folder.path(), &format!("completions {shell}"));
        assert!(script.contains(part) && !script.contains("cold-child"), "{shell}");
    }
    let page = run(folder.path(), "man generate");
    assert!(
        page.contains(".TH wgoose-generate 1") && page.contains("save\\-state") && page.contains("default: 128"),
        "{page}"
    );
    run(folder.path(), "man --out pages/man1");
    let pages = folder.path().join("pages/man1");
    for name in ["wgoose.1", "wgoose-tune.1", "wgoose-dev-kernel.1", "wgoose-plans-derive.1"] {
        assert!(pages.join(name).exists(), "{name}");
    }
    assert!(run(folder.path(), "man dev kernel").contains(".TH wgoose-dev-kernel 1"));
    assert!(!pages.join("wgoose-cold-child.1").exists());
    let version = run(folder.path(), "--version");
    assert!(version.starts_with("wgoose 0.1.0 (") && version.contains("wgpu 30.0.1"), "{version}");
}

#[test]
fn help_has_headings_examples_and_own_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let help = |verb: &str| run(folder.path(), &format!("{verb} --help"));
    let (generate, chat) = (help("generate"), help("chat"));
    for part in ["\nSampling:\n", "\nDevice and plan:\n", "\nKernels and memory:\n", "\nExamples:\n"] {
        assert!(generate.contains(part) && chat.contains(part), "{part}");
    }
    for verb in [
        "bench",
        "compare",
        "dev experiment",
        "tune",
        "convert",
        "embed",
        "eval",
        "verify",
        "dev profile",
        "info",
        "dev synth",
        "dev logits",
        "dev trace",
    ] {
        assert!(help(verb).contains("\nExamples:\n  wgoose "), "{verb}");
    }
    assert!(generate.contains("[default: 128]") && !generate.contains("[default: 2048]"), "{generate}");
    assert!(chat.contains("[default: 2048]") && chat.contains("[default: 0.996]"), "{chat}");
    assert!(generate.lines().all(|line| line.len() <= 100), "{generate}");
}

#[test]
fn help_explains_words_and_verbs_and_no_argument_greets() {
    let folder = tempfile::tempdir().unwrap();
    let greeting = run(folder.path(), "");
    assert!((8..=11).contains(&greeting.lines().count()) && greeting.contains("wgoose chat model.gguf"), "{greeting}");
    for word in ["plans", "kernels", "precision", "memory"] {
        let text = run(folder.path(), &format!("help {word}"));
        assert!(text.lines().all(|line| line.len() <= 104) && text.contains("  wgoose "), "{text}");
        assert!(greeting.contains(word), "{greeting}");
    }
    assert_eq!(run(folder.path(), "help dev kernel"), run(folder.path(), "dev kernel --help"));
    assert!(run(folder.path(), "help").contains("\nCommands:\n"));
    let output = wgoose(folder.path(), ["help", "honk"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unrecognized subcommand 'honk'"));
}

#[cfg(target_os = "linux")]
#[test]
fn mesa_has_nothing_to_say() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wgoose"));
    let output = command.arg("devices").env_remove("XDG_RUNTIME_DIR").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
