//! `wgoose embed`

mod output;
mod part;

use crate::failure::{Failure, WrongUsage};
use crate::options::{RunOptions, place};
use crate::progress::{Moving, aside};
use crate::texts::read_texts;
use clap::ValueEnum;
use clap::builder::TypedValueParser;
use output::{Kind, Output};
use part::Part;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;
use wgoose_loader::EmbeddingHead;
use wgoose_runtime::{CancelToken, RuntimeError, check_tokens};
use wgoose_session::{EmbedOptions, EmbeddingCacheOptions, EmbeddingCacheStats, Level, Pooling, Session};

/// Texts between two moments at which their embeddings are kept.
const BATCH: usize = 64;

/// Embed texts: vectors from hidden states, without the output head.
///
/// An interrupted run with --out resumes when the same command is run again.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("input").required(true).args(["texts", "file"])))]
#[command(after_help = "Examples:
  wgoose embed model.gguf \"a goose\" \"a train\"
  wgoose embed model.gguf --file texts.txt --out vectors.npy
  wgoose embed model.gguf --file texts.jsonl --store kept --out vectors.jsonl --prefix \"query: \"
  wgoose embed rwkv0b1-emb-curriculum.pth --head retr \"a goose\"")]
pub(crate) struct Args {
    /// Model file, or a folder with the shards of one.
    model: PathBuf,
    /// Texts to embed.
    texts: Vec<String>,
    /// File of texts, one per line. In a .jsonl file each line is a JSON string or an object with "text".
    #[arg(long)]
    file: Option<PathBuf>,
    /// Output file: .npy (float32, [texts, columns]), or .jsonl or .json (one line per text). Default: JSON lines on
    /// standard output.
    #[arg(long, value_parser = place_of_embeddings())]
    out: Option<PathBuf>,
    /// Layer whose output is used, from 0; layers above are not computed. Default: the output of the last norm.
    #[arg(long)]
    layer: Option<u32>,
    /// How the hidden states of a text's tokens become one vector. Default: mean, or --head retr if the model has that
    /// head.
    #[arg(long, value_enum)]
    pooling: Option<PoolingName>,
    /// Head of an embedding model (EmbeddingRWKV): cls, sts or retr. Token 65535 is appended to each text.
    #[arg(long, conflicts_with_all = ["pooling", "layer"])]
    head: Option<EmbeddingHead>,
    /// Do not normalise vectors to length 1.
    #[arg(long)]
    raw: bool,
    /// Text before each text, such as an instruction. Its state is computed once.
    #[arg(long)]
    prefix: Option<String>,
    /// Most tokens of all texts in one pass. Default: the plan's chunk. Results do not depend on it.
    #[arg(long)]
    token_budget: Option<NonZeroUsize>,
    /// Store embeddings in this file, and reuse the embeddings of texts that it contains.
    #[arg(long, value_name = "FILE", value_parser = place())]
    store: Option<PathBuf>,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum PoolingName {
    /// The hidden state of the last token.
    Last,
    /// The mean over all tokens.
    Mean,
    /// All hidden states: a matrix for each text.
    Every,
    /// The WKV state of the layer.
    State,
}

/// A place with an ending that says what is written.
fn place_of_embeddings() -> impl TypedValueParser<Value = PathBuf> {
    place().try_map(|path| {
        match path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase).as_deref() {
            Some("npy" | "jsonl" | "json") => Ok(path),
            _ => Err("expected a name that ends in .npy, .jsonl or .json"),
        }
    })
}

