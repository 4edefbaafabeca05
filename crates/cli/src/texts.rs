//! Files of texts: one a line, or JSON lines.

use std::path::Path;

/// One line of JSON: a string, or an object with a text among other things.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Line {
    Plain(String),
    Object { text: String },
}

/// Reads a file of texts. Lines are JSON where the file's name ends in `.jsonl`.
pub(crate) fn read_texts(path: &Path) -> Result<Vec<String>, String> {
    let file = wgoose_files::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let is_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("jsonl"));
    let text = |(i, line): (usize, &str)| {
        let text = match is_json {
            false => line.to_owned(),
            true => match serde_json::from_str(line) {
                Ok(Line::Plain(text) | Line::Object { text }) => text,
                Err(_) => {
                    let wants = "expected a JSON string, or an object with a string \"text\"";
                    return Err(format!("{}: line {}: {wants}", path.display(), i + 1));
                }
            },
        };
        match text.is_empty() {
            true => Err(format!("{}: line {}: the text is empty", path.display(), i + 1)),
            false => Ok(text),
        }
    };
    let texts: Vec<String> = file.lines().enumerate().map(text).collect::<Result<_, _>>()?;
    if texts.is_empty() { Err(format!("{}: there is no text in it", path.display())) } else { Ok(texts) }
}
