//! Which formats a tensor can have.

use wgoose_graph::{Format, Weight, WeightClass};
use wgoose_loader::Model;
use wgoose_loader::writer::Mix;

/// From the smallest. Where rows are no whole blocks of 256, Q4_0 stands in for the formats that need them.
const CANDIDATES: [Format; 6] = [Format::Q4_K, Format::Q4_0, Format::Q5_K, Format::Q6_K, Format::Q8_0, Format::F16];

/// The formats of a matrix, from the smallest to the source's own, which comes last.
pub(super) fn candidates(model: &Model, weight: Weight) -> Vec<Format> {
    let view = model.tensor(weight);
    let bytes = |format: Format| format.bytes(view.rows(), view.cols());
    let is_whole = |format: &Format| bytes(*format).is_some_and(|bytes| bytes < view.byte_len());
    let is_needed = |format: &Format| *format != Format::Q4_0 || bytes(Format::Q4_K).is_none();
    let smaller = CANDIDATES.into_iter().filter(|format| is_whole(format) && is_needed(format));
    smaller.chain([view.format()]).collect()
}

/// Whether a weight's format is chosen: matrices'. The others are small, and what every quantised file has.
pub(super) fn is_chosen(weight: Weight) -> bool {
    weight.class() == WeightClass::Matrix
}

/// The format of a weight that is no matrix.
pub(super) fn fixed(weight: Weight) -> Format {
    Mix::Q8_0.in_gguf(weight)
}
