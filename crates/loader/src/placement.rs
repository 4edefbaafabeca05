//! The place of each weight in the files: the last check before views are returned.

use crate::blocks::SourceFormat;
use crate::contents::{Contents, Directory, Element, RawTensor};
use crate::error::LoadError;
use crate::names::{AdapterLayout, Names, Naming};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use wgoose_graph::{Format, ModelShape, Weight, WeightClass};

/// A weight's place. All ranges lie inside the file and have the length that shape and format demand.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) stored: Stored,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) storage: Storage,
}

/// What the numbers of a weight are stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// A format that can be computed with.
    Format(Format),
    /// One that only a conversion reads.
    Source(SourceFormat),
}

/// Where the canonical bytes of a weight lie: in the file, unless they were made of it.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// In one piece.
    Whole(Range<usize>),
    /// The bytes of the transposed matrix. Never quantised.
    Transposed(Range<usize>),
    /// One piece per row.
    Rows([Range<usize>; 6]),
    /// In memory, in another format or order than the file's.
    Recoded(Arc<[u8]>),
}

impl Storage {
    /// All pieces in the file.
    pub(crate) fn ranges(&self) -> &[Range<usize>] {
        match self {
            Storage::Whole(range) | Storage::Transposed(range) => std::slice::from_ref(range),
            Storage::Rows(rows) => rows,
            Storage::Recoded(_) => &[],
        }
    }
}

/// Finds every weight of the model.
pub(crate) fn place(
    naming: &Naming,
    contents: &Contents,
    shape: &ModelShape,
    layout: AdapterLayout,
) -> Result<HashMap<Weight, Placed>, LoadError> {
    let finder = Finder { directory: &contents.directory, naming, layout };
    let mut places = HashMap::new();
    for weight in Weight::all(shape) {
        let [rows, cols] = weight.shape(shape).map(|n| n as usize);
        let placed = match naming.names(weight) {
            Names::One(name) => finder.one(&name, weight, rows, cols)?,
            Names::Stacked(names) => finder.stacked(&names, cols)?,
        };
        places.insert(weight, placed);
    }
    Ok(places)
}

/// The place of a tensor of floats beside the weights, row major.
pub(crate) fn floats(name: &str, tensor: &RawTensor, rows: usize, cols: usize) -> Result<Placed, LoadError> {
    let stored = Stored::Format(vector(name, tensor)?);
    if !holds(tensor, rows, cols) {
        return Err(wrong_shape(name, tensor, format!("{rows} x {cols}, row major")));
    }
    let bytes = tensor.bytes.clone();
    let storage = match &tensor.gathered {
        Some(gathered) => Storage::Recoded(Arc::clone(gathered)),
        None if tensor.first_dim_fastest => Storage::Transposed(bytes),
        None => Storage::Whole(bytes),
    };
    Ok(Placed { stored, rows, cols, storage })
}

struct Finder<'a> {
    directory: &'a Directory,
    naming: &'a Naming,
    layout: AdapterLayout,
}

