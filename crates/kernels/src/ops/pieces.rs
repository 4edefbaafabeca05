//! Which sites suit the variants that read their matrices in pieces (`kernels-wgsl/shared/piece/`), and how many rows a
//! workgroup takes. LANES invocations share a row, all of the workgroup where there is no such tunable.

use crate::plan::bucket;
use crate::{Refusal, Site, Tunables, refuse_if};
use wgoose_graph::{Format, OperandKind};

/// Products of one token, with at most so many pieces on their way.
pub(super) fn dot_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    has_pieces(site)?;
    rows_have_work(site, p)?;
    let (unroll, rows) = (p.number("UNROLL"), p.number("ROWS"));
    refuse_if(unroll > 1 && lanes(p) * unroll > most_pieces(site, site.k), "fewer pieces than a round takes")?;
    refuse_if(unroll * rows > most, "more loads on their way than registers to keep them")
}

/// Products of several tokens at once, with at most so many sums.
pub(super) fn columns_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    has_pieces(site)?;
    rows_have_work(site, p)?;
    tokens_are_there(site, p.number("TOKENS"))?;
    refuse_if(p.number("ROWS") * p.number("TOKENS") > most, "more sums than registers to keep them")
}

/// Products of several tokens at once with x rounded to integers.
pub(super) fn integers_accept(site: &Site, p: &Tunables, most: u32) -> Result<(), Refusal> {
    columns_accept(site, p, most)?;
    outputs_to_compare(site)
}

/// Products of one token whose rows are dealt to UNITS workgroups, to teams of SPLIT times LANES invocations there.
pub(super) fn dealt_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    has_pieces(site)?;
    let (units, rows, split, unroll) = (p.number("UNITS"), p.number("ROWS"), p.number("SPLIT"), p.number("UNROLL"));
    let team = split * lanes(p);
    refuse_if(team > p.number("WG"), "a team would be larger than a workgroup")?;
    refuse_if(unroll * rows > 10, "more loads on their way than registers to keep them")?;
    let pieces = most_pieces(site, site.k);
    refuse_if(
        team * unroll > 32 && team * (unroll - 1) + team / 2 >= pieces,
        "most loads of a round would be in vain",
    )?;
    refuse_if(units > 2 * site.window.div_ceil(rows), "most workgroups would have no rows")?;
    // Twin of PARTIALS in `kernels-wgsl/stages/dealt.wgsl`; an invocation ends one row.
    let share = site.window.div_ceil(rows).div_ceil(units) * rows;
    refuse_if(split > 1 && (split * share > 512 || share > p.number("WG")), "too many rows to split each")
}

/// Whether rounded products can be judged: the error of a few outputs has nothing to be compared with.
pub(super) fn outputs_to_compare(site: &Site) -> Result<(), Refusal> {
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

/// The pieces of a row of a matrix.
pub(super) fn pieces_of_row(site: &Site, operand: &str) -> u32 {
    site.k / weights_of_piece(site.format(operand))
}

/// The most pieces that a row of `columns` weights has in any of the site's matrices.
pub(super) fn most_pieces(site: &Site, columns: u32) -> u32 {
    let matrices = site.inputs.iter().filter(|i| i.kind == OperandKind::Matrix);
    matrices.map(|i| columns / weights_of_piece(i.format)).max().unwrap_or(0)
}

/// Whether every matrix has pieces of one row: one in columns has none.
pub(super) fn has_pieces(site: &Site) -> Result<(), Refusal> {
    let in_columns = site.inputs.iter().any(|i| i.format.is_some_and(Format::is_in_columns));
    refuse_if(in_columns, "a matrix in columns has no pieces of a row")
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
