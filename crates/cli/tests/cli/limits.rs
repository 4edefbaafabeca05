//! Every format gives the same certified answers with what every WebGPU device has, through OpenGL, and on the
//! reference; and people can do there what they do elsewhere.

use crate::binary::{printed, wgoose};
use std::path::Path;
use wgoose_kernels::PrecisionClass;
use wgoose_measure::quality::Quality;

/// Formats of the matrices. K-quants need rows of 256.
const MIXES: [&str; 8] = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"];

/// With all limits of WebGPU, and through OpenGL where there is some: without it, that part has nothing to say.
fn lesser_ways(folder: &Path) -> Vec<&'static str> {
    printed(folder, "dev synth probe.gguf --layers 1 --width 64 --vocab 300".split(' '));
    std::fs::write(folder.join("ids.json"), "[1]").unwrap();
    let on_gl = "dev logits probe.gguf --tokens ids.json --out l.npy --no-cache --device gl";
    let has_gl = wgoose(folder, on_gl.split(' ')).status.success();
    let mut ways = vec!["--limits webgpu", "--limits low"];
    ways.extend(has_gl.then_some("--device gl --limits low"));
    ways
}

#[test]
fn the_quality_hash_is_equal_on_every_backend_and_at_the_least_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut ways = vec!["--backend cpu"];
    ways.extend(lesser_ways(folder));
    for mix in MIXES {
        let shape = "--layers 1 --width 256 --ffn 256 --vocab 300 --ranks 16,16,16,16";
        printed(folder, format!("dev synth m.gguf {shape} --mix {mix}").split(' '));
        let verified = |way: &str| -> Quality {
            let line = format!("verify m.gguf --plan default --cache cache --json {way}");
            serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap()
        };
        let own = verified("");
        assert!(own.passed() && own.own().class == PrecisionClass::default(), "{mix}: {own:?}");
        // The kernels of WebGPU's limits are those of low ones but for tiles, which depend on the class of a format
        // alone.
        let is_class = ["F16", "Q8_0", "Q4_K_M"].contains(&mix);
        for way in ways.iter().filter(|way| is_class || **way != "--limits webgpu") {
            let quality = verified(way);
            assert!(quality.passed() && quality.agreements == own.agreements, "{mix} {way}: {quality:?} {own:?}");
        }
    }
}

#[test]
fn texts_are_continued_and_embedded_with_the_least_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ways = lesser_ways(folder);
    for mix in ["F16", "Q8_0", "Q4_K_M"] {
        let shape = "--layers 2 --width 256 --ffn 256 --ranks 16,16,16,16";
        printed(folder, format!("dev synth m.gguf {shape} --mix {mix}").split(' '));
        let continued = |way: &str| {
            let line = format!("generate m.gguf --plan default --prompt goose --max-tokens 6 --temperature 0 {way}");
            printed(folder, line.split_whitespace())
        };
        let embedded = |way: &str| -> Vec<f32> {
            let line = format!("embed m.gguf --plan default goose {way}");
            let line: serde_json::Value = serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap();
            serde_json::from_value(line["embedding"].clone()).unwrap()
        };
        let (text, vector) = (continued(""), embedded(""));
        assert!(!text.trim().is_empty() && vector.len() == 256, "{mix}");
        for way in &ways {
            assert_eq!(continued(way), text, "{mix} {way}");
            let differ = vector.iter().zip(embedded(way)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(differ < 1e-5, "{mix} {way}: {differ}");
        }
    }
}
