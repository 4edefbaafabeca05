//! The committed answers of the reference implementation (`oracle/README.md`), on the CPU and on the GPU.

use crate::binary::{deviation, npy, printed};
use safetensors::SafeTensors;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The values that `oracle/golden.py` stored for one model.
struct Golden {
    name: String,
    blake3: String,
    /// Arguments of `wgoose dev synth`; none for the committed checkpoint.
    synth: Vec<String>,
    tokens: Vec<u32>,
    positions: Vec<u32>,
    /// At the positions, one row after the other.
    logits: Vec<f32>,
    /// Root mean squares of att_shift, wkv, ffn_shift of each layer.
    state_rms: Vec<f32>,
    /// Pieces of the last layer's state, in full.
    state: BTreeMap<String, Vec<f32>>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens")
}

fn words<T>(tensors: &SafeTensors<'_>, name: &str, decode: fn([u8; 4]) -> T) -> Vec<T> {
    tensors.tensor(name).unwrap().data().chunks_exact(4).map(|word| decode(word.try_into().unwrap())).collect()
}

/// Every piece of state in a file.
fn states(tensors: &SafeTensors<'_>) -> BTreeMap<String, Vec<f32>> {
    let names = tensors.names().into_iter().filter(|name| name.starts_with("blocks."));
    names.map(|name| (name.to_owned(), words(tensors, name, f32::from_le_bytes))).collect()
}

fn golden(path: &Path) -> Golden {
    let file = std::fs::read(path).unwrap();
    let (_, header) = SafeTensors::read_metadata(&file).unwrap();
    let metadata = header.metadata().clone().unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    Golden {
        name: path.file_stem().unwrap().to_string_lossy().into_owned(),
        blake3: metadata["blake3"].clone(),
        synth: serde_json::from_str(&metadata["synth"]).unwrap(),
        tokens: words(&tensors, "tokens", u32::from_le_bytes),
        positions: words(&tensors, "positions", u32::from_le_bytes),
        logits: words(&tensors, "logits", f32::from_le_bytes),
        state_rms: words(&tensors, "state_rms", f32::from_le_bytes),
        state: states(&tensors),
    }
}

/// Makes the model, and checks that it is the one that the reference has read.
fn model(golden: &Golden, place: &Path) -> PathBuf {
    let hash = |path: &Path| blake3::hash(&std::fs::read(path).unwrap()).to_hex().to_string();
    if golden.synth.is_empty() {
        let path = folder().join(&golden.name).with_extension("pth");
        assert_eq!(hash(&path), golden.blake3, "{}", golden.name);
        return path;
    }
    // The reference's .pth was converted from the .st: the same numbers in another file.
    let (suffix, converted) = match golden.name.rsplit_once('-') {
        Some((_, "pth")) => ("st", true),
        Some((_, "st")) => ("st", false),
        _ => ("gguf", false),
    };
    let path = place.join(format!("{}.{suffix}", golden.name));
    printed(
        place,
        ["dev".as_ref(), "synth".as_ref(), path.as_os_str()].into_iter().chain(golden.synth.iter().map(AsRef::as_ref)),
    );
    assert!(
        converted || hash(&path) == golden.blake3,
        "{}: synth makes another model: `cargo xtask bless`",
        golden.name
    );
    path
}

fn assert_close(what: &str, got: &[f32], want: &[f32], allowed: f64) {
    let off = deviation(got, want);
    assert!(off <= allowed, "{what}: off by {off:.1e}, allowed {allowed:.0e}");
}

/// Deviations allowed of token 0, which is ill-conditioned, and of all else.
struct Tolerance {
    first: f64,
    later: f64,
}

fn check(golden: &Golden, backend: &str, tolerance: &Tolerance) {
    let place = tempfile::tempdir().unwrap();
    let model = model(golden, place.path());
    std::fs::write(place.path().join("tokens.json"), serde_json::to_vec(&golden.tokens).unwrap()).unwrap();
    let outputs = ["--tokens", "tokens.json", "--out", "logits.npy", "--state-out", "state.safetensors"];
    let options = outputs.into_iter().chain(["--backend", backend]).map(AsRef::as_ref);
    printed(place.path(), ["dev".as_ref(), "logits".as_ref(), model.as_os_str()].into_iter().chain(options));

    let what = format!("{} on the {backend}", golden.name);
    let (rows, vocab, logits) = npy(&place.path().join("logits.npy"));
    assert_eq!(rows, golden.tokens.len());
    for (position, want) in golden.positions.iter().zip(golden.logits.chunks_exact(vocab)) {
        let got = &logits[*position as usize * vocab..][..vocab];
        let allowed = if *position == 0 { tolerance.first } else { tolerance.later };
        assert_close(&format!("{what}: logits of token {position}"), got, want, allowed);
    }
    let file = std::fs::read(place.path().join("state.safetensors")).unwrap();
    let state = states(&SafeTensors::deserialize(&file).unwrap());
    for (piece, want) in &golden.state {
        assert_close(&format!("{what}: {piece}"), &state[piece], want, tolerance.later);
    }
    let rms = |numbers: &Vec<f32>| {
        let sum: f64 = numbers.iter().map(|x| f64::from(*x).powi(2)).sum();
        (sum / numbers.len() as f64).sqrt() as f32
    };
    let parts = ["att_shift", "wkv", "ffn_shift"];
    let pieces = (0..golden.state_rms.len() / 3).flat_map(|i| parts.map(|part| format!("blocks.{i}.{part}")));
    let sizes: Vec<f32> = pieces.map(|piece| rms(&state[&piece])).collect();
    assert_close(&format!("{what}: sizes of the state"), &sizes, &golden.state_rms, tolerance.later);
}

fn check_all(backend: &str, tolerance: &Tolerance) {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "safetensors"));
    paths.sort();
    assert!(paths.len() >= 12, "goldens are missing: {paths:?}");
    for path in paths {
        check(&golden(&path), backend, tolerance);
    }
}

#[test]
fn the_cpu_matches_the_goldens() {
    check_all("cpu", &Tolerance { first: 1e-4, later: 1e-4 });
}

#[test]
fn the_gpu_matches_the_goldens() {
    check_all("gpu", &Tolerance { first: 1e-2, later: 1e-3 });
}
