//! A page: which of its figures claim a speed, and what they cite.

use super::citation::{Records, Unfounded};
use super::number::{Printed, names_rate, names_unit};
use super::picture::labels;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeSet;
use std::path::Path;

/// A figure that is not founded.
#[derive(Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) line: usize,
    pub(super) figure: String,
    pub(super) why: Why,
}

/// What is wrong with a figure.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum Why {
    #[error("claims a speed and cites no record: put a link around it, [figure](FILE.jsonl?FIELD=VALUE#FIELD)")]
    Unlinked,
    #[error("claims a speed in a block of code, where nothing can be cited: make it a table, or leave it out")]
    InCode,
    #[error("stands in the picture {0}, and the page cites no such figure")]
    InPicture(String),
    #[error("has a bar in the picture {0} that is not as long as those of its group say")]
    OtherBar(String),
    #[error("a citation without a figure")]
    NoFigure,
    #[error(transparent)]
    Unfounded(#[from] Unfounded),
}

/// What a page has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    /// Figures that records have.
    pub(super) founded: usize,
    /// Figures that name a source on the web.
    pub(super) elsewhere: usize,
    pub(super) findings: Vec<Finding>,
}

/// A link: what it cites, and where its text begins and ends in that of its block.
struct Link {
    target: String,
    title: String,
    from: usize,
    to: usize,
}

impl Link {
    fn is_citation(&self) -> bool {
        self.target.contains('#') && self.target.contains(".json")
    }

    fn is_elsewhere(&self) -> bool {
        self.target.starts_with("https://")
    }
}

/// The text of a paragraph, a heading, an item or a cell. Code is a backquote in it, as it claims nothing.
#[derive(Default)]
struct Block {
    text: String,
    links: Vec<Link>,
    /// Of the page, in bytes.
    at: usize,
}

/// Holds a page against the records that it cites.
///
/// # Errors
/// A picture that cannot be read.
pub(super) fn check(path: &Path, text: &str, records: &mut Records) -> std::io::Result<Page> {
    let mut reader = Reader { path, text, records, page: Page::default(), figures: BTreeSet::new(), caption: false };
    let (mut block, mut table, mut pictures) = (Block::default(), Vec::<Vec<Block>>::new(), Vec::new());
    let mut code = None;
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::Item | Tag::TableCell) => {
                reader.prose(&std::mem::take(&mut block));
                block.at = range.start;
            }
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item) => {
                reader.prose(&std::mem::take(&mut block));
            }
            Event::Start(Tag::TableHead | Tag::TableRow) => table.push(Vec::new()),
            Event::End(TagEnd::TableCell) => {
                table.last_mut().into_iter().for_each(|row| row.push(std::mem::take(&mut block)));
            }
            Event::End(TagEnd::Table) => reader.table(&std::mem::take(&mut table)),
            Event::Start(Tag::CodeBlock(kind)) => {
                code = Some(matches!(kind, CodeBlockKind::Fenced(language) if !matches!(&*language, "" | "text")));
            }
            Event::End(TagEnd::CodeBlock) => code = None,
            Event::Start(Tag::Link { dest_url, title, .. }) => {
                let from = block.text.len();
                block.links.push(Link { target: dest_url.into_string(), title: title.into_string(), from, to: from });
            }
            Event::End(TagEnd::Link) => {
                let to = block.text.len();
                block.links.last_mut().into_iter().for_each(|link| link.to = to);
            }
            Event::Start(Tag::Image { dest_url, .. }) => pictures.push((range.start, dest_url.into_string())),
            Event::Text(text) => match code {
                Some(of_a_language) => reader.code(&text, range.start, of_a_language),
                None => block.text.push_str(&text),
            },
            Event::Code(code) => {
                reader.code(&code, range.start, true);
                block.text.push('`');
            }
            Event::SoftBreak | Event::HardBreak => block.text.push(' '),
            _ => {}
        }
    }
    for (at, picture) in pictures.into_iter().filter(|(_, picture)| picture.ends_with(".svg")) {
        let drawn = std::fs::read_to_string(path.parent().unwrap_or(Path::new("")).join(&picture))?;
        reader.picture(&picture, &drawn, at);
    }
    Ok(reader.page)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    records: &'a mut Records,
    page: Page,
    /// Those that were held against something, as they are printed.
    figures: BTreeSet<String>,
    /// Whether the paragraph just before speaks of speed: it may be what says the unit of a table.
    caption: bool,
}

