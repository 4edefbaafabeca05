//! Tests of every kernel file of the program: required names and shapes of bindings.

use super::lex::{declared, is_binding, is_entry_point, items, tokens};
use super::outline::{Operand, rename};
use super::shake::references;
use super::{Document, Files};
use std::collections::BTreeSet;

fn documents() -> Vec<Document> {
    Files::embedded().iter().map(|(path, file)| Document::read(path, &file.text).unwrap()).collect()
}

/// A text with the names of its template, as an import for an operand has it.
fn renamed(document: &Document, operand: Option<&str>) -> String {
    let lines = document.lines.iter().filter(|line| !line.starts_with("#import"));
    let operand = operand.map(|name| Operand { name: name.to_owned(), binding: None });
    lines.map(|line| operand.as_ref().map_or_else(|| line.clone(), |operand| rename(line, operand)) + "\n").collect()
}

/// The names that a file gets from its imports.
#[derive(Default)]
struct Given {
    declared: BTreeSet<String>,
    required: BTreeSet<String>,
    /// Operands whose readers are those of a format.
    operands: BTreeSet<String>,
}

impl Given {
    fn add(&mut self, all: &[Document], path: &str, operand: Option<&str>) {
        let Some(document) = all.iter().find(|document| *document.path == *path) else { return };
        let text = renamed(document, operand);
        self.declared.extend(items(&tokens(&text)).iter().filter_map(|item| declared(item)).map(str::to_owned));
        self.required.extend(document.requires.iter().map(|required| required.name.clone()));
        for import in &document.imports {
            let operand = import.operand.as_deref().or(operand);
            if import.is_of_format() {
                self.operands.extend(import.operand.clone());
            } else {
                self.add(all, &import.path, operand);
            }
        }
    }
}

#[test]
fn files_require_the_names_that_they_take_from_importers() {
    let all = documents();
    let known: BTreeSet<String> = all
        .iter()
        .flat_map(|document| {
            let text = renamed(document, None);
            items(&tokens(&text)).iter().filter_map(|item| declared(item)).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let mut wrong = Vec::new();
    for document in all.iter().filter(|document| !document.path.starts_with("ops/")) {
        let mut given = Given::default();
        given.add(&all, &document.path, None);
        let text = renamed(document, None);
        let used: BTreeSet<String> = items(&tokens(&text))
            .iter()
            .filter(|item| !is_entry_point(item))
            .flat_map(|item| references(item))
            .collect();
        let is_reader = |name: &str| {
            name.starts_with("weight_")
                || given
                    .operands
                    .iter()
                    .any(|o| name.strip_prefix(o.as_str()).is_some_and(|rest| rest.starts_with('_')))
        };
        let missing: Vec<&String> = used
            .iter()
            .filter(|name| known.contains(*name) && !given.declared.contains(*name) && !given.required.contains(*name))
            .filter(|name| !is_reader(name))
            .collect();
        let needless: Vec<&str> =
            document.requires.iter().map(|r| r.name.as_str()).filter(|name| !used.contains(*name)).collect();
        if !missing.is_empty() || !needless.is_empty() {
            wrong.push(format!("{}: lacks {missing:?}, has no use for {needless:?}", document.path));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_binding_has_a_shape() {
    let has_shape = |line: &str| {
        let comment = line.split_once("//").map_or("", |(_, comment)| comment.trim());
        comment.starts_with('[') && comment.contains(']')
    };
    let mut bindings = 0;
    let mut without = Vec::new();
    for document in documents() {
        let before = bindings;
        for (i, line) in document.lines.iter().enumerate() {
            let of_line = tokens(line);
            if items(&of_line).iter().any(|item| is_binding(item)) {
                bindings += 1;
                if !has_shape(line) {
                    without.push(format!("{}.wgsl:{}: {line}", document.path, i + 1));
                }
            }
        }
        let text = renamed(&document, None);
        let all = items(&tokens(&text)).iter().filter(|item| is_binding(item)).count();
        assert_eq!(bindings - before, all, "{}.wgsl: a binding is one line", document.path);
    }
    assert!(bindings > 250, "only {bindings} bindings");
    assert!(without.is_empty(), "{} without a shape:\n{}", without.len(), without.join("\n"));
}
