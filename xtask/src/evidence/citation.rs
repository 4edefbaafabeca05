//! A citation: where a figure on a page comes from. It is the target of the link around the figure:
//!
//! ```markdown
//! [770](../tuning/bench-plans.jsonl.zst?arm=tuned&formats=Q4_K_M&run=1#rows.tokens_per_s)
//! [2.07][gain] x          [gain]: bench.jsonl?arm=tuned#rows.tokens_per_s "/ bench.jsonl?arm=default#rows.tokens_per_s"
//! ```
//!
//! A file of JSON lines (`.jsonl`, `.jsonl.zst`) or of one value (`.json`), beside the page; conditions; and a path of
//! fields, lists on the way looked through. A condition is met by a field of any object on that path. The title takes
//! the figure over another one, or over a number: `/ CITATION`, `/ 1e6`.

use super::number::Printed;
use serde_json::Value;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// More values than this are a net, not a citation.
const MOST_VALUES: usize = 12;

/// Why a figure is not in the record that it cites.
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
    #[error("the title '{0}' is neither '/ CITATION' nor '/ NUMBER'")]
    NoDivisor(String),
    #[error("it says {said}, the record {}", shown(.found))]
    Other { said: String, found: Vec<f64> },
}

fn shown(values: &[f64]) -> String {
    values.iter().map(|v| format!("{v:.6}")).collect::<Vec<_>>().join(", ")
}

/// The records that were read, each once.
#[derive(Default)]
pub(super) struct Records(HashMap<PathBuf, Vec<Value>>);

impl Records {
    /// Holds the figures in a link against what it cites: one against the median, `A to B` against the ends, a list
    /// against each.
    ///
    /// # Errors
    /// Says what the record has instead, or what is wrong with the citation.
    pub(super) fn hold(&mut self, page: &Path, text: &str, target: &str, title: &str) -> Result<(), Unfounded> {
        let mut found = self.values(page, target)?;
        if !title.is_empty() {
            let divisor = title.strip_prefix("/ ").ok_or_else(|| Unfounded::NoDivisor(title.to_owned()))?;
            let divisor = match divisor.parse() {
                Ok(number) => number,
                Err(_) => median(&self.values(page, divisor)?),
            };
            found = vec![median(&found) / divisor];
        }
        let said = Printed::all(text);
        let founded = match &said[..] {
            [one] => one.is(median(&found)),
            [from, to] if text.contains(" to ") => from.is(found[0]) && to.is(found[found.len() - 1]),
            several => several.iter().all(|printed| found.iter().any(|value| printed.is(*value))),
        };
        match founded {
            true => Ok(()),
            false => Err(Unfounded::Other { said: text.to_owned(), found }),
        }
    }

    /// The median of what a citation selects, whose path begins in `folder`.
    ///
    /// # Errors
    /// Says what is wrong with the citation, or that nothing answers to it.
    pub(super) fn median(&mut self, folder: &Path, citation: &str) -> Result<f64, Unfounded> {
        Ok(median(&self.values(&folder.join("page"), citation)?))
    }

    /// What a citation selects, from least to most; at least one value.
    fn values(&mut self, page: &Path, citation: &str) -> Result<Vec<f64>, Unfounded> {
        let malformed = || Unfounded::NoCitation(citation.to_owned());
        let (rest, fields) = citation.split_once('#').ok_or_else(malformed)?;
        let (path, conditions) = rest.split_once('?').unwrap_or((rest, ""));
        let conditions = conditions.split('&').filter(|condition| !condition.is_empty());
        let conditions: Vec<(Vec<&str>, &str)> = conditions
            .map(|condition| condition.split_once('=').map(|(field, value)| (field.split('.').collect(), value)))
            .collect::<Option<_>>()
            .ok_or_else(malformed)?;
        let path = page.parent().unwrap_or(Path::new("")).join(path);
        let mut values = Vec::new();
        for line in self.read(&path)? {
            select(line, &fields.split('.').collect::<Vec<_>>(), &mut Vec::new(), &conditions, &mut values);
        }
        values.sort_by(f64::total_cmp);
        match values.len() {
            0 => Err(Unfounded::Nothing(citation.to_owned())),
            count if count > MOST_VALUES => Err(Unfounded::TooMany { citation: citation.to_owned(), count }),
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
        Value::Array(items) => items.iter().for_each(|item| select(item, fields, on_the_way, conditions, found)),
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

    fn hold(text: &str, target: &str, title: &str) -> Result<(), Unfounded> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("r.jsonl"), RECORD).unwrap();
        Records::default().hold(&folder.path().join("page.md"), text, target, title)
    }

