//! Every format gives the same certified answers with what every WebGPU device has, through OpenGL, and on the
//! reference; and people can do there what they do elsewhere.

use crate::binary::{printed, wgoose};
use std::path::Path;
use wgoose_graph::{Format, Weight, WeightClass};
use wgoose_kernels::PrecisionClass;
use wgoose_loader::convert::{ConvertOptions, MOST_ROUNDING, convert};
use wgoose_loader::writer::{ChosenFormats, Mix, unwatched};
use wgoose_loader::{Container, Model};
use wgoose_measure::quality::Quality;

/// Formats of matrices. K-quants need rows of 256.
const FORMATS: [Format; 8] =
    [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_0, Format::Q4_K, Format::Q5_K, Format::Q6_K];

/// A model whose matrices take turns in having each of the formats: one check tells of them all.
fn model_of_every_format(folder: &Path) {
    let shape = "--layers 2 --width 256 --ffn 256 --vocab 320 --ranks 16,16,16,16";
    printed(folder, format!("dev synth floats.gguf {shape} --mix F32").split(' '));
    let model = Model::open(folder.join("floats.gguf")).unwrap();
    let matrices = Weight::all(model.shape()).filter(|weight| weight.class() == WeightClass::Matrix);
    let formats = matrices.zip(FORMATS.into_iter().cycle()).collect();
    let options = ConvertOptions {
        container: Container::Gguf,
        mix: Mix::F32,
        chosen: Some(ChosenFormats { formats, kl: 0.0 }),
        name: "every format".to_owned(),
        vocabulary: None,
        set: Vec::new(),
        replace: false,
        check: false,
        most_rounding: MOST_ROUNDING,
    };
    convert(&model, &options, &folder.join("every.gguf"), &mut unwatched).unwrap();
}

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

/// The verdict on a model's default plan.
fn verified(folder: &Path, model: &str, way: &str) -> Quality {
    let line = format!("verify {model} --plan default --cache cache --json {way}");
    serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap()
}

#[test]
fn the_quality_hash_is_equal_on_every_backend_and_at_the_least_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model_of_every_format(folder);
    let equal = |model: &str, ways: &[&str]| {
        let own = verified(folder, model, "");
        assert!(own.passed() && own.own().class == PrecisionClass::default(), "{model}: {own:?}");
        for way in ways {
            let quality = verified(folder, model, way);
            assert!(quality.passed() && quality.agreements == own.agreements, "{model} {way}: {quality:?} {own:?}");
        }
    };
    equal("every.gguf", &[&["--backend cpu"], &lesser_ways(folder)[..]].concat());
    // The kernels of WebGPU's limits are those of low ones but for tiles, which depend on the class of a format alone,
    // and for what reads several matrices of one format.
    for mix in ["F16", "Q8_0", "Q4_K_M"] {
        let shape = "--layers 1 --width 256 --ffn 256 --vocab 300 --ranks 16,16,16,16";
        printed(folder, format!("dev synth {mix}.gguf {shape} --mix {mix}").split(' '));
        equal(&format!("{mix}.gguf"), &["--limits webgpu"]);
    }
}

#[test]
fn texts_are_continued_and_embedded_with_the_least_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    model_of_every_format(folder);
    let continued = |way: &str| {
        let line = format!("generate every.gguf --plan default --prompt goose --max-tokens 6 --temperature 0 {way}");
        printed(folder, line.split_whitespace())
    };
    let embedded = |way: &str| -> Vec<f32> {
        let line = format!("embed every.gguf --plan default goose {way}");
        let line: serde_json::Value = serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap();
        serde_json::from_value(line["embedding"].clone()).unwrap()
    };
    let (text, vector) = (continued(""), embedded(""));
    assert!(!text.trim().is_empty() && vector.len() == 256);
    for way in lesser_ways(folder) {
        assert_eq!(continued(way), text, "{way}");
        let differ = vector.iter().zip(embedded(way)).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(differ < 1e-5, "{way}: {differ}");
    }
}
