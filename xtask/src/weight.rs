//! How many bytes the repository has for everyone who clones it: the files that git tracks.

use crate::demo::TRAINED;
use crate::shell::{Error, Result, capture, command};
use std::fs;
use std::path::Path;

/// Limit of all files, in bytes.
const ALL: u64 = 25 << 20;

/// Limit of a file, in bytes. The demo's model may be larger.
const ONE: u64 = 3 << 20;

/// Records that stay as they are, because a program appends to them or draws them. Others are compressed.
const PLAIN: [&str; 2] = ["experiments/demo-model/curve.jsonl", "optimization_plan/benchmarks.jsonl"];

/// How many of the largest files an error names.
const NAMED: usize = 10;

/// A tracked file.
struct Tracked {
    name: String,
    bytes: u64,
}

/// Holds the tracked files against the limits.
///
/// # Errors
/// Names the files that are too large or not compressed, and the largest ones where all are too large together.
pub(crate) fn check() -> Result<()> {
    let listed = capture(&mut command("git", ["ls-files", "-z"]))?;
    let measured = |name: &str| {
        let metadata = fs::symlink_metadata(name).map_err(|e| Error::file("measure", Path::new(name), e))?;
        Ok(Tracked { name: name.to_owned(), bytes: metadata.len() })
    };
    let files = listed.split('\0').filter(|name| !name.is_empty()).map(measured).collect::<Result<Vec<_>>>()?;
    let faults = faults(&files);
    println!("{} files have {}, of at most {}", files.len(), shown(total(&files)), shown(ALL));
    if faults.is_empty() { Ok(()) } else { Err(Error::Other(faults.join("\n"))) }
}

fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for Tracked { name, bytes } in files {
        if *bytes > ONE && name != TRAINED {
            faults.push(format!("{name} has {}: a file has at most {}", shown(*bytes), shown(ONE)));
        }
        if name.ends_with(".jsonl") && !PLAIN.contains(&&**name) {
            faults.push(format!("{name}: records are kept compressed: zstd -19 --ultra --rm {name}"));
        }
    }
    let all = total(files);
    if all > ALL {
        let mut largest: Vec<&Tracked> = files.iter().collect();
        largest.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let named = largest.iter().take(NAMED).map(|file| format!("\n  {:>10} {}", file.bytes, file.name));
        let named: String = named.collect();
        faults.push(format!("all files have {}, at most {} are allowed; the largest:{named}", shown(all), shown(ALL)));
    }
    faults
}

fn total(files: &[Tracked]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

fn shown(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&'static str, u64)]) -> Vec<String> {
        faults(&files.iter().map(|&(name, bytes)| Tracked { name: name.to_owned(), bytes }).collect::<Vec<_>>())
    }

    #[test]
    fn a_light_tree_has_no_faults() {
        assert!(of(&[(TRAINED, 16_000_000), ("b.jsonl.zst", ONE), (PLAIN[0], 1)]).is_empty());
    }

    #[test]
    fn oversized_files_are_named() {
        assert_eq!(of(&[("a.rs", ONE + 1)]), ["a.rs has 3.00 MiB: a file has at most 3.00 MiB"]);
        let [all] = &of(&[("a.rs", 2), ("b.rs", ONE), (TRAINED, ALL - ONE - 1)])[..] else { panic!("no fault") };
        let largest =
            "all files have 25.00 MiB, at most 25.00 MiB are allowed; the largest:\n    23068671 assets/demo.gguf\n";
        assert!(all.starts_with(largest) && all.ends_with("\n           2 a.rs"), "{all}");
    }

    #[test]
    fn plain_records_are_refused() {
        assert_eq!(of(&[("r.jsonl", 1)]), ["r.jsonl: records are kept compressed: zstd -19 --ultra --rm r.jsonl"]);
    }
}
