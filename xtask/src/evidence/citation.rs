//! A citation: where a figure of a table comes from.
//!
//! ```text
//! optimization_plan/tuning/bench-plans.jsonl.zst?arm=tuned&formats=Q4_K_M&run=1#rows.tokens_per_s
//! ```
//!
//! A file of JSON lines (`.jsonl`, `.jsonl.zst`) or of one value (`.json`); conditions; and a path of fields, which
//! passes through lists, or names an item by its number. A condition is met by a field of any object on that path.

use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A median or range of more values would hide which they are.
const MOST_VALUES: usize = 12;

/// Why a citation selects no figure.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Unfounded {
    #[error("'{0}' is no citation: it is PATH?FIELD=VALUE&...#FIELD")]
    NoCitation(String),
    #[error("'{0}' is no file of JSON lines (.jsonl, .jsonl.zst) or JSON (.json)")]
    NoRecord(String),
    #[error("{}: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error("nothing in the record answers to '{0}'")]
    Nothing(String),
    #[error("'{citation}' is answered by {count} values, of at most {MOST_VALUES}: add conditions")]
    TooMany { citation: String, count: usize },
}

/// The values that a citation selects.
#[derive(Debug, PartialEq)]
pub(super) struct Selected {
    pub(super) least: f64,
    pub(super) median: f64,
    pub(super) most: f64,
}

/// The records that were read, each once.
#[derive(Default)]
pub(super) struct Records(HashMap<PathBuf, Vec<Value>>);

impl Records {
    /// The values that a citation selects, of which there are few; its path begins in `folder`.
    ///
    /// # Errors
    /// Says what is wrong with the citation, or that nothing or too much answers to it.
    pub(super) fn select(&mut self, folder: &Path, citation: &str) -> Result<Selected, Unfounded> {
        let values = self.all(folder, citation)?;
        if values.len() > MOST_VALUES {
            return Err(Unfounded::TooMany { citation: citation.to_owned(), count: values.len() });
        }
        Ok(Selected { least: values[0], median: median(&values), most: values[values.len() - 1] })
    }

    /// All values that a citation selects, from least to most; at least one.
    ///
    /// # Errors
    /// Says what is wrong with the citation, or that nothing answers to it.
    pub(super) fn all(&mut self, folder: &Path, citation: &str) -> Result<Vec<f64>, Unfounded> {
        let malformed = || Unfounded::NoCitation(citation.to_owned());
        let (rest, fields) = citation.split_once('#').ok_or_else(malformed)?;
        let (path, conditions) = rest.split_once('?').unwrap_or((rest, ""));
        let conditions = conditions.split('&').filter(|condition| !condition.is_empty());
        let conditions: Vec<(Vec<&str>, &str)> = conditions
            .map(|condition| condition.split_once('=').map(|(field, value)| (field.split('.').collect(), value)))
            .collect::<Option<_>>()
            .ok_or_else(malformed)?;
        let path = folder.join(path);
        let mut values = Vec::new();
        for line in self.read(&path)? {
            select(line, &fields.split('.').collect::<Vec<_>>(), &mut Vec::new(), &conditions, &mut values);
        }
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => Err(Unfounded::Nothing(citation.to_owned())),
            _ => Ok(values),
        }
    }

    fn read(&mut self, path: &Path) -> Result<&[Value], Unfounded> {
        if !self.0.contains_key(path) {
            let values = read(path)?;
            self.0.insert(path.to_owned(), values);
        }
        Ok(&self.0[path])
    }
}

fn read(path: &Path) -> Result<Vec<Value>, Unfounded> {
    let unreadable = |why: String| Unfounded::Unreadable { path: path.to_owned(), why };
    let name = path.to_string_lossy();
    if ![".jsonl", ".jsonl.zst", ".json"].iter().any(|extension| name.ends_with(extension)) {
        return Err(Unfounded::NoRecord(name.into_owned()));
    }
    let bytes = wgoose_files::read_unpacked(path).map_err(|e| unreadable(e.to_string()))?;
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter();
    values.collect::<Result<_, _>>().map_err(|e| unreadable(e.to_string()))
}

