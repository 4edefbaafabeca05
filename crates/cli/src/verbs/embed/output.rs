//! Where embeddings go: standard output, JSON lines or .npy. A file grows as a [`Part`], and is renamed once it is whole.

use super::part::Part;
use crate::failure::Failure;
use serde_json::json;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;
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

/// What a run is to make.
pub(super) struct Run {
    /// Stands for model, options and texts.
    pub(super) key: String,
    /// Texts.
    pub(super) rows: usize,
    /// Columns of a .npy.
    pub(super) cols: usize,
}

/// An open place for embeddings.
pub(super) struct Output {
    kind: Kind,
    sink: Sink,
    /// Texts written.
    pub(super) done: usize,
}

enum Sink {
    Stdout(BufWriter<Stdout>),
    File(Box<Part>),
}

impl Output {
    /// JSON lines on standard output.
    pub(super) fn stdout() -> Self {
        Output { kind: Kind::Lines, sink: Sink::Stdout(BufWriter::new(io::stdout())), done: 0 }
    }

    /// A file; what an interrupted run of the same kind has left there is kept, as far as it is sound.
    pub(super) fn file(path: &Path, run: &Run) -> Result<Self, Failure> {
        let kind = Kind::of(path);
        let (mut part, done) = Part::open(path, &run.key)?;
        if part.is_empty() && kind == Kind::Npy {
            part.write(|out| out.write_all(&npy::header(&[run.rows, run.cols])))?;
        }
        Ok(Output { kind, sink: Sink::File(Box::new(part)), done })
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
            Sink::File(part) => part.write(write)?,
        }
        self.done += 1;
        Ok(())
    }

    /// Hands over to the system what was written so far: it outlives this process.
    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Stdout(out) => Ok(out.flush()?),
            Sink::File(part) => part.checkpoint(self.done),
        }
    }

    /// Gives the whole file its name.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        match self.sink {
            Sink::Stdout(_) => Ok(()),
            Sink::File(part) => part.finish(),
        }
    }
}
