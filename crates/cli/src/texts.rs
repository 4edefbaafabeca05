//! Files of texts: one a line, or JSON lines.

use serde_json::Value;
use std::path::Path;

/// A text of a file.
pub(crate) struct Text {
    pub(crate) text: String,
    /// What the file calls it.
    pub(crate) id: Option<Value>,
}

/// One line of JSON: a string, or an object with a text among other things.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Line {
    Plain(String),
    Object {
        text: String,
        #[serde(default)]
        id: Option<Value>,
    },
}

/// Reads a file of texts. Lines are JSON where the file's name ends in `.jsonl`. Lines of nothing but blanks are left out
/// if they `may_be_blank`, and else refused, as empty texts are.
pub(crate) fn read_texts(path: &Path, may_be_blank: bool) -> Result<Vec<Text>, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let file = wgoose_files::read_text(path).map_err(|e| fail(&e))?;
    let file = String::from_utf8(file).map_err(|e| fail(&e))?;
    let file = file.strip_prefix('\u{feff}').unwrap_or(&file);
    let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
    let text = |(i, line): (usize, &str)| {
        let text = match is_json {
            false => Text { text: line.to_owned(), id: None },
            true => match serde_json::from_str(line) {
                Ok(Line::Plain(text)) => Text { text, id: None },
                Ok(Line::Object { text, id }) => Text { text, id },
                Err(_) if line.trim().is_empty() => Text { text: String::new(), id: None },
                Err(_) => {
                    let wants = "expected a JSON string, or an object with a string \"text\"";
                    return Err(format!("{}: line {}: {wants}", path.display(), i + 1));
                }
            },
        };
        match text.text.is_empty() {
            true => Err(format!("{}: line {}: the text is empty", path.display(), i + 1)),
            false => Ok(text),
        }
    };
    let lines = file.lines().enumerate().filter(|(_, line)| !(may_be_blank && line.trim().is_empty()));
    let texts: Vec<Text> = lines.map(text).collect::<Result<_, _>>()?;
    if texts.is_empty() { Err(format!("{}: there is no text in it", path.display())) } else { Ok(texts) }
}
