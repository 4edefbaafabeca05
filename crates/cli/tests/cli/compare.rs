//! `compare`: arms against a baseline. Equal arms are not called faster, wrong arms are not timed.

use crate::binary::{printed, said, synth, wgoose};
use serde_json::Value;
use std::fs::{create_dir_all, write};
use std::path::Path;

/// A norm that is one per cent off.
pub(crate) fn plant_wrong_kernel(folder: &Path) {
    let text = include_str!("../../../../kernels-wgsl/ops/layer_norm/row.wgsl");
    let wrong = text.replace("= (x[start + c] - mean)", "= 1.01 * (x[start + c] - mean)");
    assert_ne!(text, wrong);
    create_dir_all(folder.join("ops/layer_norm")).unwrap();
    write(folder.join("ops/layer_norm/row.wgsl"), wrong).unwrap();
}

/// A model, and a workload that takes little.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "one.gguf", "");
    write(folder.path().join("short.ron"), "(name: \"short\", parts: [(tokens: 1), (tokens: 9)])").unwrap();
    folder
}

fn compare(folder: &Path, line: &str) -> String {
    let line = format!("compare one.gguf --workload short.ron --budget 1 --plan default {line}");
    printed(folder, line.split_whitespace())
}

/// The arms of a run.
fn arms(json: &str) -> Vec<Value> {
    let found: Value = serde_json::from_str(json.trim()).unwrap();
    found["arms"].as_array().unwrap().clone()
}

/// Whether an arm is neither faster nor slower in anything.
fn are_called_equal(arm: &Value) -> bool {
    let timed = arm["timed"].as_array().unwrap();
    timed.iter().all(|timed| ["SAME", "AMBIGUOUS"].contains(&timed["verdict"].as_str().unwrap()))
}

#[test]
fn equal_arms_are_not_called_faster_and_wrong_arms_are_refused() {
    let folder = folder();
    plant_wrong_kernel(&folder.path().join("wrong"));
    // Chunks of 100 and of 120 tokens are one pass of a prompt of 9.
    let arms = arms(&compare(folder.path(), "--chunk 100 --kernels wrong --format json --ledger all.jsonl"));
    let [baseline, same, wrong] = &arms[..] else { panic!("{arms:?}") };
    assert!(baseline["gate"]["passed"] == true && baseline["timed"].as_array().unwrap().is_empty());

    assert_eq!((&same["is_baseline"], same["timed"].as_array().unwrap().len()), (&false.into(), 2));
    // By chance equals are called different once in hundreds of comparisons: not twice in a row.
    let again = || self::arms(&compare(folder.path(), "--chunk 120 --format json"));
    assert!(are_called_equal(same) || are_called_equal(&again()[1]), "{same}");
    for timed in same["timed"].as_array().unwrap() {
        let [a, b] = [0, 1].map(|arm| timed["samples_ns"][arm].as_array().unwrap().len());
        assert!(a == b && a >= 6 && timed["pairs"] == a, "{timed}");
    }

    assert!(wrong["timed"].as_array().unwrap().is_empty(), "a wrong arm is not timed");
    let why = wrong["refused"].as_str().unwrap();
    assert!(why.starts_with("wrong result: f32: ") && why.contains("decisions agree"), "{why}");
    assert_ne!(wrong["gate"]["quality_hash"], baseline["gate"]["quality_hash"]);

    // Every sample is in the ledger, which other verbs read.
    let (records, notices) = wgoose_measure::ledger::read(&folder.path().join("all.jsonl")).unwrap();
    let names: Vec<&str> =
        records.trials().filter(|(_, t)| t.outcome.is_known()).map(|(_, t)| t.identity.tried.name()).collect();
    assert!(notices.is_empty() && names.starts_with(&["gate", "gate"]) && names.len() >= 4, "{names:?}");
    printed(folder.path(), ["plans", "report", "all.jsonl"]);

    let line = "compare one.gguf --workload short.ron --budget 1 --plan default --kernels wrong";
    let output = wgoose(folder.path(), line.split(' '));
    assert_eq!(output.status.code(), Some(1), "nothing is left to compare");
    assert!(said(output).ends_with("wgoose: nothing was timed: every arm is refused\n"));
}

#[test]
fn arms_are_rows_of_every_form_and_marks_of_a_picture() {
    let folder = folder();
    synth(folder.path(), "two.gguf", "--mix Q8_0");
    let arms = "--without norm-shift --chunk 4 --against two.gguf";
    let csv = compare(folder.path(), &format!("{arms} --format csv --picture p.svg"));
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 3, "{csv}");
    for (line, arm) in lines[1..].chunks(2).zip(["without norm-shift", "chunk 4", "two.gguf"]) {
        assert!(line.iter().all(|line| line.contains(&format!(",{arm},"))), "{csv}");
    }
    let picture = std::fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(picture.starts_with("<svg xmlns=") && picture.matches("class=\"dot\"").count() == 6, "{picture}");
    assert!(picture.contains("prefers-color-scheme: dark") && picture.contains(">chunk 4, prefill of 9</text>"));

    // Each model is a comparison of its own.
    let line = "compare one.gguf two.gguf --workload short.ron --budget 1 --plan default --chunk 4 --format md";
    let both = printed(folder.path(), line.split(' '));
    for model in ["one.gguf on ", "two.gguf on "] {
        assert_eq!(both.lines().filter(|line| line.starts_with(model)).count(), 1, "{both}");
    }
    assert_eq!(both.matches("\n| chunk 4 | decode | ").count(), 2, "{both}");

    assert!(
        both.contains("- default plan passed the gate: f32, ") && both.contains(" decisions agree, quality hash "),
        "{both}"
    );
    let table = compare(folder.path(), "--without norm-shift");
    assert!(table.contains("\ndecode\n  without norm-shift") && table.contains("\nprefill of 9\n"), "{table}");
    assert!(table.lines().skip(2).take(6).all(|line| line.len() <= 80), "{table}");
}

