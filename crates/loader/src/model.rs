//! An RWKV-7 model in a mapped file.

use crate::contents::Strings;
use crate::error::LoadError;
use crate::fingerprint::Fingerprint;
use crate::map::FileMap;
use crate::names::Container;
use crate::placement::{self, Placed, Storage};
use crate::view::{Pieces, TensorView};
use crate::{gguf, pth, safetensors, shape};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use wgoose_graph::{ModelShape, Weight};

/// A model file that was checked once: every weight is there, with the right shape, in a format that can be computed
/// with. The file must not be truncated or rewritten in place while this lives; to update it, rename a new one over it.
#[derive(Debug)]
pub struct Model {
    path: PathBuf,
    map: FileMap,
    container: Container,
    shape: ModelShape,
    places: HashMap<Weight, Placed>,
    header: Range<usize>,
    vocabulary: Option<Strings>,
    fingerprint: OnceLock<Fingerprint>,
}

impl Model {
    /// Maps a file and checks it. What kind of file it is, its first bytes tell, never its name. Reads the header only:
    /// milliseconds, whatever the size.
    ///
    /// # Errors
    /// What is wrong with the file, where, and what to do about it.
    pub fn open(path: impl AsRef<Path>) -> Result<Model, LoadError> {
        let path = path.as_ref();
        let map = FileMap::open(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
        let container = detect(&map)?;
        let contents = match container {
            Container::Gguf => gguf::read(&map)?,
            Container::Safetensors => safetensors::read(&map)?,
            Container::Pth => pth::read(&map)?,
        };
        let (shape, layout) = shape::deduce(container, &contents)?;
        let places = placement::place(container, &contents, &shape, layout)?;
        Ok(Model {
            path: path.to_owned(),
            map,
            container,
            shape,
            places,
            header: contents.header,
            vocabulary: contents.vocabulary,
            fingerprint: OnceLock::new(),
        })
    }

    /// The file, as given to [`Model::open`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file.
    pub fn file_len(&self) -> usize {
        self.map.len()
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
    /// If `weight` is none of [`Weight::all`] for this shape: a layer past the last, a value residual in layer 0.
    pub fn tensor(&self, weight: Weight) -> TensorView<'_> {
        let placed = self.placed(weight);
        let bytes = |range: &Range<usize>| &self.map[range.clone()];
        let pieces = match &placed.storage {
            Storage::Whole(range) => Pieces::Whole(bytes(range)),
            Storage::Transposed(range) => Pieces::Transposed(bytes(range)),
            Storage::Rows(rows) => Pieces::Rows(rows.each_ref().map(bytes)),
        };
        let offset = placed.storage.ranges().iter().map(|range| range.start).min().unwrap_or(0);
        TensorView::new(placed.format, [placed.rows, placed.cols], pieces, offset)
    }

    /// The vocabulary the file carries (GGUF only): the bytes of each token by id. Tokens that stand for no text are
    /// empty: id 0 (end of text, `<s>` in the file) and the padding up to the model's vocabulary.
    pub fn vocabulary(&self) -> Option<Vec<Vec<u8>>> {
        self.vocabulary.map(|strings| gguf::vocabulary::decode(&self.map, strings))
    }

    /// Identifies the model's content. The first call reads about 3 KiB of every tensor.
    pub fn fingerprint(&self) -> Fingerprint {
        *self.fingerprint.get_or_init(|| {
            let ranges = Weight::all(&self.shape).flat_map(|weight| self.placed(weight).storage.ranges());
            let pieces = ranges.map(|range| &self.map[range.clone()]);
            Fingerprint::of(self.container, self.map.len(), &self.map[self.header.clone()], pieces)
        })
    }

    /// Hints that a weight will soon be read, so that the system can fetch it in the background.
    ///
    /// # Panics
    /// As [`Model::tensor`].
    pub fn will_need(&self, weight: Weight) {
        for range in self.placed(weight).storage.ranges() {
            self.map.will_need(range.clone());
        }
    }

    /// Hints that a weight was read for the last time in a while: its pages stop counting as memory of this process.
    /// Reading it again is allowed, and slower. Does nothing outside Unix.
    ///
    /// # Panics
    /// As [`Model::tensor`].
    pub fn release(&self, weight: Weight) {
        for range in self.placed(weight).storage.ranges() {
            self.map.release(range.clone());
        }
    }

    fn placed(&self, weight: Weight) -> &Placed {
        self.places.get(&weight).unwrap_or_else(|| panic!("{weight} is no weight of a model of {:?}", self.shape))
    }
}

fn detect(file: &[u8]) -> Result<Container, LoadError> {
    match Container::detect(file) {
        Some(container) => Ok(container),
        None if file.starts_with(&[0x80, 2]) => Err(LoadError::LegacyTorch),
        None => Err(LoadError::UnknownContainer { start: file[..file.len().min(16)].to_vec() }),
    }
}
