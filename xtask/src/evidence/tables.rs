//! Tables of figures: a page names one between two markers, and the records fill it.
//!
//! ```markdown
//! <!-- figures: speed -->
//! (the table)
//! <!-- end of figures -->
//! ```
//!
//! A file of [`DECLARED`] says which figure of which record is in which cell.

use super::citation::{Records, Selected, Unfounded};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of declarations, a file for each page.
const DECLARED: &str = "docs/figures";

const BEGINS: &str = "<!-- figures: ";
const BEGUN: &str = " -->\n";
const ENDS: &str = "<!-- end of figures -->";

/// All tables by name.
#[derive(Debug, Default)]
pub(super) struct Tables(BTreeMap<String, Table>);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    columns: Vec<String>,
    /// The beginning that its citations share.
    #[serde(default)]
    of: String,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// The beginning that its citations share.
    #[serde(default)]
    of: String,
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
    /// The least and the most of what a citation selects.
    Range(String),
    /// One median over another.
    Ratio(String, String),
    /// The median over a number: the figure in another unit.
    Divided(String, f64),
    /// The mean of all values that a citation selects.
    Mean(String),
    /// The most of all values that a citation selects.
    Most(String),
    /// How many of all values are at most a number: `98 of 100`.
    Within(String, f64),
    /// Words.
    Text(String),
    /// No figure is known.
    Unknown,
}

/// Why a page cannot be filled.
#[derive(Debug, thiserror::Error)]
pub(super) enum TableError {
    #[error("{}: {why}", file.display())]
    Unreadable { file: PathBuf, why: std::io::Error },
    #[error("{}: {why}", file.display())]
    Declaration { file: PathBuf, why: Box<ron::error::SpannedError> },
    #[error("{}: table '{table}' is declared twice", file.display())]
    Twice { file: PathBuf, table: String },
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
    /// Reads all declarations of a repository.
    ///
    /// # Errors
    /// Names the file that cannot be read or is malformed.
    pub(super) fn read(root: &Path) -> Result<Self, TableError> {
        let folder = root.join(DECLARED);
        let unreadable = |file: &Path, why| TableError::Unreadable { file: file.to_owned(), why };
        let mut tables = Self::default();
        let entries = fs::read_dir(&folder).map_err(|why| unreadable(&folder, why))?;
        for entry in entries {
            let file = entry.map_err(|why| unreadable(&folder, why))?.path();
            let text = fs::read_to_string(&file).map_err(|why| unreadable(&file, why))?;
            tables.declare(&file, &text)?;
        }
        Ok(tables)
    }

    /// Adds the tables of a declaration.
    fn declare(&mut self, file: &Path, text: &str) -> Result<(), TableError> {
        let malformed = |why| TableError::Declaration { file: file.to_owned(), why: Box::new(why) };
        let declared: BTreeMap<String, Table> = ron::from_str(text).map_err(malformed)?;
        for (name, table) in declared {
            if self.0.contains_key(&name) {
                return Err(TableError::Twice { file: file.to_owned(), table: name });
            }
            self.0.insert(name, table);
        }
        Ok(())
    }