impl Args {
    fn embed_options(&self, session: &Session) -> Result<EmbedOptions, Failure> {
        let pooling = match (self.head, self.pooling) {
            (Some(head), _) => Pooling::Head(head),
            (None, Some(PoolingName::Last)) => Pooling::Last,
            (None, Some(PoolingName::Mean)) => Pooling::Mean,
            (None, Some(PoolingName::Every)) => Pooling::Every,
            (None, Some(PoolingName::State)) => Pooling::State,
            (None, None) if self.layer.is_some() => Pooling::Mean,
            (None, None) => EmbedOptions::of(session.model()).pooling,
        };
        let prefix = match &self.prefix {
            Some(text) => session.tokenizer()?.encode(text.as_bytes()),
            None => Vec::new(),
        };
        let level = self.layer.map_or(Level::Final, Level::Layer);
        Ok(EmbedOptions { level, pooling, normalise: !self.raw, prefix, token_budget: self.token_budget })
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if let Some(out) = args.out.as_ref().filter(|out| args.store.as_ref() == Some(out)) {
        return Err(WrongUsage(format!("{}: --store and --out need a file each", out.display())).into());
    }
    let kind = args.out.as_deref().map_or(Kind::Lines, Kind::of);
    if kind == Kind::Npy && args.pooling == Some(PoolingName::Every) {
        let text = "--pooling every makes matrices of different sizes: write JSON lines instead of .npy";
        return Err(WrongUsage(text.into()).into());
    }
    if let Some(empty) = args.texts.iter().position(String::is_empty) {
        return Err(WrongUsage(format!("text {} is empty", empty + 1)).into());
    }
    let texts = match &args.file {
        Some(path) => read_texts(path, false)?.into_iter().map(|text| text.text).collect(),
        None => args.texts.clone(),
    };
    let cache = args.store.clone().map(|path| EmbeddingCacheOptions { store: Some(path), ..Default::default() });
    let moving = Moving::spinner("opening the model and the device")?;
    let mut session = args.options.session()?.embedding_cache(cache).open(&args.model)?;
    drop(moving);
    let options = args.embed_options(&session)?;
    let tokenizer = session.tokenizer()?;
    let tokens: Vec<Vec<u32>> = texts.iter().map(|text| tokenizer.encode(text.as_bytes())).collect();
    let shape = *session.model().shape();
    // Before anything is read: texts are embedded some at a time, which would count from 0 each.
    let check = |(i, text): (usize, &Vec<u32>)| check_tokens(i, text, shape.vocab);
    tokens.iter().enumerate().try_for_each(check).map_err(RuntimeError::from)?;
    let cols = match options.pooling {
        Pooling::State => (shape.width * shape.head_size) as usize,
        _ => shape.width as usize,
    };
    // A store that is named has all that a run that is started again needs.
    let part = match (&args.out, &args.store) {
        (Some(path), None) => {
            let key = key(&session, &options, &tokens);
            Some(Part::attach(&mut session, path, &key)?)
        }
        _ => None,
    };
    let mut output = match &args.out {
        Some(path) => Output::file(path, texts.len(), cols)?,
        None => Output::stdout(),
    };
    let begun = Instant::now();
    let bar = Moving::bar(texts.len() as u64, "{pos}/{len} texts {elapsed} (left: {left})")?;
    let mut done = 0;
    for batch in tokens.chunks(BATCH) {
        let embedded = session.embed_batch(batch, &options, &CancelToken::default())?;
        // They may go to the terminal on which the bar is.
        aside(|| {
            for (tokens, embedding) in batch.iter().zip(&embedded) {
                output.write(tokens.len(), embedding, cols, options.pooling == Pooling::Every)?;
            }
            output.flush()
        })?;
        done += batch.len();
        bar.done(done as u64);
    }
    drop(bar);
    output.finish()?;
    part.into_iter().for_each(Part::remove);
    if let Some(path) = &args.out {
        outln!("{}: {} embeddings", path.display(), texts.len());
        let (seconds, stored) = (begun.elapsed().as_secs_f64(), session.embedding_stats().map_or(0, stored));
        let rate = match stored {
            0 => format!(", {:.0} tokens/s", tokens.iter().map(Vec::len).sum::<usize>() as f64 / seconds.max(1e-9)),
            _ => format!("; {stored} were in a store"),
        };
        eprintln!("{} texts, {seconds:.1} s{rate}", texts.len());
    }
    Ok(())
}

/// Texts that were embedded before.
fn stored(stats: EmbeddingCacheStats) -> u64 {
    stats.hits + stats.store_hits
}

/// Stands for all that a file of embeddings depends on, but for device and plan.
fn key(session: &Session, options: &EmbedOptions, texts: &[Vec<u32>]) -> String {
    let mut hasher = blake3::Hasher::new();
    let EmbedOptions { level, pooling, normalise, prefix, token_budget: _ } = options;
    hasher.update(session.model().fingerprint().as_bytes());
    hasher.update(format!("{level:?} {pooling:?} {normalise} {prefix:?}").as_bytes());
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        for token in text {
            hasher.update(&token.to_le_bytes());
        }
    }
    hasher.finalize().to_hex()[..12].to_owned()
}
