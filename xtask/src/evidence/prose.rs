//! Habits of prose that make a page hard to read (CONTRIBUTING.md, "Words"): pages that strangers read first have none,
//! and neither has the help of the command line.

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

/// The habits in the help of verbs, which a page has as code: descriptions may be in a column beside the options.
pub(super) fn habits_of_help(page: &str) -> Vec<(usize, Habit, String)> {
    let mut found = Vec::new();
    let mut description = Description::default();
    for (index, line) in page.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with("```") {
            found.extend(std::mem::take(&mut description).habits());
            continue;
        }
        for (column, text) in cells(line) {
            if column == description.column && !description.text.is_empty() {
                description.text += " ";
                description.text += text;
            } else {
                let begun = Description { line: index + 1, column, text: text.to_owned() };
                found.extend(std::mem::replace(&mut description, begun).habits());
            }
        }
    }
    found.extend(description.habits());
    found
}

/// The habits in the head of a module, which is Markdown behind `//!`.
pub(super) fn habits_of_head(code: &str) -> Vec<(usize, Habit, String)> {
    let head = code.lines().map_while(|line| line.strip_prefix("//!"));
    habits(&head.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect::<String>())
}

/// A piece of help: lines below each other that begin in the same column.
#[derive(Default)]
struct Description {
    line: usize,
    column: usize,
    text: String,
}

impl Description {
    fn habits(self) -> Vec<(usize, Habit, String)> {
        // clap leaves out the last full stop.
        of_block(&format!("{}.", self.text.trim_end_matches('.')), self.line)
    }
}

/// The parts of a line between gaps of two blanks and more, each with its column.
fn cells(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut column = 0;
    line.split("  ").filter_map(move |part| {
        let begins = column + part.chars().count() - part.trim_start().chars().count();
        column += part.chars().count() + 2;
        (!part.trim().is_empty()).then(|| (begins, part.trim()))
    })
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
    fn every_habit_is_found_and_plain_prose_passes() {
        let page = "# Title\n\nWhat is tuned has random weights. They lie on the disk.\n\n- a folder of its own\n\n\
                    | a | b |\n|---|---|\n| the same in figures | x |\n\n```sh\nit goes on\n```\n\nWhat is it? `lies` are code.\n\
                    The demo tunes a model with random weights; the file contains it.\n";
        let found: Vec<_> = habits(page).into_iter().map(|(line, habit, _)| (line, habit)).collect();
        assert_eq!(found, [(3, Habit::Cleft), (3, Habit::Place), (5, Habit::Padding), (9, Habit::NounLeftOut)]);
    }

    #[test]
    fn the_head_of_a_module_is_a_page_and_its_code_is_none() {
        let code = "//! Plans.\n//!\n//! They lie in a folder.\n//!\n//! ```text\n//! it goes on\n//! ```\n\n\
                    //! stands\n/// so many\nfn f() {}\n";
        let found: Vec<_> = habits_of_head(code).into_iter().map(|(line, habit, _)| (line, habit)).collect();
        assert_eq!(found, [(3, Habit::Place)]);
    }

    #[test]
    fn help_is_read_in_columns() {
        let help = "```text\nMeasure. What is read is timed.\n\nOptions:\n      --runs <N>  Runs, of which so\n\
                    \x20                 many are shown\n  -q, --quiet     What is said\n                  where nothing fails\n\
                    \x20     --out <F>   Output file\n          It lies beside\n```\n";
        let found: Vec<_> = habits_of_help(help).into_iter().map(|(line, habit, _)| (line, habit)).collect();
        assert_eq!(found, [(2, Habit::Cleft), (5, Habit::Padding), (7, Habit::Cleft), (10, Habit::Place)]);
    }
}
