//! Embeds the plans that ship, `plans/ADAPTER/MODEL.ron` of the repository, and the speed heuristics beside them,
//! `plans/heuristics/*.txt`. Folders below an adapter's, such as `hand/`, are for comparison.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&manifest).join("../../plans");
    embed_plans(&root);
    embed_heuristics(&root.join("heuristics"));
}

fn embed_plans(root: &Path) {
    let mut plans = Vec::new();
    for adapter in entries(root).into_iter().filter(|path| path.is_dir()) {
        plans.extend(entries(&adapter).into_iter().filter(|path| path.extension().is_some_and(|e| e == "ron")));
    }
    plans.sort();
    let mut out = String::from("&[\n");
    for file in plans {
        let name = file.strip_prefix(root).expect("it was found there").with_extension("");
        let parts: Vec<_> = name.iter().map(|part| part.to_string_lossy()).collect();
        let (name, file) = (parts.join("-"), file.display().to_string());
        let _ = writeln!(out, "    ({name:?}, include_str!({file:?})),");
    }
    out.push_str("]\n");
    write("shipped.rs", &out);
}

fn embed_heuristics(folder: &Path) {
    let mut files = entries(folder);
    files.sort();
    let mut out = String::from("&[\n");
    for file in files.into_iter().filter(|path| path.extension().is_some_and(|e| e == "txt")) {
        let name = file.file_name().expect("it was found there").to_string_lossy();
        let (name, file) = (format!("plans/heuristics/{name}"), file.display().to_string());
        let _ = writeln!(out, "    HeuristicsText {{ name: {name:?}, text: include_str!({file:?}) }},");
    }
    out.push_str("]\n");
    write("heuristics.rs", &out);
}

fn write(name: &str, text: &str) {
    let target = Path::new(&std::env::var("OUT_DIR").expect("cargo sets it")).join(name);
    std::fs::write(target, text).expect("cargo's folder can be written");
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let found = std::fs::read_dir(folder).expect("the folder of the plans can be read");
    found.map(|entry| entry.expect("the folder of the plans can be read").path()).collect()
}
