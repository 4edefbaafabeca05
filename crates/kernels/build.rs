//! Embeds every file of `kernels-wgsl/`: the catalogue is what a scan of the folder finds.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let root = Path::new(&manifest).join("../../kernels-wgsl");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    scan(&root, &mut files);
    files.sort();
    let mut out = String::from("&[\n");
    for file in files {
        let name = file.strip_prefix(&root).expect("it was found there").to_string_lossy().replace('\\', "/");
        let name = name.trim_end_matches(".wgsl");
        let _ = writeln!(out, "    ({name:?}, include_str!({:?})),", file.display().to_string());
    }
    out.push_str("]\n");
    let target = Path::new(&std::env::var("OUT_DIR").expect("cargo sets it")).join("kernels.rs");
    std::fs::write(target, out).expect("cargo's folder can be written");
}

fn scan(folder: &Path, files: &mut Vec<PathBuf>) {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder).expect("the folder of the kernels can be read") {
        let path = entry.expect("the folder of the kernels can be read").path();
        if path.is_dir() {
            scan(&path, files);
        } else if path.extension().is_some_and(|e| e == "wgsl") {
            files.push(path);
        }
    }
}
