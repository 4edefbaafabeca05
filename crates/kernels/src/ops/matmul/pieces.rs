//! Which sites suit the variants that read w in pieces (`kernels-wgsl/shared/piece/`), and how many workgroups they take.
//! LANES invocations share a row, all of the workgroup where there is no such tunable.

use super::groups_of_32;
use crate::plan::bucket;
use crate::{Refusal, Site, Tunables, refuse_if};
use wgoose_graph::Format;

/// Products of one token.
pub(super) fn dot_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    rows_have_work(site, p)?;
    let (lanes, unroll) = (lanes(p), p.number("UNROLL"));
    let pieces = site.k / weights_of_piece(site);
    // Partly filled rounds are left to UNROLL = 1: no invocation has to ask whether there is a piece.
    refuse_if(unroll > 1 && !pieces.is_multiple_of(lanes * unroll), "pieces left over from unrolled rounds")?;
    refuse_if(unroll * p.number("ROWS") > 4, "more loads on their way than registers to keep them")
}

/// Products of several tokens at once.
pub(super) fn columns_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    rows_have_work(site, p)?;
    tokens_are_there(site, p.number("TOKENS"))?;
    refuse_if(p.number("ROWS") * p.number("TOKENS") > 32, "more sums than registers to keep them")
}

/// Products with x rounded to int8.
pub(super) fn int8_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    let formats = [Format::Q4_K, Format::Q5_K, Format::Q6_KT, Format::Q8_0T, Format::Q4_0T];
    refuse_if(!site.format("w").is_some_and(|f| formats.contains(&f)), "w has no integers at addresses of 16 bytes")?;
    groups_of_32(site)?;
    rows_have_work(site, p)?;
    // The error of a few outputs has nothing to be compared with.
    refuse_if(site.m < 32, "fewer than 32 outputs")?;
    let (tokens, slab) = (p.number("TOKENS"), p.number("SLAB"));
    tokens_are_there(site, tokens)?;
    refuse_if(p.number("ROWS") * tokens > 32, "more sums than registers to keep them")?;
    refuse_if(slab > 1280 && slab / 2 >= site.k, "a smaller slab holds all of x")
}

/// Workgroups: ROWS rows for every LANES invocations, TOKENS tokens or one.
pub(super) fn units(site: &Site, p: &Tunables) -> u64 {
    let tokens = if p.0.contains_key("TOKENS") { p.number("TOKENS") } else { 1 };
    let rows = p.number("WG") / lanes(p) * p.number("ROWS");
    u64::from(site.window.div_ceil(rows)) * u64::from(site.rows.div_ceil(tokens))
}

fn lanes(p: &Tunables) -> u32 {
    if p.0.contains_key("LANES") { p.number("LANES") } else { p.number("WG") }
}

/// By the bucket, not by the site: a plan's choice has to serve every row count of its bucket.
fn tokens_are_there(site: &Site, tokens: u32) -> Result<(), Refusal> {
    refuse_if(tokens > bucket(site.rows), "more tokens per workgroup than there are")
}

fn rows_have_work(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    let lanes = lanes(p);
    refuse_if(lanes > 32 && lanes > 2 * (site.k / weights_of_piece(site)), "most invocations would have no weights")
}

/// Twin of `weight_span` in `kernels-wgsl/shared/piece/`: the weights of 16 bytes, or of what stands for them.
fn weights_of_piece(site: &Site) -> u32 {
    match site.format("w") {
        Some(Format::F16 | Format::BF16) => 8,
        Some(Format::Q8_0T) => 16,
        Some(Format::F32) | None => 4,
        Some(_) => 32,
    }
}