/// Numbers at the end of a path of fields. `on_the_way` has the objects passed so far, for the conditions.
fn select<'a>(
    value: &'a Value,
    fields: &[&str],
    on_the_way: &mut Vec<&'a Value>,
    conditions: &[(Vec<&str>, &str)],
    found: &mut Vec<f64>,
) {
    match value {
        Value::Array(items) => match fields.split_first().map(|(field, rest)| (field.parse::<usize>(), rest)) {
            Some((Ok(number), rest)) => {
                items.get(number).into_iter().for_each(|item| select(item, rest, on_the_way, conditions, found));
            }
            _ => items.iter().for_each(|item| select(item, fields, on_the_way, conditions, found)),
        },
        Value::Number(number) if fields.is_empty() => {
            let met = |(field, wanted): &(Vec<&str>, &str)| {
                on_the_way.iter().any(|object| at(object, field).is_some_and(|value| says(value, wanted)))
            };
            if conditions.iter().all(met) {
                found.extend(number.as_f64());
            }
        }
        Value::Object(_) => {
            on_the_way.push(value);
            // Keys may have dots of their own.
            for taken in 1..=fields.len() {
                if let Some(next) = value.get(fields[..taken].join(".")) {
                    select(next, &fields[taken..], on_the_way, conditions, found);
                }
            }
            on_the_way.pop();
        }
        _ => {}
    }
}

fn at<'a>(value: &'a Value, field: &[&str]) -> Option<&'a Value> {
    if field.is_empty() {
        return Some(value);
    }
    (1..=field.len()).find_map(|taken| at(value.get(field[..taken].join("."))?, &field[taken..]))
}

fn says(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        other => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *other),
    }
}

/// Of at least one value, sorted.
fn median(values: &[f64]) -> f64 {
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const RECORD: &str = r#"{"arm":"tuned","rows":[{"job":{"decode":[1,256]},"tokens_per_s":770.3,"references":[{"who":"a peer","tokens_per_s":193.0}]}]}
{"arm":"tuned","rows":[{"job":{"decode":[1,256]},"tokens_per_s":766.7,"references":[]},{"job":{"prompt":32},"tokens_per_s":5670.3}]}
{"arm":"default","at":{"phases_ms.compute":{"median":332.25}},"rows":[{"job":{"decode":[1,256]},"tokens_per_s":381.0}]}
"#;

    fn select(citation: &str) -> Result<[f64; 3], Unfounded> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("r.jsonl"), RECORD).unwrap();
        let Selected { least, median, most } = Records::default().select(folder.path(), citation)?;
        Ok([least, median, most])
    }

    #[test]
    fn conditions_select_values_on_the_path() {
        let all = [
            ("r.jsonl?arm=tuned&job.decode=[1,256]#rows.tokens_per_s", [766.7, 768.5, 770.3]),
            ("r.jsonl?arm=default#rows.tokens_per_s", [381.0; 3]),
            ("r.jsonl?arm=tuned#rows.0.tokens_per_s", [766.7, 768.5, 770.3]),
            ("r.jsonl?job.prompt=32#rows.tokens_per_s", [5670.3; 3]),
            ("r.jsonl?who=a peer#rows.references.tokens_per_s", [193.0; 3]),
            ("r.jsonl#at.phases_ms.compute.median", [332.25; 3]),
        ];
        for (citation, values) in all {
            assert_eq!(select(citation), Ok(values), "{citation}");
        }
    }

    #[test]
    fn a_citation_that_selects_nothing_is_refused() {
        let nothing = "r.jsonl?arm=other#rows.tokens_per_s";
        assert_eq!(select(nothing), Err(Unfounded::Nothing(nothing.into())));
        assert!(matches!(select("r.jsonl"), Err(Unfounded::NoCitation(_))));
        assert!(matches!(select("r.jsonl?arm#x"), Err(Unfounded::NoCitation(_))));
        assert!(matches!(select("page.md#x"), Err(Unfounded::NoRecord(_))));
        assert!(matches!(select("absent.jsonl#x"), Err(Unfounded::Unreadable { .. })));
    }

    #[test]
    fn a_citation_of_many_values_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("s.json"), format!("{{\"ms\":[{}]}}", vec!["1"; 13].join(","))).unwrap();
        let selected = Records::default().select(folder.path(), "s.json#ms");
        assert_eq!(selected, Err(Unfounded::TooMany { citation: "s.json#ms".into(), count: 13 }));
    }
}
