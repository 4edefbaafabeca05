//! Operands and results of an op's reference: plain slices, and matrices that return rows of f32.

use crate::Segment;
use std::collections::BTreeMap;

/// A matrix whose rows can be read as f32, whatever it is stored in.
pub trait Matrix: Sync {
    /// Number of rows.
    fn rows(&self) -> usize;
    /// Number of columns.
    fn cols(&self) -> usize;
    /// The rows whose products are wanted, in rising order; a reference marks the others' as [`UNKNOWN`].
    fn wanted(&self) -> Vec<usize> {
        (0..self.rows()).collect()
    }
    /// Writes row `i` to `out`, which has `cols` elements.
    fn row(&self, i: usize, out: &mut [f32]);
}

/// What stands in y where a reference computes nothing because nobody asked for it: a kernel has a number there.
pub const UNKNOWN: f32 = f32::from_bits(0x7fc0_1111);

/// What stands in y before an op, and after it where the op writes nothing: a kernel leaves what was there.
pub const UNWRITTEN: f32 = f32::from_bits(0x7fc0_2222);

/// A row-major matrix in memory, or some rows of one.
#[derive(Clone, Debug)]
pub struct Dense {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub cols: usize,
    /// The rows that are there, in rising order.
    pub wanted: Vec<usize>,
    /// These rows, one after another.
    pub data: Vec<f32>,
}

impl Matrix for Dense {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn wanted(&self) -> Vec<usize> {
        self.wanted.clone()
    }

    /// # Panics
    /// If the row is not there.
    fn row(&self, i: usize, out: &mut [f32]) {
        let Ok(at) = self.wanted.binary_search(&i) else { panic!("row {i} of a matrix is not at hand") };
        out.copy_from_slice(&self.data[at * self.cols..][..self.cols]);
    }
}

/// One operand's data.
pub enum Arg<'a> {
    /// A value or a vector.
    Floats(&'a [f32]),
    /// A weight matrix.
    Matrix(&'a dyn Matrix),
    /// Tokens, rows or segment indices.
    Indices(&'a [u32]),
    /// The segment table.
    Segments(&'a [Segment]),
    /// State of every slot, updated in place.
    State(&'a mut [f32]),
}

/// The operands of one op by name.
#[derive(Default)]
pub struct Args<'a>(BTreeMap<&'static str, Arg<'a>>);

impl<'a> Args<'a> {
    /// No operands.
    pub fn new() -> Self {
        Args::default()
    }

    /// Adds an operand.
    pub fn insert(&mut self, name: &'static str, arg: Arg<'a>) {
        self.0.insert(name, arg);
    }

    /// A value or vector.
    ///
    /// # Panics
    /// If the caller gave something else: the graph's legality rules exclude it.
    pub(crate) fn floats(&self, name: &str) -> &'a [f32] {
        match self.0.get(name) {
            Some(Arg::Floats(data)) => data,
            _ => panic!("operand {name} must be floats"),
        }
    }

    /// A weight matrix, if the op has that operand here.
    pub(crate) fn matrix(&self, name: &str) -> Option<&'a dyn Matrix> {
        match self.0.get(name) {
            Some(Arg::Matrix(matrix)) => Some(*matrix),
            _ => None,
        }
    }

    /// Indices.
    ///
    /// # Panics
    /// If the caller gave something else: the graph's legality rules exclude it.
    pub(crate) fn indices(&self, name: &str) -> &'a [u32] {
        match self.0.get(name) {
            Some(Arg::Indices(data)) => data,
            _ => panic!("operand {name} must be indices"),
        }
    }

    /// The segment table.
    ///
    /// # Panics
    /// If the caller gave something else: the graph's legality rules exclude it.
    pub(crate) fn segments(&self) -> &'a [Segment] {
        match self.0.get("segments") {
            Some(Arg::Segments(data)) => data,
            _ => panic!("operand segments must be segments"),
        }
    }

    /// The state, which the op updates.
    ///
    /// # Panics
    /// If the caller gave something else: the graph's legality rules exclude it.
    pub(crate) fn state(&mut self) -> &mut [f32] {
        match self.0.get_mut("state") {
            Some(Arg::State(data)) => data,
            _ => panic!("operand state must be state"),
        }
    }
}
