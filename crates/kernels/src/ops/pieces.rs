//! Which sites suit the variants that read their matrices in pieces (`kernels-wgsl/shared/piece/`), and how many rows a
//! workgroup takes. LANES invocations share a row, all of the workgroup where there is no such tunable.

use crate::plan::bucket;
use crate::{Refusal, Site, Tunables, refuse_if};
use wgoose_graph::{Format, OperandKind};

/// Products of one token, with at most so many pieces on their way.
pub(super) fn dot_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    rows_have_work(site, p)?;
    let (unroll, rows) = (p.number("UNROLL"), p.number("ROWS"));
    refuse_if(unroll > 1 && lanes(p) * unroll > most_pieces(site, site.k), "fewer pieces than a round takes")?;
    refuse_if(unroll * rows > most, "more loads on their way than registers to keep them")
}

/// Products of several tokens at once, with at most so many sums.
pub(super) fn columns_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    rows_have_work(site, p)?;
    tokens_are_there(site, p.number("TOKENS"))?;
    refuse_if(p.number("ROWS") * p.number("TOKENS") > most, "more sums than registers to keep them")
}

/// Products of several tokens at once with x rounded to int8.
pub(super) fn int8_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    columns_accept(site, p, most)?;
    // The error of a few outputs has nothing to be compared with.
    refuse_if(site.m < 32, "fewer than 32 outputs")
}

/// Whether a matrix can be multiplied as integers.
pub(super) fn has_integers(site: &Site, operand: &str) -> Result<(), Refusal> {
    let formats = [Format::Q4_K, Format::Q5_K, Format::Q6_KT, Format::Q8_0T, Format::Q4_0T];
    let has = site.format(operand).is_some_and(|f| formats.contains(&f));
    refuse_if(!has, "a matrix has no integers at addresses of 16 bytes")
}

/// Whether a matrix, if it is there, is of floats.
pub(super) fn has_floats(site: &Site, operand: &str) -> Result<(), Refusal> {
    refuse_if(site.format(operand).is_some_and(Format::is_quantised), "an adapter is quantised")
}

/// Rows of a workgroup: ROWS for every LANES invocations.
pub(super) fn rows_of_workgroup(p: &Tunables) -> u32 {
    p.number("WG") / lanes(p) * p.number("ROWS")
}

/// Workgroups for every row once: TOKENS tokens each, or one.
pub(super) fn token_blocks(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.rows.div_ceil(if p.0.contains_key("TOKENS") { p.number("TOKENS") } else { 1 }))
}

/// By the bucket, not by the site: a plan's choice has to serve every row count of its bucket.
pub(super) fn tokens_are_there(site: &Site, tokens: u32) -> Result<(), Refusal> {
    refuse_if(tokens > bucket(site.rows), "more tokens per workgroup than there are")
}

/// The most pieces that a row of `columns` weights has in any of the site's matrices.
pub(super) fn most_pieces(site: &Site, columns: u32) -> u32 {
    let matrices = site.inputs.iter().filter(|i| i.kind == OperandKind::Matrix);
    matrices.map(|i| columns / weights_of_piece(i.format)).max().unwrap_or(0)
}

fn lanes(p: &Tunables) -> u32 {
    if p.0.contains_key("LANES") { p.number("LANES") } else { p.number("WG") }
}

fn rows_have_work(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    refuse_if(lanes(p) > 32 && lanes(p) > 2 * most_pieces(site, site.k), "most invocations would have no weights")
}

/// Twin of `weight_span` in `kernels-wgsl/shared/piece/`: the weights of 16 bytes, or of what stands for them.
fn weights_of_piece(format: Option<Format>) -> u32 {
    match format {
        Some(Format::F16 | Format::BF16) => 8,
        Some(Format::Q8_0T) => 16,
        Some(Format::F32) | None => 4,
        Some(_) => 32,
    }
}
