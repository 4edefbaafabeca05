//! The page's two programs: five lines apart, with the same answer.

use crate::models::{SMALL, own_file, synthetic};
use wgoose_loader::Container;
use wgoose_loader::synth::Mix;

#[allow(dead_code, reason = "a program has a `main`")]
#[path = "../../examples/safetensors.rs"]
mod before;

#[allow(dead_code, reason = "a program has a `main`")]
#[path = "../../examples/gguf.rs"]
mod after;

const BEFORE: &str = include_str!("../../examples/safetensors.rs");
const AFTER: &str = include_str!("../../examples/gguf.rs");
const PAGE: &str = include_str!("../../README.md");

/// The lines of the page's first block of that language.
fn block(language: &str) -> Vec<&'static str> {
    let (_, rest) = PAGE.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0.lines().collect()
}

/// The lines that a text has more of than another, but for comments.
fn only_in(text: &'static str, other: &str) -> Vec<&'static str> {
    text.lines().filter(|line| !line.starts_with("//!") && !other.lines().any(|theirs| theirs == *line)).collect()
}

#[test]
fn the_page_shows_all_lines_that_change() {
    let manifest = "+ wgoose-web-rwkv = { path = \"integrations/web-rwkv\" }";
    let removed = only_in(BEFORE, AFTER).into_iter().map(|line| format!("- {}", line.trim_start()));
    let added = only_in(AFTER, BEFORE).into_iter().map(|line| format!("+ {}", line.trim_start()));
    let mut wanted: Vec<String> = std::iter::once(manifest.to_owned()).chain(removed).chain(added).collect();
    let mut shown: Vec<&str> = block("diff").into_iter().filter(|line| line.starts_with(['+', '-'])).collect();
    wanted.sort();
    shown.sort_unstable();
    assert_eq!(shown, wanted);
    assert!(shown.iter().filter(|line| line.starts_with('+')).count() <= 5 && shown.len() <= 6, "{shown:?}");
}

#[test]
fn both_programs_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let gguf = synthetic(&folder, SMALL, Container::Gguf, Mix::Q4_K_M);
    let own = own_file(&gguf);
    let own_path = folder.path().join("own.st");
    std::fs::write(&own_path, own).unwrap();
    let (wanted, said) = crate::engine::block_on(async {
        let wanted = before::continued(&own_path.to_string_lossy(), &[1, 2, 3], 8).await.unwrap();
        (wanted, after::continued(&gguf.to_string_lossy(), &[1, 2, 3], 8).await.unwrap())
    });
    assert_eq!((wanted.len(), &said), (8, &wanted));
    assert!(wanted.iter().any(|token| *token != wanted[0]), "{wanted:?}");
}
