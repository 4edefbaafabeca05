//! An RWKV-7 model in one mapped file or several.

use crate::adapter::MergedAdapter;
use crate::config::Config;
use crate::contents::{About, Contents, Pairs, Strings};
use crate::embedding_heads::{self, PlacedHeads};
use crate::error::LoadError;
use crate::files::ModelFiles;
use crate::fingerprint::Fingerprint;
use crate::foreign::Foreign;
use crate::gguf::pair::Pair;
use crate::names::{Container, Naming};
use crate::placement::{self, Placed, Storage, Stored};
use crate::read_at::ReadAt;
use crate::shards::{self, Merged, ShardSet};
use crate::unknown::UnknownTensors;
use crate::view::{Pieces, TensorView};
use crate::{gguf, pth, safetensors, shape};
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use wgoose_graph::{Format, ModelShape, Weight};

/// A model file that was checked once: every weight is there, with the right shape, in a format that can be computed
/// with.
///
/// The file must not be truncated or rewritten in place while this lives; to update it, rename a new one over it: this
/// keeps the old one. Whether it was left alone, [`Model::check_unchanged`] tells.
///
/// A clone shares the file and its map.
#[derive(Clone, Debug)]
pub struct Model {
    files: ModelFiles,
    container: Container,
    naming: Naming,
    shape: ModelShape,
    places: HashMap<Weight, Placed>,
    pub(crate) heads: PlacedHeads,
    headers: Vec<Range<usize>>,
    vocabulary: Option<Strings>,
    pairs: Option<Pairs>,
    about: About,
    unknown: UnknownTensors,
    /// What was merged into its weights.
    merged: Vec<[u8; 32]>,
    adapters: Vec<MergedAdapter>,
    fingerprint: OnceLock<Fingerprint>,
}

/// How a model file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Whether matrices may also be in a [`SourceFormat`](crate::blocks::SourceFormat), which only a conversion reads.
    pub for_conversion: bool,
    /// Whether the model is opened without the tensors that no op reads ([`Model::unknown`]); otherwise they are an error.
    pub ignore_unknown: bool,
}

