//! Unpacks the World vocabulary, so that the program has its text and loses no time at its start.

use std::path::Path;

/// As it is published.
const VOCABULARY: &str = "rwkv_vocab_v20230424.txt";

fn main() {
    let folder = |variable: &str| std::env::var(variable).expect("cargo sets it");
    let packed = Path::new(&folder("CARGO_MANIFEST_DIR")).join("../../assets").join(format!("{VOCABULARY}.zst"));
    println!("cargo::rerun-if-changed={}", packed.display());
    let text = wgoose_files::read_unpacked(&packed).expect("the vocabulary is in assets/");
    std::fs::write(Path::new(&folder("OUT_DIR")).join(VOCABULARY), text).expect("cargo's folder can be written");
}
