//! The room that reads kernel text, and the only one.
//!
//! A file of `kernels-wgsl/` is WGSL with directives in comments and imports (`kernels-wgsl/README.md` is their
//! definition). On its way to a device it passes through this room from left to right:
//!
//! ```text
//! files --document--> directives, lines --outline--> imports expanded, unreached items left out
//!       --setting--> rules decided, literals set, loops unrolled --reflect--> Facts, from naga's module
//! texts of several kernels --link--> one text: the persistent kernel
//! ```
//!
//! Other modules ask [`crate::Facts`]; none searches a text for words.

mod bounds;
mod document;
mod expression;
mod files;
mod lex;
pub(crate) mod link;
mod locals;
mod misspelt;
mod outline;
mod reflect;
mod requires;
mod seen;
mod shake;
mod unroll;

pub(crate) use document::{Declared, Document, Rule};
pub(crate) use expression::Expression;
pub use files::FolderError;
pub(crate) use files::{Files, Standing};
pub(crate) use outline::{Broken, Fact, Names, Outline, Reader, Setting, value};
pub(crate) use reflect::{module, reflect};

use std::collections::BTreeMap;
use std::sync::Arc;

/// Documents by path.
pub(crate) type Documents = BTreeMap<Arc<str>, Document>;

/// A kernel file that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}.wgsl:{line}: {why}")]
pub struct TextError {
    /// Path below `kernels-wgsl/`, without `.wgsl`.
    pub path: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong: the rule that is broken, or what naga says.
    pub why: String,
}

impl TextError {
    pub(crate) fn at(path: &Arc<str>, line: usize, why: impl Into<String>) -> Self {
        TextError { path: Arc::clone(path), line, why: why.into() }
    }
}

/// Text with, for each line, where it comes from.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    text: String,
    files: Vec<Arc<str>>,
    /// Of each line, the number of the file and the line there, from 1.
    origin: Vec<(usize, usize)>,
}

impl Text {
    fn new(files: Vec<Arc<str>>) -> Self {
        Text { text: String::new(), files, origin: Vec::new() }
    }

    /// A text that comes from no file.
    pub(crate) fn of(name: &str, text: String) -> Self {
        let origin = (1..=text.lines().count()).map(|line| (0, line)).collect();
        Text { text, files: vec![Arc::from(name)], origin }
    }

    fn push(&mut self, line: &str, origin: (usize, usize)) {
        self.text.push_str(line);
        self.text.push('\n');
        self.origin.push(origin);
    }

    fn len(&self) -> usize {
        self.origin.len()
    }

    fn files(&self) -> &[Arc<str>] {
        &self.files
    }

    fn lines(&self) -> impl Iterator<Item = (&str, (usize, usize))> {
        self.text.lines().zip(self.origin.iter().copied())
    }

    fn error(&self, (file, line): (usize, usize), why: String) -> TextError {
        TextError { path: Arc::clone(&self.files[file]), line, why }
    }

    /// An error at a line of this text, counted from 1.
    fn error_at(&self, line: usize, why: String) -> TextError {
        let origin = self.origin.get(line.saturating_sub(1)).or(self.origin.last());
        self.error(origin.copied().unwrap_or_default(), why)
    }

    /// An error of the kernel as a whole: its own file is named.
    fn error_of_kernel(&self, why: String) -> TextError {
        self.error((0, 1), why)
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Hash of the text without comments and blank lines: what is said of a kernel makes no other kernel of it.
    pub(crate) fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for line in self.text.lines().map(lex::code).filter(|line| !line.is_empty()) {
            hasher.update(line.as_bytes()).update(b"\n");
        }
        hasher.finalize()
    }

    /// The text, and where its lines come from.
    pub(crate) fn into_parts(self) -> (String, LineOrigins) {
        let lines = self.origin.iter().map(|(file, line)| (*file as u32, *line as u32)).collect();
        (self.text, LineOrigins { files: self.files.into(), lines })
    }
}

/// Where the lines of a kernel's final text come from; by default nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineOrigins {
    files: Arc<[Arc<str>]>,
    lines: Arc<[(u32, u32)]>,
}

impl LineOrigins {
    /// Of a line of the text, counted from 1: the file, a path below `kernels-wgsl/` without `.wgsl`, and the line
    /// there.
    pub fn of(&self, line: u32) -> Option<(&str, u32)> {
        let (file, line) = *self.lines.get((line as usize).checked_sub(1)?)?;
        Some((self.files.get(file as usize)?, line))
    }
}

#[cfg(test)]
mod catalogue_tests;

#[cfg(test)]
mod tests {
    use super::{Document, Files};
    use std::collections::BTreeSet;
    use std::path::Path;
    use wgoose_graph::Format;

    /// The functions that a file defines, and those of the files that it imports.
    fn functions(files: &Files, path: &str) -> BTreeSet<String> {
        let (path, file) = files.get(path).unwrap();
        let document = Document::read(path, &file.text).unwrap();
        let of_line = |line: &String| Some(line.strip_prefix("fn ")?.split_once('(')?.0.to_owned());
        let own = document.lines.iter().filter_map(of_line);
        own.chain(document.imports.iter().flat_map(|import| functions(files, &import.path))).collect()
    }

    #[test]
    fn the_readme_lists_the_readers_of_each_format() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../kernels-wgsl/README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let mut lines = readme.lines().skip_while(|line| !line.starts_with("| format |"));
        let readers = cells(lines.next().unwrap());
        let rows: Vec<Vec<String>> = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells).collect();
        let files = Files::embedded();
        assert_eq!(rows.len(), Format::all().count());
        for (format, row) in Format::all().zip(rows) {
            let name = format.name().to_lowercase();
            let defined = functions(&files, &format!("lib/quant/{name}"));
            let has = |reader: &String| if defined.contains(&format!("weight_{reader}")) { "x" } else { "" };
            let want: Vec<String> = readers.iter().skip(1).map(|reader| has(reader).to_owned()).collect();
            assert_eq!((&row[0], &row[1..]), (&name, &want[..]));
        }
    }
}
