//! Where embeddings go: standard output, JSON lines or .npy.
//!
//! A file grows under a name of its own, `NAME.KEY.part`, and is renamed once it is whole. The key stands for model,
//! options and texts: an interrupted run finds what it has done, and nothing else is taken for it.

use crate::npy;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

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
    sink: Box<dyn Write>,
    /// The growing file, and its name once it is whole.
    place: Option<(PathBuf, PathBuf)>,
    /// Texts written.
    pub(super) done: usize,
}

impl Output {
    /// JSON lines on standard output.
    pub(super) fn stdout() -> Self {
        Output { kind: Kind::Lines, sink: Box::new(BufWriter::new(io::stdout())), place: None, done: 0 }
    }

    /// A file; what an interrupted run of the same kind has left there is kept.
    pub(super) fn file(path: &Path, run: &Run) -> Result<Self, String> {
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", run.key));
        let part = PathBuf::from(part);
        let kind = Kind::of(path);
        let open = || -> io::Result<(File, usize)> {
            let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&part)?;
            let (done, end) = match kind {
                Kind::Lines => whole_lines(&mut file)?,
                Kind::Npy => whole_rows(&mut file, run)?,
            };
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
            Ok((file, done))
        };
        let (file, done) = open().map_err(|e| format!("{}: {e}", part.display()))?;
        let sink = Box::new(BufWriter::new(file));
        Ok(Output { kind, sink, place: Some((part, path.to_owned())), done })
    }

    /// Appends the embedding of the next text, rows of `cols` floats; a single one, unless the text has one a token.
    pub(super) fn write(&mut self, tokens: usize, embedding: &[f32], cols: usize, every: bool) -> io::Result<()> {
        match self.kind {
            Kind::Npy => npy::write_rows(&mut self.sink, embedding)?,
            Kind::Lines => {
                let embedding = match every {
                    true => json!(embedding.chunks(cols).collect::<Vec<_>>()),
                    false => json!(embedding),
                };
                let line = json!({ "index": self.done, "tokens": tokens, "embedding": embedding });
                writeln!(self.sink, "{line}")?;
            }
        }
        self.done += 1;
        Ok(())
    }

    /// Hands over to the system what was written so far: it outlives this process.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }

    /// Gives the whole file its name.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.sink.flush()?;
        drop(self.sink);
        self.place.map_or(Ok(()), |(part, path)| wgoose_files::rename(&part, &path))
    }
}

/// Whole lines of a file, and where they end.
fn whole_lines(file: &mut File) -> io::Result<(usize, u64)> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    Ok((bytes[..end].iter().filter(|b| **b == b'\n').count(), end as u64))
}

/// Whole rows of a file, and where they end; a file without a whole header gets one.
fn whole_rows(file: &mut File, run: &Run) -> io::Result<(usize, u64)> {
    let header = npy::header(&[run.rows, run.cols]);
    let (len, start) = (file.metadata()?.len(), header.len() as u64);
    if len < start {
        file.set_len(0)?;
        file.write_all(&header)?;
        return Ok((0, start));
    }
    let row = run.cols as u64 * 4;
    let done = ((len - start) / row).min(run.rows as u64);
    Ok((done as usize, start + done * row))
}
