//! From a WGSL file to the text for one site: imports expanded, literals set.
//!
//! `#import NAME` takes in a shared file once. `#import weight/FORMAT as ID binding N` takes in the format in which the
//! operand ID is stored here (the one written is only an example), every `weight...` identifier renamed to `ID...`; an
//! operand that the op does not have becomes `weight/absent`. `#import piece/FORMAT as ID binding N` is the same for the
//! folder `piece`, whose files take in those of `weight`, and for `block`, which only some formats have.
//! `#import NAME as ID` takes in a file that is written for a matrix, once for each, renamed in the same way.

use crate::source::{self, File, Sources};
use crate::tunables::{Setter, Tunables, declaration};
use crate::unroll::unroll;
use crate::{Site, SpecialiseError};
use std::collections::HashSet;
use wgoose_graph::{Format, OperandKind};

/// Text with, for each line, where it came from.
#[derive(Debug, Default)]
pub(crate) struct Specialised {
    pub(crate) text: String,
    /// Path and line (from 1) of each line of `text`.
    pub(crate) origin: Vec<(&'static str, usize)>,
}

impl Specialised {
    pub(crate) fn push(&mut self, line: &str, origin: (&'static str, usize)) {
        self.text.push_str(line);
        self.text.push('\n');
        self.origin.push(origin);
    }
}

/// The tunables a file declares: name, default, choices.
pub(crate) fn tunables(file: File, sources: &Sources) -> Result<Vec<(String, String, Vec<String>)>, SpecialiseError> {
    let mut found = Vec::new();
    for line in read(file, sources)?.lines() {
        if let Some(d) = declaration(line)
            && let Setter::Plan(choices) = &d.setter
        {
            let choices = choices.iter().map(|c| (*c).to_owned()).collect();
            found.push((d.name.to_owned(), d.default_value().to_owned(), choices));
        }
    }
    Ok(found)
}

/// A file and everything it may import at sites of these formats, each once. A weight import may bring in any format of a
/// file. Readers of repacked formats count only where they are used: plans without such know nothing of them.
pub(crate) fn closure(file: File, formats: &[Format], sources: &Sources) -> Result<Vec<File>, SpecialiseError> {
    let may_read =
        |name: &str, folder: &str| match name.split_once('/').map(|(f, n)| (f == folder, n.parse::<Format>())) {
            Some((true, Ok(format))) => !format.is_repacked() || formats.contains(&format),
            Some((true, Err(_))) => true,
            _ => false,
        };
    let mut files = vec![file];
    let mut next = 0;
    while let Some(file) = files.get(next).copied() {
        next += 1;
        for line in read(file, sources)?.lines() {
            let name = line.strip_prefix("#import ").and_then(|i| i.split_whitespace().next()).unwrap_or_default();
            let folder = name.split('/').next().filter(|_| line.contains(" binding "));
            let imported =
                source::all_shared().filter(|(n, _)| *n == name || folder.is_some_and(|folder| may_read(n, folder)));
            for (_, file) in imported {
                if !files.iter().any(|f| f.path == file.path) {
                    files.push(file);
                }
            }
        }
    }
    files.sort_by_key(|f| f.path);
    Ok(files)
}

/// Expands and sets everything; without a site there are no operands and no `// op:` literals. What files enable comes
/// first, as WGSL wants it, wherever they are imported.
pub(crate) fn specialise(
    file: File,
    sources: &Sources,
    site: Option<&Site>,
    chosen: &Tunables,
) -> Result<Specialised, SpecialiseError> {
    let mut expansion = Expansion { sources, site, chosen, out: Specialised::default(), seen: HashSet::new() };
    expansion.file(file, None)?;
    unroll(&enables_first(&expansion.out))
}

fn enables_first(text: &Specialised) -> Specialised {
    let (mut first, mut rest) = (Specialised::default(), Vec::new());
    let mut seen = HashSet::new();
    for (line, at) in text.text.lines().zip(text.origin.iter().copied()) {
        match line.starts_with("enable ") {
            true if seen.insert(line) => first.push(line, at),
            true => {}
            false => rest.push((line, at)),
        }
    }
    rest.into_iter().for_each(|(line, at)| first.push(line, at));
    first
}

pub(crate) fn read(file: File, sources: &Sources) -> Result<std::borrow::Cow<'static, str>, SpecialiseError> {
    sources.read(file).map_err(|e| SpecialiseError::Read { path: file.path, why: e.to_string() })
}

struct Expansion<'a> {
    sources: &'a Sources,
    site: Option<&'a Site>,
    chosen: &'a Tunables,
    out: Specialised,
    seen: HashSet<(String, Option<String>)>,
}