impl Model {
    /// Maps a model's files and checks them. What kind of files they are, their first bytes tell, never their names.
    /// Reads the headers only: milliseconds, whatever the size.
    ///
    /// The path names a file, one of the shards of a model, their index (`model.safetensors.index.json`), or a folder
    /// with one model in it.
    ///
    /// # Errors
    /// What is wrong with the file, where, and what to do about it.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, LoadError> {
        Model::open_with(path, OpenOptions::default())
    }

    /// As [`Model::open`], with options.
    ///
    /// # Errors
    /// As of [`Model::open`].
    pub fn open_with(path: impl AsRef<Path>, options: OpenOptions) -> Result<Model, LoadError> {
        let path = path.as_ref();
        let set = shards::find(path)?;
        let model = Model::of(ModelFiles::open(path, &set.files)?, &set)?;
        if !options.ignore_unknown && !model.unknown.is_empty() {
            return Err(LoadError::UnknownTensors(model.unknown.clone()).of_file(model.path()));
        }
        if !model.unknown.is_empty() {
            tracing::warn!("{}: left out: {}", model.path().display(), model.unknown);
        }
        if options.for_conversion {
            return Ok(model);
        }
        let source = Weight::all(&model.shape).find_map(|weight| match model.placed(weight).stored {
            Stored::Format(_) => None,
            Stored::Source(found) => Some((weight, found)),
        });
        match source {
            None => Ok(model),
            Some((weight, found)) => {
                let tensor = model.naming.names(weight).as_slice()[0].clone();
                Err(LoadError::ConvertFirst { tensor, found }.of_file(model.path()))
            }
        }
    }

    /// As [`Model::open`], to be converted: see [`OpenOptions::for_conversion`].
    ///
    /// # Errors
    /// As of [`Model::open`].
    pub fn open_source(path: impl AsRef<Path>) -> Result<Model, LoadError> {
        Model::open_with(path, OpenOptions { for_conversion: true, ..OpenOptions::default() })
    }

    /// Tensors of the file that no op reads.
    pub fn unknown(&self) -> &UnknownTensors {
        &self.unknown
    }

    /// What a weight is stored as, and its rows and columns.
    pub(crate) fn stored(&self, weight: Weight) -> (Stored, [usize; 2]) {
        let placed = self.placed(weight);
        (placed.stored, [placed.rows, placed.cols])
    }

    /// Where a weight in a [`SourceFormat`](crate::blocks::SourceFormat) lies in the file: in one piece.
    pub(crate) fn source_range(&self, weight: Weight) -> Range<usize> {
        let ranges = self.placed(weight).storage.ranges();
        ranges.first().cloned().unwrap_or_default()
    }

    fn of(files: ModelFiles, set: &ShardSet) -> Result<Model, LoadError> {
        let checked = Checked::of(&files, set);
        // First: what is wrong with a file that changes under the reader says nothing.
        files.check_unchanged()?;
        let checked = checked.map_err(|why| files.name_file(why))?;
        let Checked { container, naming, shape, places, heads, headers, vocabulary, pairs, about, unknown } = checked;
        let (merged, adapters) = (Vec::new(), Vec::new());
        let fingerprint = OnceLock::new();
        Ok(Model {
            files,
            container,
            naming,
            shape,
            places,
            heads,
            headers,
            vocabulary,
            pairs,
            about,
            unknown,
            merged,
            adapters,
            fingerprint,
        })
    }

    /// Has [`Model::read`] read from `reader`, which holds the same bytes, those of several files one behind the
    /// other: a network file, a cache, a faulty disk in a test. Everything else still concerns the opened files.
    pub fn with_reader(mut self, reader: Arc<dyn ReadAt>) -> Model {
        self.files.set_reader(reader);
        self
    }

    /// What was given to [`Model::open`].
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// The files that were opened: one, or the shards in their order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|placed| placed.file.path())
    }

    /// What the model is called by its path: the name of its file without the ending, or that of its folder where
    /// the file's name is everybody's (`model.safetensors`).
    pub fn title(&self) -> String {
        self.files().next().map(shards::title).unwrap_or_default()
    }

    /// Bytes of all files when they were opened.
    pub fn file_len(&self) -> usize {
        self.files.len()
    }

    /// The file with a place, and the place's offset there. Ranges of shards count from the start of the first file.
    ///
    /// # Panics
    /// If `place` is behind the last file.
    pub fn locate(&self, place: usize) -> (&Path, usize) {
        assert!(place <= self.file_len(), "place {place} in files of {} bytes", self.file_len());
        let (file, offset) = self.files.locate(place);
        (file.path(), offset)
    }

    /// Reads a range into `out`, by position, past the map. Any number of threads may do so at once. The range of a
    /// weight is [`TensorView::file_range`]; shards follow one another.
    ///
    /// # Errors
    /// [`LoadError::Shortened`] where the file does not reach as far any more, [`LoadError::Read`] otherwise. That it
    /// was rewritten goes unnoticed: see [`Model::check_unchanged`].
    ///
    /// # Panics
    /// If `range` reaches past the end of the file as it was opened or `out` is not exactly as long.
    pub fn read(&self, range: Range<usize>, out: &mut [u8]) -> Result<(), LoadError> {
        let file_len = self.file_len();
        assert!(range.start <= range.end && range.end <= file_len, "bytes {range:?} of a file of {file_len} bytes");
        assert_eq!(out.len(), range.len(), "length of the buffer for bytes {range:?}");
        self.files.read(range, out)
    }

    /// Whether what was read so far, in whatever way, can be believed. To be asked after reading, not for each read.
    ///
    /// Compares length and modification time of the open file with those at opening, and tells whether a view saw zeros
    /// in place of a page that could not be fetched (on Unix). Two writes within one
    /// tick of the file system's clock, some milliseconds, look the same. A file renamed over this one is no change;
    /// `touch` is one.
    ///
    /// # Errors
    /// [`LoadError::Shortened`], [`LoadError::Rewritten`], [`LoadError::Read`] for a missing page, [`LoadError::Io`]
    /// where the system does not answer.
    pub fn check_unchanged(&self) -> Result<(), LoadError> {
        self.files.check_unchanged()
    }

    /// What kind of file it is.
    pub fn container(&self) -> Container {
        self.container
    }

    /// The model's sizes. The value rank of a model of one layer, which has no value residual, is the one the file
    /// declares or else that of the in-context learning rate.
    pub fn shape(&self) -> &ModelShape {
        &self.shape
    }

    /// A weight. Costs a look-up; no page of the file is touched before the view's bytes are.
    ///
    /// # Panics
    /// If `weight` is none of [`Weight::all`] for this shape: a layer past the last, a value residual in layer 0. Of a model
    /// that is open to be converted, if it is in a format that only conversions read.
    pub fn tensor(&self, weight: Weight) -> TensorView<'_> {
        let placed = self.placed(weight);
        let Stored::Format(format) = placed.stored else { panic!("{weight} is stored as {:?}", placed.stored) };
        self.view(placed, format)
    }

    /// A placed tensor in that format.
    pub(crate) fn view<'a>(&'a self, placed: &'a Placed, format: Format) -> TensorView<'a> {
        let bytes = |range: &Range<usize>| self.files.bytes(range.clone());
        let pieces = match &placed.storage {
            Storage::Whole(range) => Pieces::Whole(bytes(range)),
            Storage::Transposed(range) => Pieces::Transposed(bytes(range)),
            Storage::Rows(rows) => Pieces::Rows(rows.each_ref().map(bytes)),
            Storage::Recoded(bytes) => Pieces::Recoded(bytes),
        };
        let offset = placed.storage.ranges().iter().map(|range| range.start).min().unwrap_or(0);
        TensorView::new(format, [placed.rows, placed.cols], pieces, offset)
    }

    /// The vocabulary the file carries (GGUF only): the bytes of each token by id. Tokens that stand for no text are
    /// empty: id 0 (end of text, `<s>` in the file) and the padding up to the model's vocabulary.
    pub fn vocabulary(&self) -> Option<Vec<Vec<u8>>> {
        self.vocabulary.map(|strings| gguf::vocabulary::decode(self.files.first(), strings))
    }

    /// The keys of the file with their values, in its order; none where it is no GGUF file.
    pub(crate) fn pairs(&self) -> Vec<Pair> {
        self.pairs.map(|pairs| gguf::pairs(self.files.first(), pairs)).unwrap_or_default()
    }

    /// What the file says of the model beside its sizes (GGUF only).
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Identifies the model's content. The first call reads about 3 KiB of every tensor.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let weights = Weight::all(&self.shape).map(|weight| &self.placed(weight).storage);
            let storages = weights.chain(self.heads.values().flatten().map(|placed| &placed.storage));
            let bytes = |range: &Range<usize>| self.files.bytes(range.clone());
            let pieces = storages.flat_map(|storage| {
                let recoded = match storage {
                    Storage::Recoded(bytes) => Some(&bytes[..]),
                    _ => None,
                };
                storage.ranges().iter().map(bytes).chain(recoded)
            });
            let merged = self.merged.iter().map(|digest| &digest[..]);
            let headers = self.headers.iter().map(bytes);
            Fingerprint::of(self.container, self.files.len(), headers, pieces.chain(merged))
        })
    }

    /// Hints that a weight will soon be read, so that the system can fetch it in the background.
    ///
    /// # Panics
    /// As [`Model::tensor`].
    pub fn will_need(&self, weight: Weight) {
        for range in self.placed(weight).storage.ranges() {
            self.will_need_range(range.clone());
        }
    }

    /// Hints that a range of the file will soon be read, through the map or by position. What lies past the end of the
    /// file does not matter.
    pub fn will_need_range(&self, range: Range<usize>) {
        self.files.will_need(range);
    }

    /// Hints that a weight was read for the last time in a while: its pages stop counting as memory of this process.
    /// Reading it again is allowed, and slower. Does nothing outside Unix.
    ///
    /// # Panics
    /// As [`Model::tensor`].
    pub fn release(&self, weight: Weight) {
        for range in self.placed(weight).storage.ranges() {
            self.files.release(range.clone());
        }
    }

    /// Gives a weight other bytes, in that format: of its rows, whole blocks.
    pub(crate) fn recode(&mut self, weight: Weight, format: Format, bytes: Arc<[u8]>) {
        let (stored, storage) = (Stored::Format(format), Storage::Recoded(bytes));
        let Placed { rows, cols, .. } = *self.placed(weight);
        self.places.insert(weight, Placed { stored, rows, cols, storage });
        self.fingerprint = OnceLock::new();
    }

    /// The adapters that were merged into its weights, in their order.
    pub fn adapters(&self) -> &[MergedAdapter] {
        &self.adapters
    }

    /// Says what was merged into weights that were recoded: the fingerprint has samples of them only.
    pub(crate) fn identify(&mut self, merged: [u8; 32], adapter: MergedAdapter) {
        self.merged.push(merged);
        self.adapters.push(adapter);
        self.fingerprint = OnceLock::new();
    }

    /// Gives a weight the place that it has in `other`, a clone.
    pub(crate) fn restore(&mut self, other: &Model, weight: Weight) {
        self.places.insert(weight, other.placed(weight).clone());
        self.fingerprint = OnceLock::new();
    }

    fn placed(&self, weight: Weight) -> &Placed {
        self.places.get(&weight).unwrap_or_else(|| panic!("{weight} is no weight of a model of {:?}", self.shape))
    }
}

