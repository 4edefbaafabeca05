//! Links between pages: each leads to a file that is there and to a heading that it has.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

/// The headings of pages that were read, as anchors.
#[derive(Default)]
pub(super) struct Anchors(HashMap<PathBuf, BTreeSet<String>>);

impl Anchors {
    /// The links of a page that lead nowhere, each with its line.
    pub(super) fn broken(&mut self, page: &Path, text: &str) -> Vec<(usize, String)> {
        let mut broken = Vec::new();
        for (event, range) in parser(text).into_offset_iter() {
            let target = match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => dest_url.into_string(),
                _ => continue,
            };
            // Addresses are not visited.
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((&*target, None), |(path, anchor)| (path, Some(anchor)));
            let file = match path {
                "" => page.to_owned(),
                path => page.parent().unwrap_or(Path::new("")).join(path),
            };
            let has = |anchor: &str| file.extension().is_none_or(|e| e != "md") || self.of(&file).contains(anchor);
            if !file.exists() || !anchor.is_none_or(has) {
                broken.push((text[..range.start].matches('\n').count() + 1, target));
            }
        }
        broken
    }

    fn of(&mut self, page: &Path) -> &BTreeSet<String> {
        let read = || anchors(&fs::read_to_string(page).unwrap_or_default());
        self.0.entry(page.to_owned()).or_insert_with(read)
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES)
}

/// What the headings of a page are called in links: small letters, spaces as hyphens, no other signs.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in parser(text) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take()),
            Event::Text(text) | Event::Code(text) => {
                for c in text.chars().flat_map(char::to_lowercase) {
                    match (&mut heading, c) {
                        (Some(heading), ' ') => heading.push('-'),
                        (Some(heading), c) if c.is_alphanumeric() || "-_".contains(c) => heading.push(c),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.md");
        fs::write(folder.path().join("other.md"), "# Its `wgoose tune`: one, two\n").unwrap();
        let text = "# Here\n\n[a](other.md) [b](#here) [c](other.md#its-wgoose-tune-one-two) [d](https://x.example/y)\n\n\
                    [e](none.md) [f](#there)\n[g](other.md#here) ![h](none.svg)\n";
        fs::write(&page, text).unwrap();
        let broken = Anchors::default().broken(&page, text);
        let wanted = [(5, "none.md"), (5, "#there"), (6, "other.md#here"), (6, "none.svg")];
        assert_eq!(broken, wanted.map(|(line, target)| (line, target.to_owned())));
    }
}
