//! Tables of figures: a page names one between two markers, and the records fill it.
//!
//! ```markdown
//! <!-- figures: speed -->
//! (the table)
//! <!-- end of figures -->
//! ```
//!
//! [`DECLARED`] says which figure of which record is in which cell.

use super::citation::{Records, Unfounded};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the tables are declared.
pub(super) const DECLARED: &str = "docs/figures.ron";

const BEGINS: &str = "<!-- figures: ";
const BEGUN: &str = " -->\n";
const ENDS: &str = "<!-- end of figures -->";

/// All tables by name.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub(super) struct Tables(BTreeMap<String, Table>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// Which of its figures is the best: it is printed in bold type.
    #[serde(default)]
    best: Best,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Best {
    #[default]
    Unmarked,
    Most,
    Least,
}

#[derive(Debug, Deserialize)]
enum Cell {
    /// The median of what a citation selects.
    Of(String),
    /// One median over another.
    Ratio(String, String),
    /// Words.
    Text(String),
    /// No figure is known.
    Unknown,
}

/// Why a page cannot be filled.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    #[error("{DECLARED}: {0}")]
    Declaration(#[from] ron::error::SpannedError),
    #[error("no table '{0}' is declared in {DECLARED}")]
    Undeclared(String),
    #[error("table '{0}' does not end: '{ENDS}' is missing")]
    Endless(String),
    #[error("table '{table}', row '{row}': {why}")]
    Figure { table: String, row: String, why: Unfounded },
    #[error("table '{table}', row '{row}' has {cells} cells for {columns} columns")]
    Cells { table: String, row: String, cells: usize, columns: usize },
}

impl Tables {
    /// Reads a declaration.
    ///
    /// # Errors
    /// Says where it is malformed.
    pub(super) fn parse(text: &str) -> Result<Self, TableError> {
        Ok(ron::from_str(text)?)
    }

    /// A page with each of its tables as the records have it. `root` is the folder that citations begin in, `page` is
    /// relative to it.
    ///
    /// # Errors
    /// Names the table and row that no record fills.
    pub(super) fn filled(
        &self,
        root: &Path,
        page: &Path,
        text: &str,
        records: &mut Records,
    ) -> Result<String, TableError> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEGINS) {
            let Some((name, after)) = after.split_once(BEGUN) else { break };
            let (_, after) = after.split_once(ENDS).ok_or_else(|| TableError::Endless(name.to_owned()))?;
            let table = self.0.get(name).ok_or_else(|| TableError::Undeclared(name.to_owned()))?;
            filled += before;
            filled += BEGINS;
            filled += name;
            filled += BEGUN;
            filled += &table.markdown(name, root, page, records)?;
            filled += ENDS;
            rest = after;
        }
        Ok(filled + rest)
    }
}

/// A page with empty lines in place of its tables: the records fill them, nobody writes them.
pub(super) fn without(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(BEGINS) {
        let Some((table, after)) = after.split_once(ENDS) else { break };
        left += before;
        left.extend(std::iter::repeat_n('\n', table.matches('\n').count()));
        rest = after;
    }
    left + rest
}

impl Table {
    fn markdown(&self, name: &str, root: &Path, page: &Path, records: &mut Records) -> Result<String, TableError> {
        let mut text = format!("| {} |\n|---|", self.columns.join(" | "));
        text.extend(std::iter::repeat_n("---:|", self.columns.len().saturating_sub(1)));
        text.push('\n');
        let mut cited = BTreeSet::new();
        for row in &self.rows {
            let (row_name, cells) = (row.name.clone(), row.cells.len());
            if cells + 1 != self.columns.len() {
                let columns = self.columns.len();
                return Err(TableError::Cells { table: name.to_owned(), row: row_name, cells, columns });
            }
            let failed = |why| TableError::Figure { table: name.to_owned(), row: row.name.clone(), why };
            let _ = write!(text, "| {} |", row.name);
            let values =
                row.cells.iter().map(|cell| cell.value(root, records, &mut cited)).collect::<Result<Vec<_>, _>>();
            let values = values.map_err(failed)?;
            let figures = values.iter().flatten().copied();
            let best = match row.best {
                Best::Unmarked => None,
                Best::Most => figures.max_by(f64::total_cmp),
                Best::Least => figures.min_by(f64::total_cmp),
            };
            for (cell, value) in row.cells.iter().zip(values) {
                let _ = match (cell, value) {
                    (Cell::Text(words), _) => write!(text, " {words} |"),
                    (_, None) => write!(text, " - |"),
                    (_, Some(value)) if best == Some(value) => write!(text, " **{}** |", printed(value)),
                    (_, Some(value)) => write!(text, " {} |", printed(value)),
                };
            }
            text.push('\n');
        }
        let up: PathBuf = page.parent().into_iter().flat_map(Path::components).map(|_| "..").collect();
        let links = cited.iter().map(|path| format!("[{path}](<{}>)", up.join(path).display()));
        let _ = write!(text, "\nEvery sample: {}.\n", links.collect::<Vec<_>>().join(", "));
        Ok(text)
    }
}