impl Reader<'_> {
    fn find(&mut self, at: usize, figure: &str, why: Why) {
        let line = self.text[..at].matches('\n').count() + 1;
        self.page.findings.push(Finding { line, figure: figure.to_owned(), why });
    }

    fn prose(&mut self, block: &Block) {
        if !block.text.trim().is_empty() {
            self.caption = names_unit(&block.text);
        }
        self.claims(block, &Printed::claims(&block.text));
        self.citations(block);
    }

    /// Where a heading or the paragraph before speaks of speed, all numbers do but those of the first column; where that does, those
    /// of its row.
    fn table(&mut self, rows: &[Vec<Block>]) {
        let Some((head, body)) = rows.split_first() else { return };
        let captioned = std::mem::take(&mut self.caption);
        let speaks = |row: &[Block]| row.iter().any(|cell| names_unit(&cell.text));
        head.iter().for_each(|cell| self.prose(cell));
        for row in body {
            let of_speed = captioned || speaks(head) || speaks(&row[..row.len().min(1)]);
            for (column, cell) in row.iter().enumerate() {
                match of_speed && column > 0 {
                    true => {
                        self.claims(cell, &Printed::all(&cell.text));
                        self.citations(cell);
                    }
                    false => self.prose(cell),
                }
            }
        }
    }

    /// Each claim stands in a link that cites.
    fn claims(&mut self, block: &Block, claims: &[Printed]) {
        for claim in claims {
            let figure = claim.of(&block.text);
            let link = block.links.iter().find(|link| claim.is_within(link.from, link.to));
            match link {
                Some(link) if link.is_citation() => {}
                Some(link) if link.is_elsewhere() => {
                    self.page.elsewhere += 1;
                    self.figures.insert(figure.to_owned());
                }
                _ => self.find(block.at, figure, Why::Unlinked),
            }
        }
    }

    /// Each citation has the figures of its link, claims or not.
    fn citations(&mut self, block: &Block) {
        for link in block.links.iter().filter(|link| link.is_citation()) {
            let said = &block.text[link.from..link.to];
            let figures = Printed::all(said);
            if figures.is_empty() {
                self.find(block.at, said, Why::NoFigure);
                continue;
            }
            match self.records.hold(self.path, said, &link.target, &link.title) {
                Err(why) => self.find(block.at, said, why.into()),
                Ok(()) => {
                    self.page.founded += figures.len();
                    self.figures.extend(figures.iter().map(|figure| figure.of(said).to_owned()));
                }
            }
        }
    }

    /// In a language numbers are arguments, and times settings; a rate or a factor is a claim all the same.
    fn code(&mut self, text: &str, at: usize, of_a_language: bool) {
        for line in text.lines() {
            let mut claims = Printed::claims(line);
            if of_a_language {
                claims.retain(|claim| claim.is_rate(line));
            } else if claims.is_empty() && names_rate(line) {
                claims = Printed::all(line);
            }
            if let Some(claim) = claims.first() {
                self.find(at, claim.of(line), Why::InCode);
            }
        }
    }

    /// Figures that a picture shows.
    fn picture(&mut self, name: &str, drawn: &str, at: usize) {
        for label in labels(drawn) {
            if !self.figures.contains(label.text) {
                self.find(at, label.text, Why::InPicture(name.to_owned()));
            }
            if !label.has_its_bar {
                self.find(at, label.text, Why::OtherBar(name.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const RECORD: &str = "{\"arm\":\"tuned\",\"tokens_per_s\":770.3,\"ms\":[330.5,340.1]}\n{\"arm\":\"default\",\"tokens_per_s\":381.0}\n";
    const README: &str = "# One\n\n![speed](speed.svg)\n\nIt writes [770][tuned] tokens/s, [2.02][gain] x the default.\n\n\
        | | tokens/s | runs |\n|---|---:|---|\n| tuned, 1.5B | **[770][tuned]** | - |\n| a peer | [193](https://example.org/bench) | - |\n\n\
        A warm-up of `250 ms`, 512 tokens.\n\n```sh\nwgoose tune --budget 300   # 300 s\n```\n\n\
        [tuned]: r.jsonl?arm=tuned#tokens_per_s\n[gain]: r.jsonl?arm=tuned#tokens_per_s \"/ r.jsonl?arm=default#tokens_per_s\"\n";

    fn checked(readme: &str) -> Page {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("r.jsonl"), RECORD).unwrap();
        fs::write(folder.path().join("speed.svg"), "<svg><text x=\"1\">2.9B, tokens/s</text><text>770</text></svg>")
            .unwrap();
        check(&folder.path().join("README.md"), readme, &mut Records::default()).unwrap()
    }

    fn found(readme: &str) -> Vec<(usize, String)> {
        checked(readme).findings.into_iter().map(|finding| (finding.line, finding.figure)).collect()
    }

    #[test]
    fn a_page_with_a_record_for_each_figure_passes() {
        assert_eq!(checked(README), Page { founded: 3, elsewhere: 1, findings: Vec::new() });
    }

    /// Of every figure that cites a record.
    #[test]
    fn a_page_with_any_digit_changed_fails() {
        for (from, to) in
            [("writes [770]", "writes [771]"), ("[2.02]", "[2.03]"), ("**[770]", "**[780]"), ("[2.02]", "[20.2]")]
        {
            assert!(README.contains(from), "{from}");
            assert_eq!(found(&README.replace(from, to)).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn figures_without_a_record_are_found_where_they_stand() {
        assert_eq!(
            found("Fast.\n\nIt writes 770 tokens/s, in 2 to 3 ms."),
            [(3, "770".into()), (3, "2".into()), (3, "3".into())]
        );
        assert_eq!(found("| a | tokens/s |\n|---|---|\n| 8 of 9 | 770 |"), [(3, "770".into())]);
        assert_eq!(found("| a | tokens/s | of all |\n|---|---|---|\n| b | - | 91 % |"), [(3, "91".into())]);
        assert_eq!(found("| tokens/s | a |\n|---|---|\n| b | 5 |"), [(3, "5".into())]);
        assert_eq!(found("In ms:\n\n| a | b |\n|---|---|\n| c | 5 |"), [(5, "5".into())]);
        assert_eq!(found("- one\n- 1.5 x as fast"), [(2, "1.5".into())]);
        assert_eq!(found("## Now 3 ms"), [(1, "3".into())]);
        assert_eq!(found("[770 tokens/s](r.jsonl)"), [(1, "770".into())]);
        assert_eq!(found("[much](r.jsonl#tokens_per_s)"), [(1, "much".into())]);
        assert_eq!(found("`1.84 x the default`, `770 tokens/s`, `20 s`"), [(1, "1.84".into()), (1, "770".into())]);
        assert_eq!(found("```text\nwriting, tokens/s   46.5   54.2\n```").len(), 1);
        assert_eq!(found("Of 8 files, 3 lines.\n\n| a | n |\n|---|---|\n| b | 5 |"), []);
    }

    #[test]
    fn a_picture_has_the_figures_of_its_page() {
        assert_eq!(found("![speed](speed.svg)"), [(1, "770".into())]);
    }
}
