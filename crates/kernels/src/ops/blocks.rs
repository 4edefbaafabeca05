//! Which sites suit the variants that multiply half a block of a K-quant at a time (`kernels-wgsl/shared/block/`).

use super::pieces;
use crate::{Refusal, Site, Tunables, refuse_if};
use wgoose_graph::Format;

/// Loads of 16 bytes that an invocation of a workgroup of 512 may have on their way.
const MOST_LOADS: u32 = 20;

/// Products with these matrices, which are of one format, for one loop serves all.
pub(super) fn accept(site: &Site, p: &Tunables, matrices: &[&str]) -> Result<(), Refusal> {
    let format = site.format(matrices[0]);
    let Some(loads) = format.and_then(loads) else {
        return Err(Refusal::Shape("a matrix has no blocks of K-quants at addresses of 16 bytes"));
    };
    refuse_if(matrices.iter().any(|m| site.format(m) != format), "its matrices differ in format")?;
    pieces::outputs_to_compare(site)?;
    let (lanes, halves) = (p.number("LANES"), site.k / 128);
    refuse_if(lanes > 8 && lanes >= 2 * halves, "most invocations would have no weights")?;
    let (rows, unroll) = (p.number("ROWS"), p.number("UNROLL"));
    refuse_if(
        unroll > 1 && lanes * unroll >= 2 * halves.next_multiple_of(lanes),
        "fewer half blocks than a round takes",
    )?;
    let most = if p.number("WG") > 512 { MOST_LOADS / 2 } else { MOST_LOADS };
    refuse_if(loads * rows * unroll > most, "more loads on their way than registers to keep them")
}

/// Twin of `weight_loads` in `kernels-wgsl/shared/block/`; `None` for formats that have no file there.
fn loads(format: Format) -> Option<u32> {
    match format {
        Format::Q4_K => Some(5),
        Format::Q5_K | Format::Q6_KT => Some(7),
        _ => None,
    }
}
