//! `wgoose convert`: files of other kinds with the same answers, and failures that leave nothing behind.

use crate::binary::{deviation, npy, printed, synth, wgoose};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn logits(folder: &Path, model: &str) -> Vec<f32> {
    std::fs::write(folder.join("tokens.json"), "[72, 101, 108, 108, 111, 300, 1, 0]").unwrap();
    run(folder, &format!("dev logits {model} --tokens tokens.json --out logits.npy --backend cpu"));
    npy(&folder.join("logits.npy")).2
}

#[test]
fn a_round_trip_through_gguf_changes_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    let said = run(folder, "convert tiny.st tiny.gguf --vocab world --check");
    assert!(said.starts_with("tiny.gguf: ") && said.contains(" tensors, F16\nchecked: 59 weights"), "{said}");
    assert!(said.ends_with("no number has changed\n"), "{said}");
    run(folder, "convert tiny.gguf back.st");
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(read("back.st") == read("tiny.st"));
    let wanted = logits(folder, "tiny.st");
    assert_eq!(logits(folder, "tiny.gguf"), wanted);

    let said = run(folder, "convert tiny.gguf small.gguf --to q8_0 --check");
    assert!(said.contains("tensors, Q8_0\nchecked: ") && said.contains("rounding has changed none by more"), "{said}");
    let off = deviation(&logits(folder, "small.gguf"), &wanted);
    assert!((1e-4..5e-2).contains(&off), "off by {off:.1e}");
}

#[test]
fn the_world_vocabulary_is_written_where_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Both know the World vocabulary: one from synth, one from the conversion. Of 320 tokens it is not known.
    synth(folder, "made.gguf", "");
    synth(folder, "tiny.st", "");
    run(folder, "convert tiny.st converted.gguf --vocab world");
    let text = |model: &str| run(folder, &format!("generate {model} --prompt goose --max-tokens 8 --temperature 0"));
    assert_eq!(text("converted.gguf"), text("made.gguf"));
}

#[test]
fn a_file_is_replaced_only_by_force() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    std::fs::write(folder.join("taken.gguf"), "precious").unwrap();
    let output = wgoose(folder, "convert tiny.st taken.gguf".split(' '));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("exists already") && error.lines().count() == 1, "{error}");
    assert_eq!(std::fs::read(folder.join("taken.gguf")).unwrap(), b"precious");
    run(folder, "convert tiny.st taken.gguf --force --check");
    assert!(run(folder, "info taken.gguf").contains("GGUF"));
}

#[test]
fn a_licence_is_written_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let licence = ["--set", "general.license=MIT OR Apache-2.0", "--set", "general.author=a goose"];
    printed(folder, ["convert", "tiny.gguf", "said.gguf"].iter().chain(&licence));
    run(folder, "convert said.gguf again.gguf --to q8_0");
    let info = run(folder, "info again.gguf");
    assert!(info.contains("MIT OR Apache-2.0") && info.contains("a goose") && info.contains("Q8_0"), "{info}");

    let output = wgoose(folder, "convert tiny.gguf no.gguf --set general.file_type=1".split(' '));
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(error, "wgoose: key 'general.file_type' is as the tensors are: it cannot be set\n");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 3);
}

/// A file that may not grow any further stands for a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    // Files of at most 100 blocks; a write beyond is an error instead of a signal.
    let line = format!("trap '' XFSZ; ulimit -f 100; exec {} convert tiny.st new.gguf", env!("CARGO_BIN_EXE_wgoose"));
    let output = std::process::Command::new("sh").args(["-c", &line]).current_dir(folder).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("cannot write 'new.gguf': "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}

#[test]
fn tensors_that_no_op_reads_are_never_dropped_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.st", "");
    let plain = std::fs::read(folder.join("tiny.st")).unwrap();
    let mut tensors = SafeTensors::deserialize(&plain).unwrap().tensors();
    let zeros = [0; 8];
    let extra = TensorView::new(Dtype::F16, vec![2, 2], &zeros).unwrap();
    tensors.push(("blocks.0.qkv.q.weight".to_owned(), extra));
    std::fs::write(folder.join("more.st"), safetensors::serialize(tensors, None).unwrap()).unwrap();
    std::fs::write(folder.join("tokens.json"), "[72, 101]").unwrap();
    for line in [
        "info more.st",
        "generate more.st -p goose",
        "verify more.st",
        "convert more.st copy.st --check",
        "eval more.st --text tokens.json",
        "dev logits more.st --tokens tokens.json --out x.npy",
        "tune more.st",
        "bench more.st",
    ] {
        let output = wgoose(folder, line.split(' '));
        let error = String::from_utf8(output.stderr).unwrap();
        let says =
            "no op reads 1 tensor: 'blocks.0.qkv.q.weight' (attention of RWKV-7b, a model that does not run here)";
        assert!(!output.status.success() && error.contains(says) && error.lines().count() == 1, "{line}: {error}");
    }
    assert!(!folder.join("copy.st").exists());
    let output = wgoose(folder, "convert more.st copy.st --ignore-unknown --check".split(' '));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && error.contains("left out: 1 tensor: 'blocks.0.qkv.q.weight'"), "{error}");
    assert!(std::fs::read(folder.join("copy.st")).unwrap() == plain);
    for line in [
        "dev logits more.st --tokens tokens.json --out more.npy --backend cpu --ignore-unknown",
        "eval more.st --text tokens.json --against reference --backend cpu --ignore-unknown --vocab world",
    ] {
        assert!(wgoose(folder, line.split(' ')).status.success(), "{line}");
    }
    run(folder, "dev logits tiny.st --tokens tokens.json --out plain.npy --backend cpu");
    assert_eq!(npy(&folder.join("more.npy")).2, npy(&folder.join("plain.npy")).2);
}

#[cfg(unix)]
#[test]
fn paths_need_not_be_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    synth(folder, "tiny.gguf", "");
    let name = std::ffi::OsStr::from_bytes(b"g\xffose.gguf");
    let output = wgoose(folder, [std::ffi::OsStr::new("convert"), std::ffi::OsStr::new("tiny.gguf"), name]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(folder.join(name).is_file());
}
