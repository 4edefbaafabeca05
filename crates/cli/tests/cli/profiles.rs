//! `wgoose dev roofline` and `wgoose dev profile`: what they print and write.

use crate::binary::{printed, synth, wgoose};
use serde_json::Value;
use std::path::Path;

fn run(folder: &Path, line: &str) -> String {
    printed(folder, line.split_whitespace())
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Adds up a number of every element of a list.
fn sum(list: &Value, key: &str) -> f64 {
    list.as_array().unwrap().iter().map(|row| row[key].as_f64().unwrap()).sum()
}

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-6 * a.abs().max(b.abs()), "{a} and {b}");
}

/// Every element of an SVG document is closed, in the right order, and no character stands for markup by mistake.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some((before, after)) = rest.split_once('<') {
        assert!(!before.contains('>'), "{before}");
        for entity in before.split('&').skip(1) {
            assert!(["amp;", "lt;", "gt;", "quot;"].iter().any(|e| entity.starts_with(e)), "&{entity}");
        }
        let (tag, after) = after.split_once('>').unwrap();
        assert!(tag.matches('"').count().is_multiple_of(2) && !tag.contains('<'), "{tag}");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None if tag.ends_with('/') => {}
            None => open.push(tag.split_whitespace().next().unwrap()),
        }
        rest = after;
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} left open");
}

#[test]
fn a_profile_compares_with_the_roofline_once_it_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A name that SVG must not take for markup.
    synth(folder, "a&b.gguf", "");
    let profile = |options: &str| {
        run(
            folder,
            &format!(
                "dev profile a&b.gguf --runs 2 --cache-dir cache --out p.json --svg p.svg --timeline t.json {options}"
            ),
        )
    };
    let before = profile("");
    assert!(before.contains("wgoose dev roofline"), "{before}");
    let without = read(&folder.join("p.json"));
    assert!(without["ceilings"].is_null() && without["total"]["percent_of_roofline"].is_null());
    assert_well_formed(&std::fs::read_to_string(folder.join("p.svg")).unwrap());
    let printed: Value =
        serde_json::from_str(&run(folder, "dev profile a&b.gguf --runs 1 --cache-dir cache --json")).unwrap();
    assert!(printed["clock_is_too_coarse"].is_boolean() && before.contains("decode, 1 sequence, 2 runs"), "{before}");

    let table = run(folder, "dev roofline --cache-dir cache");
    for name in ["read-only bandwidth", "f32 multiply-add", "dispatch boundary", "read-back of 4 bytes"] {
        assert!(table.contains(name), "{name} is not in {table}");
    }
    let kept: Vec<_> = std::fs::read_dir(folder.join("cache/roofline")).unwrap().map(|f| f.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    let median = |quantity: &str| {
        let roofline = read(&kept[0]);
        let figures = roofline["figures"].as_array().unwrap().clone();
        figures.iter().find(|f| f["quantity"] == quantity).unwrap()["value"]["median"].as_f64().unwrap()
    };

    let file = folder.join("mine/ops/mul/mine.wgsl");
    let kernel = "dev kernel mul/mine --kernels mine --model a&b.gguf --tokens 1 --cases 1 --budget 1 --seen";
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let elements = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels-wgsl/ops/mul/elements.wgsl");
    std::fs::copy(elements, &file).unwrap();
    let unmeasured = wgoose(folder, format!("{kernel} --cache-dir empty").split(' '));
    assert!(String::from_utf8_lossy(&unmeasured.stderr).contains("run wgoose dev roofline first"), "{unmeasured:?}");
    for _ in 0..2 {
        assert!(run(folder, &format!("{kernel} --cache-dir cache")).contains("mine.wgsl: seen: "));
        let text = std::fs::read_to_string(&file).unwrap();
        let seen: Vec<&str> = text.lines().filter(|line| line.starts_with("// seen: ")).collect();
        assert!(
            seen.len() == 1 && seen[0].contains("a&b.gguf: ") && seen[0].contains(" % of the roofline ("),
            "{text}"
        );
    }

    let after = profile("--layers --tokens 3 --sequences 2");
    assert!(!after.contains("wgoose dev roofline") && after.contains("layer 1"), "{after}");
    let report = read(&folder.join("p.json"));
    assert_close(report["ceilings"]["read_gb_s"].as_f64().unwrap(), median("read_bandwidth"));
    assert_eq!((&report["tokens"], &report["sequences"], &report["runs"]), (&3.into(), &2.into(), &2.into()));
    let total = &report["total"];
    for list in ["ops", "layers"] {
        for key in ["us", "bytes", "flops", "least_us", "dispatches"] {
            assert_close(sum(&report[list], key), total[key].as_f64().unwrap());
        }
        assert_close(sum(&report[list], "share"), 1.0);
    }
    let dispatches = &report["dispatches"];
    assert_eq!(dispatches.as_array().unwrap().len(), total["dispatches"]);
    assert_close(sum(dispatches, "timestamped_us"), report["timestamped_ms"].as_f64().unwrap() * 1e3);
    for d in dispatches.as_array().unwrap() {
        let moving = d["bytes"].as_f64().unwrap() / median("read_bandwidth") / 1e3;
        assert!(d["least_us"].as_f64().unwrap() >= moving * 0.999, "{d}");
    }
    let gap = report["gpu_ms"]["median"].as_f64().unwrap() - report["independent_ms"]["median"].as_f64().unwrap();
    assert_close(report["gap_ms"].as_f64().unwrap(), gap);

    let svg = std::fs::read_to_string(folder.join("p.svg")).unwrap();
    assert_well_formed(&svg);
    assert!(svg.contains("a&amp;b.gguf"));
    // Each op has two bars, each dispatch its place in time; and there is the background. Roofs and points need the
    // roofline.
    let ops = report["ops"].as_array().unwrap().len();
    let dispatched = report["dispatches"].as_array().unwrap().len();
    assert_eq!(svg.matches("<rect").count(), 2 * ops + dispatched + 1);
    assert!(
        svg.contains("class=\"roof\"") && svg.contains("class=\"dot\"") && svg.contains("prefers-color-scheme: dark")
    );

    let timeline = read(&folder.join("t.json"));
    let spans: Vec<&Value> = timeline["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X").collect();
    let layers = 2 + 2; // and what comes before and after
    assert_eq!(spans.len(), dispatches.as_array().unwrap().len() + layers);
    assert!(spans.iter().all(|s| s["tid"] == spans[0]["tid"]), "all on the GPU's track");
}

#[test]
fn a_roofline_can_be_written_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let printed: Value = serde_json::from_str(&run(folder.path(), "dev roofline --json --out r.json")).unwrap();
    assert_eq!(printed, read(&folder.path().join("r.json")));
    for figure in printed["figures"].as_array().unwrap() {
        assert!(!figure["how"].as_str().unwrap().is_empty(), "{figure}");
        let value = &figure["value"];
        assert!(value.is_null() || ["median", "min", "max", "n"].iter().all(|k| value[k].is_number()), "{figure}");
    }
}

#[test]
fn the_reference_has_no_dispatches_to_profile() {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let output = wgoose(folder.path(), ["dev", "profile", "tiny.gguf", "--backend", "cpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("no dispatches"));
}
