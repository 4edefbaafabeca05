//! Where embeddings go: standard output, JSON lines or .npy. A file has its name once it is whole.

use crate::failure::Failure;
use serde_json::json;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use wgoose_files::{Existing, NewFile};
use wgoose_session::npy;

/// How embeddings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A JSON object a line.
    Lines,
    /// A float32 matrix.
    Npy,
}

impl Kind {
    /// What the file's name asks for.
    pub(super) fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npy")) { Kind::Npy } else { Kind::Lines }
    }
}

/// An open place for embeddings.
pub(super) struct Output {
    kind: Kind,
    sink: Sink,
    /// Texts written.
    done: usize,
}

enum Sink {
    Stdout(BufWriter<Stdout>),
    File { out: BufWriter<NewFile>, path: PathBuf },
}

impl Output {
    /// JSON lines on standard output.
    pub(super) fn stdout() -> Self {
        Output { kind: Kind::Lines, sink: Sink::Stdout(BufWriter::new(io::stdout())), done: 0 }
    }

    /// A file of so many texts, with so many columns if it is a .npy.
    pub(super) fn file(path: &Path, rows: usize, cols: usize) -> Result<Self, Failure> {
        let kind = Kind::of(path);
        let begin = || -> io::Result<BufWriter<NewFile>> {
            let mut out = BufWriter::new(NewFile::beside(path)?);
            if kind == Kind::Npy {
                out.write_all(&npy::header(&[rows, cols]))?;
            }
            Ok(out)
        };
        let out = begin().map_err(of(path))?;
        Ok(Output { kind, sink: Sink::File { out, path: path.to_owned() }, done: 0 })
    }

    /// Appends the embedding of the next text, rows of `cols` floats; a single one, unless the text has one a token.
    pub(super) fn write(&mut self, tokens: usize, embedding: &[f32], cols: usize, every: bool) -> Result<(), Failure> {
        let (kind, index) = (self.kind, self.done);
        let write = |out: &mut dyn Write| match kind {
            Kind::Npy => npy::write_rows(out, embedding),
            Kind::Lines => {
                let embedding = match every {
                    true => json!(embedding.chunks(cols).collect::<Vec<_>>()),
                    false => json!(embedding),
                };
                let line = json!({ "index": index, "tokens": tokens, "embedding": embedding });
                writeln!(out, "{line}")
            }
        };
        match &mut self.sink {
            Sink::Stdout(out) => write(out)?,
            Sink::File { out, path } => write(out).map_err(of(path))?,
        }
        self.done += 1;
        Ok(())
    }

    /// Shows what was written so far, where somebody may be reading it.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Stdout(out) => Ok(out.flush()?),
            Sink::File { .. } => Ok(()),
        }
    }

    /// Gives the whole file its name.
    pub(super) fn finish(self) -> Result<(), Failure> {
        match self.sink {
            Sink::Stdout(mut out) => out.flush()?,
            Sink::File { out, path } => {
                let named = out.into_inner().map_err(io::IntoInnerError::into_error);
                named.and_then(|file| file.finish(Existing::Replace)).map_err(of(&path))?;
            }
        }
        Ok(())
    }
}

fn of(path: &Path) -> impl Fn(io::Error) -> String + '_ {
    move |e| format!("{}: {e}", path.display())
}
