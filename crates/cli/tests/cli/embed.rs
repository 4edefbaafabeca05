//! `wgoose embed`: texts in, vectors out, whatever was interrupted.

use crate::binary::{npy, printed, synth};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const TEXTS: [&str; 4] = ["A goose", "Two geese fly south.", "x", "Honk"];

/// A folder with a model, and the texts as lines and as JSON lines.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::write(folder.path().join("texts.txt"), TEXTS.join("\n")).unwrap();
    let json = TEXTS.iter().enumerate().map(|(i, text)| match i % 2 {
        0 => serde_json::json!(text).to_string(),
        _ => serde_json::json!({ "id": i, "text": text }).to_string(),
    });
    std::fs::write(folder.path().join("texts.jsonl"), json.collect::<Vec<_>>().join("\n") + "\n").unwrap();
    folder
}

/// Vectors in lines of JSON.
fn vectors(lines: &str) -> Vec<Vec<f32>> {
    let parsed = lines.lines().enumerate().map(|(i, line)| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["index"], i);
        serde_json::from_value(line["embedding"].clone()).unwrap()
    });
    parsed.collect()
}

fn embed(folder: &Path, options: &str) -> String {
    printed(folder, format!("embed tiny.gguf {options}").split_whitespace())
}

#[test]
fn inputs_and_outputs_of_every_form_give_equal_vectors() {
    let folder = folder();
    let folder = folder.path();
    let given = vectors(&printed(folder, [&["embed", "tiny.gguf"], &TEXTS[..]].concat()));
    assert_eq!((given.len(), given[0].len()), (4, 128));
    for vector in &given {
        let length: f32 = vector.iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5);
    }
    assert_eq!(vectors(&embed(folder, "--file texts.txt")), given);
    assert_eq!(vectors(&embed(folder, "--file texts.jsonl --token-budget 1")), given);
    assert_eq!(embed(folder, "--file texts.txt --out v.jsonl"), "v.jsonl: 4 embeddings\n");
    assert_eq!(vectors(&std::fs::read_to_string(folder.join("v.jsonl")).unwrap()), given);
    embed(folder, "--file texts.txt --out v.npy");
    assert_eq!(npy(&folder.join("v.npy")), (4, 128, given.concat()));
    for other in ["--raw", "--layer 0", "--pooling last", "--prefix honk"] {
        let other = vectors(&embed(folder, &format!("--file texts.txt {other}")));
        assert!(other.len() == 4 && other[0].len() == 128 && other[0] != given[0]);
    }
    embed(folder, "--file texts.txt --pooling state --out s.npy");
    let (rows, cols, _) = npy(&folder.join("s.npy"));
    assert_eq!((rows, cols), (4, 2 * 64 * 64));
    let every = embed(folder, "--pooling every goose");
    let every: serde_json::Value = serde_json::from_str(&every).unwrap();
    assert_eq!(every["embedding"].as_array().unwrap().len(), every["tokens"].as_u64().unwrap() as usize);
}

/// The store of a run that is not done.
fn part(folder: &Path) -> Option<PathBuf> {
    let mut names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.find(|name| name.starts_with('v') && name.ends_with(".part")).map(|name| folder.join(name))
}

/// Starts a run and kills it once some of its rows are safe; the file that it leaves. A pass a text, so that most
/// of the run is still to come then.
fn killed(folder: &Path, line: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(["embed", "tiny.gguf", "--token-budget", "1"]).args(line.split_whitespace()).current_dir(folder);
    let mut run = command.env("XDG_RUNTIME_DIR", folder).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_rows = |part: &PathBuf| std::fs::metadata(part).is_ok_and(|m| m.len() > 1000);
    let part = loop {
        if let Some(part) = part(folder).filter(has_rows) {
            break part;
        }
        assert!(run.try_wait().unwrap().is_none(), "the run ended before it could be killed");
        std::thread::sleep(Duration::from_millis(2));
    };
    run.kill().unwrap();
    run.wait().unwrap();
    part
}

/// Bytes of a record of a store, of a vector of the model's width.
const RECORD: usize = 4 + 4 + 32 + 4 * 128 + 16;

/// A store with a digit of a float of its first record changed, and the checksum of that record: what is taken from it
/// shows.
fn marked(store: &[u8]) -> Vec<u8> {
    let mut store = store.to_vec();
    let first = store.windows(4).position(|magic| magic == b"wgeR").unwrap();
    let record = &mut store[first..first + RECORD];
    record[4 + 4 + 32] ^= 1;
    let sum = blake3::hash(&record[..RECORD - 16]);
    record[RECORD - 16..].copy_from_slice(&sum.as_bytes()[..16]);
    store
}

#[test]
fn a_killed_run_is_resumed() {
    const TEXTS: usize = 100;
    let folder = folder();
    let folder = folder.path();
    let many: Vec<String> = (0..TEXTS).map(|i| format!("{i} geese")).collect();
    std::fs::write(folder.join("many.txt"), many.join("\n")).unwrap();
    for name in ["v.jsonl", "v.npy"] {
        let line = format!("--file many.txt --out {name}");
        let path = folder.join(name);
        let part = killed(folder, &line);
        assert!(!path.exists(), "what is not whole has not got the name");
        let left = std::fs::read(&part).unwrap();
        embed(folder, &line);
        let whole = std::fs::read(&path).unwrap();
        assert!(!part.exists(), "the store is removed once the file is whole");
        // In order, none twice and none left out: what a run that nothing ended writes.
        embed(folder, &format!("{line} --store kept.{name}"));
        assert!(std::fs::read(&path).unwrap() == whole);
        let kept = std::fs::read(folder.join(format!("kept.{name}"))).unwrap();
        assert!(left.len() < kept.len() && kept.starts_with(&left[..left.len() - RECORD]), "it was killed half way");
        // Rows are taken from the store, whether its last record is whole or not; with other options none is.
        for cut in [kept.len(), kept.len() - 1, kept.len() / 2] {
            std::fs::write(&part, &marked(&kept)[..cut]).unwrap();
            embed(folder, &format!("{line} --raw"));
            assert!(part.exists(), "other options are another run");
            embed(folder, &line);
            let resumed = std::fs::read(&path).unwrap();
            assert!(resumed != whole && resumed.len().abs_diff(whole.len()) < 20, "{name}: a row was computed again");
            assert!(!part.exists());
        }
        // A damaged row is computed again.
        let mut damaged = kept.clone();
        damaged[kept.len() / 2] ^= 1;
        std::fs::write(&part, &damaged).unwrap();
        embed(folder, &line);
        assert!(std::fs::read(&path).unwrap() == whole && !part.exists(), "{name} damaged");
    }
}

#[test]
fn a_store_is_used_again() {
    let folder = folder();
    let folder = folder.path();
    let first = embed(folder, "--file texts.txt --store store");
    let bytes = std::fs::read(folder.join("store")).unwrap();
    assert_eq!(embed(folder, "--file texts.txt --store store"), first);
    assert!(std::fs::read(folder.join("store")).unwrap() == bytes, "nothing was computed again");
    std::fs::write(folder.join("store"), &bytes[..bytes.len() - 100]).unwrap();
    assert_eq!(embed(folder, "--file texts.txt --store store"), first);
    assert_eq!(std::fs::read(folder.join("store")).unwrap().len(), bytes.len(), "it is whole again");
}
