//! What products in tiles on matrix units accept (`stages/matrix_tile.wgsl`).

use crate::plan::bucket;
use crate::{Feature, Refusal, Site, Tunables, refuse_if};
use wgoose_graph::Format;

pub(super) const NEEDS: &[Feature] = &[Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix];

/// Products of several tokens with matrices in f16.
pub(super) fn accept(site: &Site, p: &Tunables, matrices: &[&str]) -> Result<(), Refusal> {
    let in_f16 = |name: &&str| site.format(name) == Some(Format::F16);
    refuse_if(!matrices.iter().all(in_f16), "matrix units multiply f16")?;
    // By the bucket: a plan's choice has to serve every row count of its bucket.
    refuse_if(bucket(site.rows) < 16, "so few tokens leave most of a tile empty")?;
    refuse_if(!site.k.is_multiple_of(16), "k must be a multiple of 16")?;
    refuse_if(!site.window.is_multiple_of(p.number("TILE_ROWS")), "tiles do not end where the rows do")?;
    let (parts, depth, ahead) = (p.number("PARTS"), p.number("DEPTH"), p.number("AHEAD"));
    refuse_if(site.k < 16 * parts * depth * ahead, "fewer columns than are on their way")?;
    let loads = depth * ahead * p.number("TILE_ROWS") / 16;
    refuse_if(loads > 8, "more loads on their way than registers to keep them")
}

/// Workgroups for every tile of a matrix.
pub(super) fn units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.window / p.number("TILE_ROWS")) * u64::from(site.rows.div_ceil(p.number("TILE_TOKENS")))
}