#[test]
fn an_edited_plan_is_compared_and_has_lost_its_evidence() {
    let folder = folder();
    let line = "tune one.gguf --workload short.ron --budget 1 --chunks 16,64 --out plan.ron --in-process";
    printed(folder.path(), line.split_whitespace());
    let text = std::fs::read_to_string(folder.path().join("plan.ron")).unwrap();
    assert!(text.contains("quality_hash"), "{text}");
    let chunk = text.lines().find(|line| line.contains("prefill_chunk")).unwrap();
    write(folder.path().join("edited.ron"), text.replace(chunk, "prefill_chunk: 5,")).unwrap();

    let line = "compare one.gguf --workload short.ron --budget 1 --plan plan.ron --plan edited.ron --format json";
    let output = wgoose(folder.path(), line.split_whitespace());
    assert!(output.status.success());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("plan: edited.ron; stale: its evidence is not of this content"), "{stderr}");
    assert!(!stderr.contains("plan: plan.ron; stale"), "{stderr}");
    let arms = arms(&String::from_utf8(output.stdout).unwrap());
    assert_ne!(arms[0]["arm"]["plan"], arms[1]["arm"]["plan"]);
}

#[test]
fn incomparable_arms_are_refused_in_one_line() {
    let folder = folder();
    let own = include_str!("../../../../kernels-wgsl/ops/embed/elements.wgsl").replace("// default: 10\n", "");
    create_dir_all(folder.path().join("unused/ops/embed")).unwrap();
    write(folder.path().join("unused/ops/embed/mine.wgsl"), own).unwrap();
    for (line, code, says) in [
        ("", 2, "there is nothing to compare with"),
        ("--without norm-matmul", 1, "does not have the fusion norm-matmul"),
        ("--with norm-shift", 1, "has the fusion norm-shift"),
        ("--without goose", 2, "goose"),
        ("--kernels nowhere", 1, "nowhere"),
        ("--against missing.gguf", 1, "missing.gguf"),
        ("--plan missing.ron", 1, "missing.ron"),
        ("--chunk 4 --chunk 4", 1, "is the same as"),
        ("--plan default", 1, "'default plan (2)' is the baseline: the workload runs the same kernels"),
        ("--against one.gguf", 1, "'one.gguf' is the baseline"),
        ("--kernels unused", 1, "'kernels unused' is the baseline"),
        ("--variant embed/elements", 1, "'variant embed/elements' is the baseline"),
        ("--variant embed", 2, "expected OP/VARIANT"),
        ("--variant embed/none", 2, "embed has no variant 'none'"),
        ("--variant lerp/elements", 1, "lerp/elements serves no op instance of the workload"),
        ("--chunk 4 --workload nap", 2, "cannot be used multiple times"),
    ] {
        let line = format!("compare one.gguf --workload short.ron --budget 1 --plan default {line}");
        let output = wgoose(folder.path(), line.split_whitespace());
        let (status, said) = (output.status.code(), said(output));
        assert!(status == Some(code) && said.contains(says), "{line}: {status:?} {said}");
        assert!(code == 2 || said.lines().count() == 1, "{said}");
    }
}

#[test]
fn a_variant_is_an_arm_that_runs_it() {
    let folder = folder();
    let own = include_str!("../../../../kernels-wgsl/ops/embed/elements.wgsl");
    let own = own.replace("// default: 10\n", "");
    let own = own.replace("let row", "let line").replace("row >=", "line >=").replace("row - params", "line - params");
    create_dir_all(folder.path().join("mine/ops/embed")).unwrap();
    write(folder.path().join("mine/ops/embed/lines.wgsl"), own).unwrap();
    let line = "--kernels mine --variant embed/lines --variant matmul/naive --format json --ledger all.jsonl";
    let arms = arms(&compare(folder.path(), line));
    let names: Vec<&str> = arms[1..].iter().map(|arm| arm["arm"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["variant embed/lines", "variant matmul/naive"], "a folder of a variant is no arm by itself");
    assert!(arms[1..].iter().all(|arm| arm["refused"].is_null() && arm["timed"].as_array().unwrap().len() == 2));
    let (records, _) = wgoose_measure::ledger::read(&folder.path().join("all.jsonl")).unwrap();
    let plans: Vec<String> = records.as_slice().iter().map(|entry| format!("{:?}", entry.record)).collect();
    for variant in ["lines", "naive"] {
        let chosen = format!("variant: {variant:?}");
        assert!(plans.iter().any(|plan| plan.contains(&chosen)), "{variant}");
    }
}
