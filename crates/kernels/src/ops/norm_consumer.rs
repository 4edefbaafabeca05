//! What the ops share that norm their x themselves: their tolerance and domain, and which sites suit the variants whose rows
//! are dealt to a fixed number of workgroups.

use super::{NORM, blocks, pieces, sum_tolerance};
use crate::{Refusal, Site, Tunables, refuse_if};

/// Most columns that an invocation is to keep in registers: four times the largest `OWN` of
/// `kernels-wgsl/stages/normed_rows.wgsl`.
const OWN_COLUMNS: u32 = 16;

/// Errors of the norm, of which a product has its part, and of the sums; y is a third planes that have none.
pub(super) fn tolerance(site: &Site) -> f32 {
    2.0 * (sum_tolerance(site.k) + NORM(site))
}

pub(super) fn domain(operand: &str) -> (f32, f32) {
    match operand {
        "x" | "state" => (-2.0, 2.0),
        "scale" => (0.5, 1.5),
        "bias" => (-0.5, 0.5),
        "mix" => (0.0, 1.0),
        _ => (-0.1, 0.1),
    }
}

/// UNITS workgroups for each token.
pub(super) fn dealt_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.rows) * u64::from(p.number("UNITS"))
}

/// `matrix` is the one with the most rows.
pub(super) fn dealt_accept(site: &Site, p: &Tunables, matrix: &str) -> Result<(), Refusal> {
    super::matmul::groups_of_32(site)?;
    columns_fit(site, p)?;
    let (unroll, rows, lanes) = (p.number("UNROLL"), p.number("ROWS"), p.number("LANES"));
    refuse_if(unroll * rows > 10, "more loads on their way than registers to keep them")?;
    let pieces = pieces::pieces_of_row(site, matrix);
    refuse_if(unroll > 1 && lanes * unroll > pieces.next_multiple_of(lanes), "fewer pieces than a round takes")
}

/// The same with x rounded to int8 for these matrices, which are alike.
pub(super) fn int8_accept(site: &Site, p: &Tunables, matrices: &[&str]) -> Result<(), Refusal> {
    matrices.iter().try_for_each(|matrix| pieces::has_integers(site, matrix))?;
    dealt_accept(site, p, matrices[0])?;
    // The error of a few outputs has nothing to be compared with.
    refuse_if(site.m < 32, "fewer than 32 outputs")
}

/// The same for half blocks of K-quants at a time.
pub(super) fn blocks_accept(site: &Site, p: &Tunables, matrices: &[&str]) -> Result<(), Refusal> {
    columns_fit(site, p)?;
    blocks::accept(site, p, matrices)
}

fn columns_fit(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    refuse_if(site.k > OWN_COLUMNS * p.number("WG"), "more columns than the registers of a workgroup keep")
}
