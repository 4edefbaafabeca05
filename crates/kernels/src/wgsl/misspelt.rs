//! Comments that were meant as directives: one that is misspelt, or where it is not read, would be ignored in silence.
//! Ordinary comments stay legal, as only words close to a directive's are looked at.

use super::document::DIRECTIVES;
use strsim::osa_distance;

/// What the comment behind a constant or an import may say.
const MARKERS: [&str; 4] = ["tune", "op", "device", "same-buffer"];

/// What kernel files said of speed once.
const SPEED: &str = "prune";

/// What is wrong with the comment of a line, if it was meant as a directive and is not read as one. `is_marked` says
/// whether markers are read from this line.
pub(super) fn misspelt(line: &str, is_head: bool, is_marked: bool) -> Option<String> {
    let (code, comment) = line.split_once("//")?;
    let (word, rest) = first_word(comment)?;
    let has_colon = rest.trim_start().starts_with(':');
    match code.trim().is_empty() {
        true if has_colon && (code.is_empty() || is_head) => alone(comment, word, code.is_empty()),
        true => None,
        false if is_marked && !rest.starts_with(':') && (word == "tune" || has_colon && MARKERS.contains(&word)) => {
            Some(format!("a colon is missing behind this word: '// {word}: ..'"))
        }
        false => has_colon.then(|| behind(code, word, is_marked)).flatten(),
    }
}

/// The first word of a comment, and what follows.
fn first_word(comment: &str) -> Option<(&str, &str)> {
    let comment = comment.trim_start_matches('/').trim_start();
    let end = comment.find(|c: char| !c.is_ascii_alphabetic() && c != '-' && c != '_').unwrap_or(comment.len());
    Some(comment.split_at(end)).filter(|(word, _)| !word.is_empty())
}

/// A comment that has its line for itself.
fn alone(comment: &str, word: &str, is_at_margin: bool) -> Option<String> {
    if let Some(marker) = MARKERS.into_iter().find(|marker| *marker == word || is_near(word, marker)) {
        return Some(format!("'// {marker}:' is read behind a const, an alias or an import: write it on that line"));
    }
    if word == SPEED || is_near(word, SPEED) {
        let what = "speed heuristics are no part of kernels: without this line all legal configurations are tried";
        return Some(format!("{what}; those of kernels of the repository are in plans/heuristics/"));
    }
    let known = DIRECTIVES.into_iter().find(|known| *known == word || is_near(word, known))?;
    let is_read = is_at_margin && comment.strip_prefix(' ').is_some_and(|c| c.starts_with(&format!("{known}:")));
    (!is_read).then(|| match word == known {
        true => format!("a directive is spelled '// {known}: ..', at the beginning of its line"),
        false => format!("there is no directive '{word}': did you mean '{known}'?"),
    })
}

/// A comment behind code.
fn behind(code: &str, word: &str, is_marked: bool) -> Option<String> {
    let may_declare = ["const ", "alias ", "override ", "#import "].iter().any(|k| code.trim_start().starts_with(k));
    let known = MARKERS.into_iter().find(|marker| *marker == word || is_near(word, marker))?;
    match (word == known, is_marked, may_declare) {
        (true, false, _) if known == "tune" => {
            Some("only a const, an alias or an import at the beginning of its line is tuned".to_owned())
        }
        (false, _, true) => Some(format!("there is no marker '{word}': did you mean '{known}'?")),
        _ => None,
    }
}

/// Whether a word is a known one, misspelt: in other letter cases, or with a letter or two wrong, swapped, missing or
/// too many.
fn is_near(word: &str, known: &str) -> bool {
    let lower = word.to_ascii_lowercase().replace('_', "-");
    if word == known || lower == known {
        return word != known;
    }
    let distance = osa_distance(word, known);
    match known.len() {
        // Most words of two letters are one letter away.
        0..=3 => distance == 1 && word.len() > known.len(),
        4..=5 => distance == 1,
        _ => distance <= 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wgsl::{Document, Files};

    /// The message for a line that markers are read from.
    fn marked(line: &str) -> Option<String> {
        misspelt(line, false, true)
    }

    #[test]
    fn misspelt_directives_are_refused_with_the_right_spelling() {
        for (line, meant) in [
            ("// tunes: 32 64", "behind a const"),
            ("// tune: 32 64", "behind a const"),
            ("// prune: WG < 1u   wide", "plans/heuristics/"),
            ("// prunes: WG < 1u   wide", "plans/heuristics/"),
            ("//prune: WG < 1u   wide", "plans/heuristics/"),
            ("// grids: rows", "'grid'"),
            ("// Grid: rows", "'grid'"),
            ("// partails: rows", "'partials'"),
            ("//grid: rows", "'// grid: ..'"),
            ("/// needs: f16", "'// needs: ..'"),
            ("// needs : f16", "'// needs: ..'"),
            ("// need: f16", "'needs'"),
            ("// plan_only: slow", "'plan-only'"),
            ("// presicion: q8", "'precision'"),
            ("// partial: rows", "'partials'"),
        ] {
            let error = misspelt(line, false, false).unwrap_or_default();
            assert!(error.contains(meant), "{line}: {error:?}");
        }
        for (line, meant) in [
            ("const WG: u32 = 64u; // tunes: 32 64", "'tune'"),
            ("const WG: u32 = 64u; // Tune: 32 64", "'tune'"),
            ("const WG: u32 = 64u; // tnue: 32 64", "'tune'"),
            ("const WG: u32 = 64u; // tune : 32 64", "colon"),
            ("const K: u32 = 64u; // op : k", "colon"),
            ("const WG: u32 = 64u; // tune 32 64", "colon"),
            ("#import lib/x/f32 // tunes: f32 q8", "'tune'"),
            ("const K: u32 = 64u; // ops: k", "'op'"),
            ("const SM: u32 = 64u; // devise: multiprocessors", "'device'"),
            ("const SAME: bool = false; // same_buffer: a b by f", "'same-buffer'"),
        ] {
            let error = marked(line).unwrap_or_default();
            assert!(error.contains(meant), "{line}: {error:?}");
        }
        let inside = misspelt("    let n = 64u; // tune: 32 64", false, false);
        assert!(inside.unwrap().contains("only a const"));
        assert!(misspelt("  // grid: rows", true, false).unwrap().contains("'// grid: ..'"));
    }

    #[test]
    fn ordinary_comments_stay_legal() {
        for line in [
            "// readers: one per lane",
            "// is: no directive",
            "// Packed: two halves",
            "// The default: none",
            "// tuned on an H200",
            "const N: u32 = 4u; // tuned on an H200: 4",
            "const N: u32 = 4u; // of: the head",
            "const N: u32 = 4u; // time: 3 us",
            "const N: u32 = 4u; // k of a tile",
            "let n = 4u; // ops: three",
            "    // sums: of the lanes",
            "let n = 4u; // device: none",
        ] {
            assert_eq!((misspelt(line, false, false), marked(line)), (None, None), "{line}");
        }
    }

    #[test]
    fn every_file_of_the_program_is_read() {
        for (path, file) in Files::embedded().iter() {
            assert!(Document::read(path, &file.text).is_ok(), "{path}");
        }
    }
}
