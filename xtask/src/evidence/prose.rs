//! Habits of prose that make a page hard to read (CONTRIBUTING.md, "Words"): pages that strangers read first have none.

use super::tables;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A habit and the words that give it away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// A sentence whose subject is a clause: name the thing.
    Cleft,
    /// A verb of place for what is nowhere: is, has, contains, stores.
    Place,
    /// Words for an adjective or a verb.
    Padding,
    /// A sentence without a noun: repeat it.
    NounLeftOut,
}

impl Habit {
    /// What to do.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Habit::Cleft => "begins with 'What': make the thing the subject",
            Habit::Place => "a verb of place for what has none: is, has, contains, stores",
            Habit::Padding => "an adjective or a verb will do",
            Habit::NounLeftOut => "repeat the noun",
        }
    }
}

/// Words that give a habit away, in small letters, between words.
const WORDS: [(Habit, &[&str]); 3] = [
    (Habit::Place, &["lies", "lie", "stands", "stand"]),
    (Habit::Padding, &["of its own", "of their own", "of one's own", "so many", "goes on", "go on"]),
    (Habit::NounLeftOut, &["the same in", "those of"]),
];

/// The habits in a page, each with its line and its sentence. Code and generated tables have none.
pub(super) fn habits(page: &str) -> Vec<(usize, Habit, String)> {
    let page = tables::without(page);
    let mut found = Vec::new();
    let (mut text, mut line, mut is_code) = (String::new(), 1, false);
    for (event, range) in Parser::new_ext(&page, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => is_code = true,
            Event::End(TagEnd::CodeBlock) => is_code = false,
            Event::Start(Tag::Paragraph | Tag::Item | Tag::TableCell | Tag::Heading { .. }) => {
                found.extend(of_block(&std::mem::take(&mut text), line));
                line = page[..range.start].matches('\n').count() + 1;
            }
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell | TagEnd::Heading(_)) => {
                found.extend(of_block(&std::mem::take(&mut text), line));
            }
            Event::Text(part) if !is_code => text += &part,
            Event::Code(_) => text.push('`'),
            Event::SoftBreak | Event::HardBreak => text.push(' '),
            _ => {}
        }
    }
    found
}

fn of_block(text: &str, line: usize) -> Vec<(usize, Habit, String)> {
    let mut found = Vec::new();
    for sentence in text.split_inclusive(['.', '?', '!', ':', ';']).map(str::trim) {
        let small = format!(" {} ", sentence.to_lowercase().replace([',', '.', ';', ':', '(', ')'], " "));
        // A question may begin so, and so may a title.
        if sentence.starts_with("What ") && sentence.ends_with(['.', ':', ';']) {
            found.push((line, Habit::Cleft, sentence.to_owned()));
        }
        for (habit, words) in WORDS {
            if words.iter().any(|words| small.contains(&format!(" {words} "))) {
                found.push((line, habit, sentence.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_habit_is_found_and_plain_prose_is_not() {
        let page = "# Title\n\nWhat is tuned has random weights. They lie on the disk.\n\n- a folder of its own\n\n\
                    | a | b |\n|---|---|\n| the same in figures | x |\n\n```sh\nit goes on\n```\n\nWhat is it? `lies` are code.\n\
                    The demo tunes a model with random weights; the file contains it.\n";
        let found: Vec<_> = habits(page).into_iter().map(|(line, habit, _)| (line, habit)).collect();
        assert_eq!(found, [(3, Habit::Cleft), (3, Habit::Place), (5, Habit::Padding), (9, Habit::NounLeftOut)]);
    }
}