/// How an operand's weights are renamed and, where their format is imported, bound.
#[derive(Clone)]
struct Operand {
    name: String,
    binding: Option<String>,
}

impl Expansion<'_> {
    fn file(&mut self, file: File, operand: Option<&Operand>) -> Result<(), SpecialiseError> {
        for (number, line) in read(file, self.sources)?.lines().enumerate() {
            let at = (file.path, number + 1);
            if let Some(import) = line.strip_prefix("#import ") {
                self.import(at, import, operand)?;
                continue;
            }
            let set = match declaration(line) {
                Some(d) => match &d.setter {
                    Setter::Plan(choices) => {
                        let value = self.chosen.0.get(d.name).map_or(d.default_value(), String::as_str);
                        if !choices.contains(&value) {
                            let (name, value) = (d.name.to_owned(), value.to_owned());
                            return Err(SpecialiseError::Choice {
                                path: at.0,
                                name,
                                value,
                                choices: choices.join(" "),
                            });
                        }
                        d.with(value)
                    }
                    Setter::Op(attribute) => match self.site.and_then(|site| site.literal(attribute)) {
                        Some(value) => d.with(&value),
                        None => return Err(SpecialiseError::at(at, format!("no op has a literal '{attribute}'"))),
                    },
                },
                None => line.to_owned(),
            };
            let renamed = match operand {
                Some(operand) => rename(&set, operand),
                None => set,
            };
            self.out.push(&renamed, at);
        }
        Ok(())
    }

    fn import(
        &mut self,
        at: (&'static str, usize),
        import: &str,
        inherited: Option<&Operand>,
    ) -> Result<(), SpecialiseError> {
        let words: Vec<&str> = import.split_whitespace().collect();
        let operand = |id: &str, binding| Some(Operand { name: id.to_owned(), binding });
        let (name, operand) = match words[..] {
            [name] => (name.to_owned(), inherited.cloned().filter(|_| source::is_of_operand(name))),
            [name, "as", id] => (name.to_owned(), operand(id, None)),
            [example, "as", id, "binding", n] => {
                let folder = example.split_once('/').map_or("", |(folder, _)| folder);
                (format!("{folder}/{}", self.format(id)), operand(id, Some(format!("@binding({n})"))))
            }
            _ => return Err(SpecialiseError::at(at, format!("cannot read '#import {import}'"))),
        };
        if !self.seen.insert((name.clone(), operand.as_ref().map(|o| o.name.clone()))) {
            return Ok(());
        }
        match source::shared(&name) {
            Some(file) => self.file(file, operand.as_ref()),
            None => Err(SpecialiseError::at(at, format!("there is no shared file '{name}'"))),
        }
    }

    /// The name of the shared files for the format in which an operand is stored.
    fn format(&self, operand: &str) -> String {
        match self.site.and_then(|site| site.input(operand)) {
            None => "absent".into(),
            Some(input) if input.kind == OperandKind::Matrix => input.format.map_or("f32", Format::name).to_lowercase(),
            Some(_) => "f32".into(),
        }
    }
}

/// Renames `weight` and `weight_...` to the operand's name and gives its binding, leaving comments alone.
fn rename(line: &str, operand: &Operand) -> String {
    let code_end = line.find("//").unwrap_or(line.len());
    let (code, comment) = line.split_at(code_end);
    let code = match &operand.binding {
        Some(binding) => code.replace("@binding(0)", binding),
        None => code.to_owned(),
    };
    let mut out = String::with_capacity(line.len());
    let mut rest = code.as_str();
    while let Some(at) = rest.find("weight") {
        let before = rest[..at].chars().next_back();
        let after = rest[at + "weight".len()..].chars().next();
        let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let whole = !inside(before) && !after.is_some_and(|c| c.is_ascii_alphanumeric());
        out.push_str(&rest[..at]);
        out.push_str(if whole { &operand.name } else { "weight" });
        rest = &rest[at + "weight".len()..];
    }
    out + rest + comment
}
