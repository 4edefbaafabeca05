//! Valid inputs are read, what fuzzers found is survived, and so is what is cut short or has a byte changed here and there.

use std::fs;
use std::path::Path;
use wgoose_hostile::{ALL, seeds};

#[test]
fn every_recorded_input_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("inputs");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let format = path.file_name().unwrap().to_str().unwrap();
        let (_, reads) = ALL.iter().find(|(name, _)| *name == format).unwrap();
        for input in fs::read_dir(&path).unwrap() {
            let input = input.unwrap().path();
            println!("{}", input.display());
            let bytes = fs::read(&input).unwrap();
            // One that repeats itself is kept compressed.
            let is_packed = input.extension().is_some_and(|ending| ending == "zst");
            reads(&if is_packed { wgoose_files::unpacked(bytes).unwrap() } else { bytes });
            seen += 1;
        }
    }
    assert!(seen >= ALL.len(), "only {seen} inputs");
}

#[test]
fn damaged_seeds_are_survived() {
    const CUTS: usize = 12;
    for (format, bytes) in seeds().unwrap() {
        let (_, reads) = ALL.iter().find(|(name, _)| *name == format).unwrap();
        reads(&bytes);
        for i in 0..CUTS {
            let at = bytes.len() * i / CUTS;
            reads(&bytes[..at]);
            let mut changed = bytes.clone();
            changed[at] = changed[at].wrapping_add((1 + 37 * i) as u8);
            reads(&changed);
        }
    }
}