/// What the header of a file says, checked.
struct Checked {
    container: Container,
    naming: Naming,
    shape: ModelShape,
    places: HashMap<Weight, Placed>,
    heads: PlacedHeads,
    headers: Vec<Range<usize>>,
    vocabulary: Option<Strings>,
    pairs: Option<Pairs>,
    about: About,
    unknown: UnknownTensors,
}

impl Checked {
    fn of(files: &ModelFiles, set: &ShardSet) -> Result<Self, LoadError> {
        let Merged { container, mut contents, headers } = shards::merge(files, set)?;
        let config = match (container, set.files.first()) {
            (Container::Safetensors | Container::Pth, Some(file)) => Config::beside(file, set.has_folder)?,
            _ => None,
        };
        if let Some(config) = &config {
            config.declare(&mut contents);
        }
        if embedding_heads::is_reranker(&contents.directory) {
            return Err(LoadError::Reranker);
        }
        let naming = Naming::of(container, contents.directory.names());
        let embedding_norm_fused = config.as_ref().and_then(|config| config.embedding_norm_fused);
        let placed = shape::deduce(container, &naming, &contents, embedding_norm_fused).and_then(|(shape, layout)| {
            let places = placement::place(&naming, &contents, &shape, layout)?;
            Ok((shape, places, embedding_heads::place(&contents.directory, &shape)?))
        });
        let (shape, places, heads) = placed.map_err(|why| match &config {
            Some(config) => config.name_file(why),
            None => why,
        })?;
        if let Some(config) = &config {
            let norm = naming.names(Weight::Ln0Scale).as_slice()[0].clone();
            config.check(&shape, contents.directory.get(&norm).map(|_| norm.as_str()))?;
            if let Stored::Format(format) = places[&Weight::Embedding].stored {
                config.compare_dtype(format);
            }
        }
        let unknown = UnknownTensors::of(&contents.directory, &naming, &shape);
        let Contents { vocabulary, pairs, about, .. } = contents;
        Ok(Checked { container, naming, shape, places, heads, headers, vocabulary, pairs, about, unknown })
    }
}

/// What a file is and holds, whatever it is for.
pub(crate) fn contents(file: &[u8]) -> Result<(Container, Contents), LoadError> {
    let container = detect(file)?;
    let contents = match container {
        Container::Gguf => gguf::read(file)?,
        Container::Safetensors => safetensors::read(file)?,
        Container::Pth => pth::read(file)?,
    };
    Ok((container, contents))
}

/// The kind of a file.
fn detect(file: &[u8]) -> Result<Container, LoadError> {
    match Container::detect(file) {
        Some(container) => Ok(container),
        None if matches!(file, [0x80, 2..=5, ..]) => Err(LoadError::LegacyTorch),
        None => Err(LoadError::UnknownContainer(Foreign::of(file))),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_truncated_while_it_is_opened_is_not_called_malformed() {
        let named = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(named.path(), [b'x'; 5000]).unwrap();
        let set = ShardSet::one(named.path());
        let files = ModelFiles::open(named.path(), &set.files).unwrap();
        named.as_file().set_len(0).unwrap();
        let error = Model::of(files, &set).unwrap_err();
        assert!(matches!(error, LoadError::Shortened { expected: 5000, found: 0, .. }), "{error}");
    }
}