    #[test]
    fn a_figure_is_the_median_rounded_as_printed() {
        let decode = "r.jsonl?arm=tuned&job.decode=[1,256]#rows.tokens_per_s";
        assert_eq!(hold("768.5", decode, ""), Ok(()));
        assert_eq!(hold("767 tokens/s", decode, ""), Err(other("767 tokens/s", &[766.7, 770.3])));
        assert_eq!(hold("767 to 770", decode, ""), Ok(()));
        assert_eq!(hold("770, 767", decode, ""), Ok(()));
        assert!(hold("766 to 770", decode, "").is_err());
        assert!(hold("770, 768", decode, "").is_err());
        assert_eq!(hold("5,670", "r.jsonl?job.prompt=32#rows.tokens_per_s", ""), Ok(()));
        assert!(hold("5,680", "r.jsonl?job.prompt=32#rows.tokens_per_s", "").is_err());
        assert_eq!(hold("193", "r.jsonl?who=a peer#rows.references.tokens_per_s", ""), Ok(()));
        assert_eq!(hold("332.3 ms", "r.jsonl#at.phases_ms.compute.median", ""), Ok(()));
    }

    #[test]
    fn ratios_are_of_medians() {
        let (tuned, default) =
            ("r.jsonl?arm=tuned&job.decode=[1,256]#rows.tokens_per_s", "r.jsonl?arm=default#rows.tokens_per_s");
        assert_eq!(hold("2.02 x", tuned, &format!("/ {default}")), Ok(()));
        assert!(hold("2.03 x", tuned, &format!("/ {default}")).is_err());
        assert_eq!(hold("0.7685", tuned, "/ 1e3"), Ok(()));
        assert_eq!(hold("2.02 x", tuned, default), Err(Unfounded::NoDivisor(default.into())));
    }

    #[test]
    fn what_is_no_citation_is_said() {
        let nothing = "r.jsonl?arm=other#rows.tokens_per_s";
        assert_eq!(hold("1", nothing, ""), Err(Unfounded::Nothing(nothing.into())));
        assert!(matches!(hold("1", "r.jsonl", ""), Err(Unfounded::NoCitation(_))));
        assert!(matches!(hold("1", "r.jsonl?arm#x", ""), Err(Unfounded::NoCitation(_))));
        assert!(matches!(hold("1", "page.md#x", ""), Err(Unfounded::NoRecord(_))));
        assert!(matches!(hold("1", "absent.jsonl#x", ""), Err(Unfounded::Unreadable { .. })));
    }

    #[test]
    fn a_net_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("r.json"), format!("[{}]", vec!["1"; 13].join(","))).unwrap();
        fs::write(folder.path().join("s.json"), format!("{{\"ms\":[{}]}}", vec!["1"; 13].join(","))).unwrap();
        let held = Records::default().hold(&folder.path().join("page.md"), "1", "s.json#ms", "");
        assert_eq!(held, Err(Unfounded::TooMany { citation: "s.json#ms".into(), count: 13 }));
    }

    fn other(said: &str, found: &[f64]) -> Unfounded {
        Unfounded::Other { said: said.into(), found: found.to_vec() }
    }
}
