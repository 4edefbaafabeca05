//! `wgoose tokenize`

use crate::failure::{Failure, WrongUsage};
use crate::options::vocabulary_choice;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use wgoose_loader::Model;
use wgoose_session::VocabularyChoice;

/// Convert text to token ids, or token ids to text.
///
/// Uses the vocabulary of --vocab or --model, else World. Token ids are printed as a JSON list, the input of `dev
/// logits` and `dev trace`.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose tokenize \"The goose flies\"
  wgoose tokenize --file text.txt > ids.json
  wgoose tokenize --pieces \"The goose flies\"
  wgoose tokenize --ids ids.json")]
pub(crate) struct Args {
    /// Text to tokenize. Default: standard input.
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Read the text from this file, to its last byte; - is standard input.
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Print the text of the token ids in this file (a JSON list).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "file", "pieces", "count"])]
    ids: Option<PathBuf>,
    /// Print one token per line: its id, and its text as a JSON string.
    #[arg(long, conflicts_with = "count")]
    pieces: bool,
    /// Print the number of tokens.
    #[arg(long)]
    count: bool,
    /// Use the vocabulary of this model file.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Use the vocabulary in this file (each line an id, a Python literal and its length), or `world`.
    #[arg(long, value_name = "FILE|world", value_parser = vocabulary_choice())]
    vocab: Option<VocabularyChoice>,
}

impl Args {
    fn text(&self) -> Result<Vec<u8>, Failure> {
        match (&self.text, self.file.as_deref()) {
            (Some(text), _) => Ok(text.clone().into_bytes()),
            (None, Some(file)) if file != Path::new("-") => {
                Ok(wgoose_files::read_text(file).map_err(|e| format!("{}: {e}", file.display()))?)
            }
            (None, None) if std::io::stdin().is_terminal() => {
                Err(WrongUsage("there is no text: give it, or --file FILE, or one on standard input".into()).into())
            }
            _ => {
                let mut text = Vec::new();
                std::io::stdin().lock().read_to_end(&mut text)?;
                Ok(wgoose_files::as_utf8(text)?)
            }
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let choice = args.vocab.clone().unwrap_or_default();
    let tokenizer = match &args.model {
        Some(path) => choice.tokenizer(&Model::open(path)?)?,
        None => choice.tokenizer_alone()?,
    };
    if let Some(path) = &args.ids {
        let text = tokenizer.decode(&crate::options::tokens(path)?)?;
        return Ok(std::io::Write::write_all(&mut std::io::stdout(), &text)?);
    }
    let ids = tokenizer.encode(&args.text()?);
    match args.pieces {
        _ if args.count => outln!("{}", ids.len()),
        false => outln!("{}", serde_json::to_string(&ids)?),
        true => {
            for id in ids {
                let text = String::from_utf8_lossy(tokenizer.token(id).unwrap_or_default());
                outln!("{id:>6}  {}", serde_json::to_string(&text)?);
            }
        }
    }
    Ok(())
}