impl Finder<'_> {
    fn one(&self, name: &str, weight: Weight, rows: usize, cols: usize) -> Result<Placed, LoadError> {
        let tensor = self.tensor(name)?;
        let class = weight.class();
        let stored = stored(name, tensor, class)?;
        let layout = match weight {
            Weight::Layer(_, weight) if weight.is_deep_embed() => self.own_layout(tensor, rows, cols),
            _ => self.layout,
        };
        let in_out = class == WeightClass::Adapter && layout == AdapterLayout::InOut;
        let [rows_in_file, cols_in_file] = if in_out { [cols, rows] } else { [rows, cols] };
        if !holds(tensor, rows_in_file, cols_in_file) {
            return Err(wrong_shape(name, tensor, format!("{rows_in_file} x {cols_in_file}, row major")));
        }
        let bytes = tensor.bytes.clone();
        let storage = match (&tensor.gathered, in_out != tensor.first_dim_fastest) {
            (None, true) => Storage::Transposed(bytes),
            (None, false) => Storage::Whole(bytes),
            (Some(gathered), false) => Storage::Recoded(Arc::clone(gathered)),
            (Some(gathered), true) => Storage::Recoded(transposed(gathered, rows, cols)),
        };
        Ok(Placed { stored, rows, cols, storage })
    }

    /// The layout that a tensor's own shape shows; that of the file where it is a square. Converters that transpose the
    /// other adapters know no DeepEmbed.
    fn own_layout(&self, tensor: &RawTensor, rows: usize, cols: usize) -> AdapterLayout {
        match (holds(tensor, rows, cols), holds(tensor, cols, rows)) {
            (true, false) => AdapterLayout::OutIn,
            (false, true) => AdapterLayout::InOut,
            _ => self.layout,
        }
    }

    /// Six vectors as the rows of one weight.
    fn stacked(&self, names: &[String; 6], cols: usize) -> Result<Placed, LoadError> {
        let others = vector(&names[0], self.tensor(&names[0])?)?;
        let mut rows = [const { 0..0 }; 6];
        for (row, name) in rows.iter_mut().zip(names) {
            let tensor = self.tensor(name)?;
            let format = vector(name, tensor)?;
            if format != others {
                return Err(LoadError::MixedFormats { tensor: name.clone(), format, others });
            }
            if tensor.gathered.is_some() {
                return Err(LoadError::Strided { tensor: name.clone() });
            }
            if !holds(tensor, 1, cols) {
                return Err(wrong_shape(name, tensor, format!("{cols} values")));
            }
            *row = tensor.bytes.clone();
        }
        Ok(Placed { stored: Stored::Format(others), rows: rows.len(), cols, storage: Storage::Rows(rows) })
    }

    fn tensor(&self, name: &str) -> Result<&RawTensor, LoadError> {
        self.directory.get(name).ok_or_else(|| self.naming.missing(name))
    }
}

/// The bytes of a matrix of floats of `rows` and `cols`, of those of its transpose.
fn transposed(bytes: &[u8], rows: usize, cols: usize) -> Arc<[u8]> {
    let size = bytes.len() / (rows * cols).max(1);
    let elements = (0..rows).flat_map(|row| (0..cols).map(move |col| (col * rows + row) * size));
    elements.flat_map(|at| bytes[at..at + size].iter().copied()).collect()
}

/// Whether a tensor is a matrix of `rows` and `cols`. In row-major order, sizes of 1 and a split of the rows change no
/// byte, and a vector may be split altogether (`r_k` by heads).
fn holds(tensor: &RawTensor, rows: usize, cols: usize) -> bool {
    let product = |dims: &[usize]| dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    match tensor.dims.split_last() {
        _ if tensor.first_dim_fastest => tensor.dims == [rows, cols],
        _ if rows == 1 => product(&tensor.dims) == Some(cols),
        Some((last, others)) => *last == cols && product(others) == Some(rows),
        None => false,
    }
}

fn stored(name: &str, tensor: &RawTensor, class: WeightClass) -> Result<Stored, LoadError> {
    let quantised = |format: &'static str| LoadError::QuantisedVector {
        tensor: name.to_owned(),
        offset: tensor.bytes.start,
        format,
    };
    let is_matrix = class == WeightClass::Matrix;
    match &tensor.element {
        Element::Other(found) => Err(LoadError::UnsupportedType { tensor: name.to_owned(), found: found.clone() }),
        Element::Known(format) if format.is_quantised() && !is_matrix => Err(quantised(format.name())),
        Element::Source(format) if !is_matrix => Err(quantised(format.name())),
        Element::Known(format) => Ok(Stored::Format(*format)),
        Element::Source(format) => Ok(Stored::Source(*format)),
    }
}

/// The format of a vector, which is never quantised.
fn vector(name: &str, tensor: &RawTensor) -> Result<Format, LoadError> {
    match stored(name, tensor, WeightClass::Vector)? {
        Stored::Format(format) => Ok(format),
        Stored::Source(format) => {
            Err(LoadError::UnsupportedType { tensor: name.to_owned(), found: format.to_string() })
        }
    }
}

fn wrong_shape(name: &str, tensor: &RawTensor, expected: String) -> LoadError {
    LoadError::WrongShape { tensor: name.to_owned(), offset: tensor.bytes.start, dims: tensor.dims.clone(), expected }
}
