//! `wgoose plans report`: what ledgers say, without a GPU.

use crate::binary::{printed, said, wgoose};
use std::path::{Path, PathBuf};

/// A ledger of this repository.
fn ledger(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn a_ledger_becomes_a_page_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let recorded = ledger("optimization_plan/tuning/2.9b-q4_k_m-h200-3d57b74.jsonl.zst");
    std::fs::copy(recorded, folder.path().join("q4.jsonl.zst")).unwrap();
    assert_eq!(
        printed(folder.path(), ["plans", "report", "q4.jsonl.zst"]),
        "q4.html: 2103 records, 25 sites, 1 failures\n"
    );
    let page = std::fs::read_to_string(folder.path().join("q4.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Tuning on NVIDIA H200") && page.contains("×2.03"));
    assert!(page.contains("wgoose plans derive q4.jsonl.zst --out plan.ron") && !page.contains("<script"));
    // A compressed ledger gives the plan, as long as its kernels are those that were measured.
    let shipped = ledger("plans/nvidia-h100-80gb-hbm3/32x2560-q4_k_m.jsonl.zst");
    let derived = printed(folder.path(), ["plans".as_ref(), "derive".as_ref(), shipped.as_os_str()]);
    assert!(derived.contains("persistent: Some(132)"), "{derived}");

    // What was measured, for other tools.
    assert!(
        printed(folder.path(), ["plans", "report", "q4.jsonl.zst", "--t4", "q4.json"])
            .ends_with("q4.json: 554 results\n")
    );
    let results: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("q4.json")).unwrap()).unwrap();
    assert_eq!(results["schema_version"], "1.0.0");

    // Another place, and another objective that it does not have.
    let all =
        ["plans", "report", "q4.jsonl.zst", shipped.to_str().unwrap(), "--out", "both.html", "--workload", "batch"];
    assert!(printed(folder.path(), all).starts_with("both.html: 2330 records"));
}

#[test]
fn a_file_that_is_no_ledger_gets_no_report() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.jsonl"), "none").unwrap();
    for (args, line) in [
        (vec!["plans", "report", "a.jsonl"], "wgoose: a.jsonl is not a ledger: name another file\n"),
        (vec!["plans", "report", "b.jsonl"], "wgoose: cannot read 'b.jsonl': No such file or directory (os error 2)\n"),
    ] {
        let output = wgoose(folder.path(), args);
        assert_eq!((output.status.code(), said(output).as_str()), (Some(1), line));
    }
    assert!(!folder.path().join("a.html").exists());
}
