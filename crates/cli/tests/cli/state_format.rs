//! `--state-format f16`: what a plan says of the state, and what is measured with it.

use crate::binary::{deviation, npy, printed, synth};
use std::path::Path;
use wgoose_graph::ModelShape;
use wgoose_kernels::{DeviceFingerprint, Limits, Plan, StateFormat};

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::write(folder.path().join("tokens.json"), "[72, 101, 108, 108, 111, 300, 1, 0, 9, 9, 17, 4]").unwrap();
    folder
}

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn json(folder: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&run(folder, line)).unwrap()
}

#[test]
fn info_shows_the_state_format_and_precision_of_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let text = String::new;
    let (adapter, driver, backend, wgpu) = (text(), text(), text(), text());
    let device = DeviceFingerprint { adapter, vendor: 0, device: 0, driver, backend, wgpu };
    let plan = Plan::default_for(device, ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
    for (state, precision) in [(StateFormat::F32, "f32"), (StateFormat::F16, "f16 products")] {
        Plan { state, ..plan.clone() }.save(&folder.path().join("plan.ron")).unwrap();
        let said = run(folder.path(), "info plan.ron");
        assert!(said.contains(&format!("\nstate: {state}\n")), "{said}");
        assert!(said.contains(&format!("\nprecision: {precision}\n")), "{said}");
    }
}

#[test]
fn the_state_format_is_set_without_editing_a_plan() {
    let folder = folder();
    let folder = folder.path();
    let logits = |options: &str| {
        run(folder, &format!("dev logits tiny.gguf --tokens tokens.json --chunk 4 --out logits.npy {options}"));
        npy(&folder.join("logits.npy")).2
    };
    let (whole, half) = (logits("--state-format f32"), logits("--state-format f16"));
    let off = deviation(&half, &whole);
    assert!(off > 1e-6 && off < 2e-3, "{off:.1e}");
    assert!(logits("--state-format f16 --precision f32") == logits("--precision f32"), "f32 undoes it");

    let quality = json(folder, "verify tiny.gguf --json --cache reference --state-format f16");
    let exact = json(folder, "verify tiny.gguf --json --cache reference --state-format f16 --precision f32");
    assert_eq!(quality["agreements"][0]["class"], "f32 with f16 state");
    assert_eq!(quality["agreements"][0]["disagreements"], 0);
    let rms = |quality: &serde_json::Value| quality["rms"].as_f64().unwrap();
    assert!(rms(&quality) > rms(&exact), "{quality} {exact}");

    let said = run(folder, "dev trace tiny.gguf --tokens tokens.json --first-divergence --chunk 3 --state-format f16");
    assert!(said.contains("ops are within their tolerances"), "{said}");
}

#[test]
fn memory_and_profiles_count_the_bytes_of_the_state_format() {
    let folder = folder();
    let folder = folder.path();
    let part = |options: &str, what: &str| {
        let report = json(folder, &format!("info tiny.gguf --memory --json {options}"));
        let parts = report["parts"].as_array().unwrap();
        parts.iter().find(|p| p["part"] == "state").unwrap()[what].as_u64().unwrap()
    };
    // Two slots, one of them spare, of two layers with two heads of 64 x 64.
    let saved = 2 * 2 * 2 * 64 * 64 * 2;
    for what in ["predicted", "measured"] {
        assert_eq!(part("--state-format f32", what) - part("--state-format f16", what), saved, "{what}");
    }
    let bytes = |options: &str| {
        run(folder, &format!("dev profile tiny.gguf --runs 2 --sequences 3 --out p.json {options}"));
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(folder.join("p.json")).unwrap()).unwrap();
        report["total"]["bytes"].as_u64().unwrap()
    };
    // Three sequences read and write the matrices of two layers.
    assert_eq!(bytes("--state-format f32") - bytes("--state-format f16"), 3 * 2 * 2 * (2 * 64 * 64 * 2));
}
