//! A page without its generated tables: no figure on it claims a speed, unless it names a source on the web.

use super::number::{Printed, names_rate, names_unit};
use super::picture::shows_speeds;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
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
    #[error("claims a speed: declare it in a table of docs/figures, or put a link to its source on the web around it")]
    Unsourced,
    #[error("claims a speed in a block of code: declare it in a table of docs/figures")]
    InCode,
    #[error("is a picture of speeds that no check draws again: declare a table in docs/figures")]
    Picture,
}

/// What a page has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Page {
    /// Figures that name a source on the web.
    pub(super) elsewhere: usize,
    pub(super) findings: Vec<Finding>,
}

/// A link: where it leads, and where its text begins and ends in that of its block.
struct Link {
    target: String,
    from: usize,
    to: usize,
}

impl Link {
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

/// Looks for claims of speed on a page.
///
/// # Errors
/// A picture that cannot be read.
pub(super) fn check(path: &Path, text: &str) -> std::io::Result<Page> {
    let mut reader = Reader { text, page: Page::default(), caption: false };
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
                code = Some(Code::of(&kind));
            }
            Event::End(TagEnd::CodeBlock) => code = None,
            Event::Start(Tag::Link { dest_url, .. }) => {
                let from = block.text.len();
                block.links.push(Link { target: dest_url.into_string(), from, to: from });
            }
            Event::End(TagEnd::Link) => {
                let to = block.text.len();
                block.links.last_mut().into_iter().for_each(|link| link.to = to);
            }
            Event::Start(Tag::Image { dest_url, .. }) => pictures.push((range.start, dest_url.into_string())),
            Event::Text(text) => match code {
                Some(Code::Printed) => {}
                Some(code) => reader.code(&text, range.start, code == Code::Language),
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
        if shows_speeds(&drawn) {
            reader.find(at, &picture, Why::Picture);
        }
    }
    Ok(reader.page)
}

/// A block of code.
#[derive(Clone, Copy, PartialEq)]
enum Code {
    /// A program, a command, a file.
    Language,
    Text,
    /// ```` ```console ````: an example of what a command prints, which depends on the reader's machine and claims
    /// nothing.
    Printed,
}

impl Code {
    fn of(kind: &CodeBlockKind<'_>) -> Self {
        match kind {
            CodeBlockKind::Fenced(language) if &**language == "console" => Code::Printed,
            CodeBlockKind::Fenced(language) if !matches!(&**language, "" | "text") => Code::Language,
            _ => Code::Text,
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    page: Page,
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
    }

    /// Where a heading or the paragraph before speaks of speed, all numbers claim one but for the first column; where
    /// a first column does, the numbers of its row.
    fn table(&mut self, rows: &[Vec<Block>]) {
        let Some((head, body)) = rows.split_first() else { return };
        let captioned = std::mem::take(&mut self.caption);
        let speaks = |row: &[Block]| row.iter().any(|cell| names_unit(&cell.text));
        head.iter().for_each(|cell| self.prose(cell));
        for row in body {
            let of_speed = captioned || speaks(head) || speaks(&row[..row.len().min(1)]);
            for (column, cell) in row.iter().enumerate() {
                match of_speed && column > 0 {
                    true => self.claims(cell, &Printed::all(&cell.text)),
                    false => self.prose(cell),
                }
            }
        }
    }

    /// Each claim has a link to a source on the web.
    fn claims(&mut self, block: &Block, claims: &[Printed]) {
        for claim in claims {
            let figure = claim.of(&block.text);
            let link = block.links.iter().find(|link| claim.is_within(link.from, link.to));
            match link {
                Some(link) if link.is_elsewhere() => self.page.elsewhere += 1,
                _ => self.find(block.at, figure, Why::Unsourced),
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn checked(page: &str) -> Page {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("speed.svg"), "<svg><text x=\"1\">2.9B, tokens/s</text><text>770</text></svg>")
            .unwrap();
        fs::write(folder.path().join("loss.svg"), "<svg><text>bits per byte</text><text>0.9</text></svg>").unwrap();
        check(&folder.path().join("README.md"), page).unwrap()
    }

    fn found(page: &str) -> Vec<(usize, String)> {
        checked(page).findings.into_iter().map(|finding| (finding.line, finding.figure)).collect()
    }

    #[test]
    fn a_page_that_claims_no_speed_or_names_its_source_passes() {
        let page = "# One\n\n![loss](loss.svg)\n\n| | tokens/s |\n|---|---:|\n| a peer | [193](https://example.org/bench) |\n\n\
            A warm-up of `250 ms`, 512 tokens.\n\n```sh\nwgoose tune --budget 300   # 300 s\n```\n";
        assert_eq!(checked(page), Page { elsewhere: 1, findings: Vec::new() });
    }

    #[test]
    fn a_figure_without_a_source_is_found_with_its_line() {
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
        assert_eq!(found("`1.84 x the default`, `770 tokens/s`, `20 s`"), [(1, "1.84".into()), (1, "770".into())]);
        assert_eq!(found("```text\nwriting, tokens/s   46.5   54.2\n```").len(), 1);
        assert_eq!(found("```console\nwriting, tokens/s   46.5   54.2\n```").len(), 0, "an example of an output");
        assert_eq!(found("Of 8 files, 3 lines.\n\n| a | n |\n|---|---|\n| b | 5 |"), []);
    }

    #[test]
    fn a_picture_of_speeds_is_found() {
        assert_eq!(found("Fast.\n\n![speed](speed.svg)"), [(3, "speed.svg".into())]);
    }
}