impl Cell {
    /// The figure, if the cell has one. Keeps the paths of the records that it is from.
    fn value(
        &self,
        root: &Path,
        records: &mut Records,
        cited: &mut BTreeSet<String>,
    ) -> Result<Option<f64>, Unfounded> {
        let mut median = |citation: &str| {
            cited.insert(citation.split(['?', '#']).next().unwrap_or_default().to_owned());
            records.median(root, citation)
        };
        match self {
            Cell::Of(citation) => median(citation).map(Some),
            Cell::Ratio(over, under) => Ok(Some(median(over)? / median(under)?)),
            Cell::Text(_) | Cell::Unknown => Ok(None),
        }
    }
}

/// A figure with three digits that count, or all of those before the point: `1.27`, `38.6`, `304`, `33,184`.
fn printed(value: f64) -> String {
    let decimals = match value.abs() {
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) =
        plain.split_once('.').map_or((&*plain, String::new()), |(whole, rest)| (whole, format!(".{rest}")));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && digit.is_ascii_digit() && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const DECLARED: &str = r#"{"speed": (columns: ["2.9B", "ours", "theirs", "answers"], rows: [
        (name: "decode (tokens/s)", best: Most, cells: [Of("r.jsonl?who=a#x"), Of("r.jsonl?who=b#x"), Text("identical")]),
        (name: "cold start (ms)", best: Least, cells: [Of("r.jsonl?who=b#y"), Ratio("r.jsonl?who=a#x", "r.jsonl?who=b#x"), Unknown]),
    ])}"#;

    fn filled(page: &str) -> Result<String, TableError> {
        let folder = tempfile::tempdir().unwrap();
        let record = "{\"who\":\"a\",\"x\":33184.4}\n{\"who\":\"b\",\"x\":540.4,\"y\":12.34}\n";
        std::fs::write(folder.path().join("r.jsonl"), record).unwrap();
        Tables::parse(DECLARED).unwrap().filled(folder.path(), Path::new("docs/p.md"), page, &mut Records::default())
    }

    #[test]
    fn records_fill_a_table_whatever_it_says() {
        let table = "| 2.9B | ours | theirs | answers |\n|---|---:|---:|---:|\n| decode (tokens/s) | **33,184** | 540 | identical |\n\
                     | cold start (ms) | **12.3** | 61.4 | - |\n\nEvery sample: [r.jsonl](<../r.jsonl>).\n";
        let page =
            |between: &str| format!("Before\n\n<!-- figures: speed -->\n{between}<!-- end of figures -->\n\nAfter 5\n");
        assert_eq!(filled(&page("")).unwrap(), page(table));
        assert_eq!(filled(&page("| 999,999 tokens/s |\n")).unwrap(), page(table));
        assert_eq!(filled("No table\n").unwrap(), "No table\n");
        assert_eq!(without(&page(table)), format!("Before\n\n{}\n\nAfter 5\n", "\n".repeat(table.lines().count() + 1)));
    }

    #[test]
    fn a_table_that_no_record_fills_is_refused_by_name() {
        let of = |page: &str| filled(page).unwrap_err().to_string();
        assert!(of("<!-- figures: other -->\n<!-- end of figures -->").contains("no table 'other'"));
        assert!(of("<!-- figures: speed -->\n").contains("'speed' does not end"));
        assert!(Tables::parse("{\"a\": (columns: [], rows: [], more: 1)}").is_err());
        let missing =
            Tables::parse(r#"{"a": (columns: ["", "x"], rows: [(name: "r", cells: [Of("no.jsonl#x")])])}"#).unwrap();
        let page = "<!-- figures: a -->\n<!-- end of figures -->";
        let error = missing.filled(Path::new(""), Path::new("p.md"), page, &mut Records::default()).unwrap_err();
        assert!(error.to_string().contains("table 'a', row 'r': "), "{error}");
        let short = Tables::parse(r#"{"a": (columns: ["", "x"], rows: [(name: "r", cells: [])])}"#).unwrap();
        let error = short.filled(Path::new(""), Path::new("p.md"), page, &mut Records::default()).unwrap_err();
        assert!(error.to_string().contains("0 cells for 2 columns"), "{error}");
    }

    #[test]
    fn figures_have_the_digits_that_count() {
        let all = [1.274, 38.64, 303.6, 5670.3, 33184.4, 1_234_567.0].map(printed);
        assert_eq!(all, ["1.27", "38.6", "304", "5,670", "33,184", "1,234,567"]);
    }
}
