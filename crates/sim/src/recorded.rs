//! Ledgers of real sweeps, in this repository.

#![allow(clippy::unwrap_used)] // tests alone read them

use std::path::Path;
use wgoose_measure::ledger::{self, Records};

/// A ledger beside the plans that ship for an H200.
pub fn shipped(name: &str) -> Records {
    in_folder("plans/nvidia-h200", name)
}

/// That of a sweep whose plan ships no more: 2.9B in Q4_K_M on an H200.
pub fn recorded() -> Records {
    in_folder("optimization_plan/tuning", "2.9b-q4_k_m-h200-3d57b74.jsonl.zst")
}

fn in_folder(folder: &str, name: &str) -> Records {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ledger::read(&root.join(folder).join(name)).unwrap().0
}
