//! Where prompts come from.

use super::Args;
use crate::failure::{Failure, WrongUsage};
use crate::texts::read_texts;
use serde_json::Value;
use std::io::{IsTerminal, Read};
use std::path::Path;

/// The mark with which some editors begin a file of UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text to continue.
pub(super) struct Prompt {
    pub(super) text: Vec<u8>,
    /// What the file of prompts calls it.
    pub(super) id: Option<Value>,
}

impl Args {
    /// The prompts; never none.
    pub(super) fn prompts(&self) -> Result<Vec<Prompt>, Failure> {
        if let Some(file) = &self.prompts {
            let text = |text: crate::texts::Text| Prompt { text: text.text.into_bytes(), id: text.id };
            let prompts: Vec<Prompt> = read_texts(file, true)?.into_iter().map(text).collect();
            return Ok(prompts);
        }
        if !self.prompt.is_empty() {
            return Ok(self.prompt.iter().map(|text| Prompt { text: text.clone().into_bytes(), id: None }).collect());
        }
        let text = match self.file.as_deref() {
            Some(file) if file != Path::new("-") => {
                wgoose_files::read_text(file).map_err(|e| format!("{}: {e}", file.display()))?
            }
            None if std::io::stdin().is_terminal() => return Err(none()),
            _ => {
                let mut text = Vec::new();
                std::io::stdin().lock().read_to_end(&mut text)?;
                wgoose_files::as_utf8(text)?
            }
        };
        let text = trimmed(&text);
        match (&self.file, text.is_empty()) {
            (None, true) => Err(none()),
            _ => Ok(vec![Prompt { text: text.to_vec(), id: None }]),
        }
    }
}

fn none() -> Failure {
    WrongUsage(
        "there is no prompt: give --prompt TEXT, --file FILE or --prompts FILE, or a text on standard input".into(),
    )
    .into()
}

/// Without the mark at its beginning, and without the end of its last line.
fn trimmed(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.strip_suffix(b"\r").unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::trimmed;

    #[test]
    fn the_last_line_loses_its_end_and_no_other_does() {
        assert_eq!(trimmed(b"\xef\xbb\xbfa\n\nb\r\n"), b"a\n\nb");
        assert_eq!((trimmed(b"a\n\n"), trimmed(b""), trimmed(b"\n")), (&b"a\n"[..], &b""[..], &b""[..]));
    }
}