    /// The tables that no page of these has.
    pub(super) fn unused<'a>(&'a self, pages: &[String]) -> Vec<&'a str> {
        let is_used = |name: &str| pages.iter().any(|page| page.contains(&format!("{BEGINS}{name}{BEGUN}")));
        self.0.keys().map(String::as_str).filter(|name| !is_used(name)).collect()
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
            let of = whole(&self.of, &row.of);
            let cells: Vec<Cell> = row.cells.iter().map(|cell| cell.whole(&of)).collect();
            let citations = cells.iter().flat_map(Cell::citations);
            cited.extend(citations.filter_map(|citation| citation.split(['?', '#']).next()).map(str::to_owned));
            let figures = cells.iter().map(|cell| cell.figure(root, records)).collect::<Result<Vec<_>, _>>();
            let figures = figures.map_err(failed)?;
            let values = figures.iter().flatten().map(|figure| figure.value);
            let best = match row.best {
                Best::Unmarked => None,
                Best::Most => values.max_by(f64::total_cmp),
                Best::Least => values.min_by(f64::total_cmp),
            };
            for (cell, figure) in cells.iter().zip(figures) {
                let _ = match (cell, figure) {
                    (Cell::Text(words), _) => write!(text, " {words} |"),
                    (_, None) => write!(text, " - |"),
                    (_, Some(figure)) if best == Some(figure.value) => write!(text, " **{}** |", figure.printed),
                    (_, Some(figure)) => write!(text, " {} |", figure.printed),
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

/// A figure of a cell.
struct Figure {
    /// The value that decides which figure of a row is the best.
    value: f64,
    printed: String,
}

impl Figure {
    fn one(value: f64) -> Self {
        Self { value, printed: printed(value) }
    }

    /// A range whose ends are printed alike is printed once.
    fn range(range: &Selected) -> Self {
        let (least, most) = (printed(range.least), printed(range.most));
        let printed = if least == most { least } else { format!("{least} to {most}") };
        Self { value: range.median, printed }
    }
}

/// A citation that begins with `&` or `#` goes behind a shared beginning.
fn whole(of: &str, citation: &str) -> String {
    if citation.is_empty() || citation.starts_with(['&', '#']) {
        format!("{of}{citation}")
    } else {
        citation.to_owned()
    }
}

impl Cell {
    /// The cell with whole citations.
    fn whole(&self, of: &str) -> Self {
        match self {
            Self::Of(citation) => Self::Of(whole(of, citation)),
            Self::Range(citation) => Self::Range(whole(of, citation)),
            Self::Ratio(over, under) => Self::Ratio(whole(of, over), whole(of, under)),
            Self::Divided(over, number) => Self::Divided(whole(of, over), *number),
            Self::Mean(citation) => Self::Mean(whole(of, citation)),
            Self::Most(citation) => Self::Most(whole(of, citation)),
            Self::Within(citation, limit) => Self::Within(whole(of, citation), *limit),
            Self::Text(words) => Self::Text(words.clone()),
            Self::Unknown => Self::Unknown,
        }
    }

    /// The figure, if the cell has one.
    fn figure(&self, root: &Path, records: &mut Records) -> Result<Option<Figure>, Unfounded> {
        let mut select = |citation: &str| records.select(root, citation);
        match self {
            Cell::Of(citation) => Ok(Some(Figure::one(select(citation)?.median))),
            Cell::Range(citation) => Ok(Some(Figure::range(&select(citation)?))),
            Cell::Ratio(over, under) => Ok(Some(Figure::one(select(over)?.median / select(under)?.median))),
            Cell::Divided(over, number) => Ok(Some(Figure::one(select(over)?.median / number))),
            Cell::Mean(citation) => {
                let values = records.all(root, citation)?;
                Ok(Some(Figure::one(values.iter().sum::<f64>() / values.len() as f64)))
            }
            Cell::Most(citation) => Ok(records.all(root, citation)?.last().copied().map(Figure::one)),
            Cell::Within(citation, limit) => {
                let values = records.all(root, citation)?;
                let within = values.iter().filter(|value| *value <= limit).count();
                Ok(Some(Figure { value: within as f64, printed: format!("{within} of {}", values.len()) }))
            }
            Cell::Text(_) | Cell::Unknown => Ok(None),
        }
    }

    fn citations(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Cell::Ratio(over, under) => (Some(over), Some(under)),
            Cell::Of(citation)
            | Cell::Range(citation)
            | Cell::Divided(citation, _)
            | Cell::Mean(citation)
            | Cell::Most(citation)
            | Cell::Within(citation, _) => (Some(citation), None),
            Cell::Text(_) | Cell::Unknown => (None, None),
        };
        first.into_iter().chain(second).map(String::as_str)
    }
}

/// A figure with three digits that count, or all digits before the point: `0.997`, `1.27`, `38.6`, `304`, `33,184`.
/// Figures near 0 have two: `3.2e-3`.
fn printed(value: f64) -> String {
    if value != 0.0 && value.abs() < 0.01 {
        return format!("{value:.1e}");
    }
    let decimals = match value.abs() {
        v if v < 1.0 => 3,
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

    const SPEED: &str = r#"{"speed": (columns: ["2.9B", "ours", "theirs", "answers"], rows: [
        (name: "decode (tokens/s)", best: Most, cells: [Of("r.jsonl?who=a#x"), Of("r.jsonl?who=b#x"), Text("identical")]),
        (name: "cold start (ms)", best: Least, cells: [Of("r.jsonl?who=b#y"), Ratio("r.jsonl?who=a#x", "r.jsonl?who=b#x"), Unknown]),
        (name: "ends", cells: [Range("r.jsonl#x"), Range("r.jsonl#y"), Divided("r.jsonl?who=b#x", 1e3)]),
        (name: "all", cells: [Mean("r.jsonl#x"), Most("r.jsonl#x"), Within("r.jsonl#x", 540.4)]),
    ])}"#;

    fn declared(text: &str) -> Result<Tables, TableError> {
        let mut tables = Tables::default();
        tables.declare(Path::new("speed.ron"), text)?;
        Ok(tables)
    }

    fn filled(page: &str) -> Result<String, TableError> {
        let folder = tempfile::tempdir().unwrap();
        let record = "{\"who\":\"a\",\"x\":33184.4}\n{\"who\":\"b\",\"x\":540.4,\"y\":12.34}\n";
        fs::write(folder.path().join("r.jsonl"), record).unwrap();
        let tables = declared(SPEED).unwrap();
        tables.filled(folder.path(), Path::new("docs/p.md"), page, &mut Records::default())
    }

    #[test]
    fn records_overwrite_the_content_of_a_table() {
        let table = "| 2.9B | ours | theirs | answers |\n|---|---:|---:|---:|\n| decode (tokens/s) | **33,184** | 540 | identical |\n\
                     | cold start (ms) | **12.3** | 61.4 | - |\n\
                     | ends | 540 to 33,184 | 12.3 | 0.540 |\n\
                     | all | 16,862 | 33,184 | 1 of 2 |\n\nEvery sample: [r.jsonl](<../r.jsonl>).\n";
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
        assert!(declared("{\"a\": (columns: [], rows: [], more: 1)}").is_err());
        let missing =
            declared(r#"{"a": (columns: ["", "x"], rows: [(name: "r", cells: [Of("no.jsonl#x")])])}"#).unwrap();
        let page = "<!-- figures: a -->\n<!-- end of figures -->";
        let error = missing.filled(Path::new(""), Path::new("p.md"), page, &mut Records::default()).unwrap_err();
        assert!(error.to_string().contains("table 'a', row 'r': "), "{error}");
        let short = declared(r#"{"a": (columns: ["", "x"], rows: [(name: "r", cells: [])])}"#).unwrap();
        let error = short.filled(Path::new(""), Path::new("p.md"), page, &mut Records::default()).unwrap_err();
        assert!(error.to_string().contains("0 cells for 2 columns"), "{error}");
    }

    #[test]
    fn a_citation_continues_the_citations_of_its_row_and_table() {
        assert_eq!(whole("r.jsonl?a=1", "&b=2#x"), "r.jsonl?a=1&b=2#x");
        assert_eq!(whole("r.jsonl?a=1", "#x"), "r.jsonl?a=1#x");
        assert_eq!(whole("r.jsonl?a=1", "s.jsonl#x"), "s.jsonl#x");
        let row = r##"(name: "r", of: "&who=b", cells: [Of("#y")])"##;
        let text = format!(r#"{{"a": (columns: ["", "x"], of: "r.jsonl?", rows: [{row}])}}"#);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("r.jsonl"), "{\"who\":\"a\",\"y\":1}\n{\"who\":\"b\",\"y\":2}\n").unwrap();
        let page = "<!-- figures: a -->\n<!-- end of figures -->";
        let tables = declared(&text).unwrap();
        let filled = tables.filled(folder.path(), Path::new("p.md"), page, &mut Records::default()).unwrap();
        assert!(filled.contains("| r | 2.00 |"), "{filled}");
    }

    #[test]
    fn a_table_is_declared_once_and_used() {
        let mut tables = declared(SPEED).unwrap();
        let twice = tables.declare(Path::new("more.ron"), SPEED).unwrap_err().to_string();
        assert_eq!(twice, "more.ron: table 'speed' is declared twice");
        assert_eq!(tables.unused(&["<!-- figures: speed2 -->\n".to_owned()]), ["speed"]);
        assert_eq!(tables.unused(&["# A\n\n<!-- figures: speed -->\n".to_owned()]), [""; 0]);
    }

    #[test]
    fn figures_have_the_digits_that_count() {
        let all = [1.36e-7, 0.0032, 0.0, 0.9974, 1.274, 38.64, 303.6, 5670.3, 33184.4, 1_234_567.0].map(printed);
        assert_eq!(all, ["1.4e-7", "3.2e-3", "0.000", "0.997", "1.27", "38.6", "304", "5,670", "33,184", "1,234,567"]);
    }
}
