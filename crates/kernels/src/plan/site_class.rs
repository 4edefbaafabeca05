//! Kinds of sites: what a plan makes one choice for.

use crate::Site;
use serde::{Deserialize, Serialize};
use wgoose_graph::Format;

/// Sites that take the same kernel: same op, sizes, formats and token bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteClass {
    /// The op's name.
    pub op: String,
    /// Columns of the input.
    pub k: u32,
    /// Columns of the output.
    pub m: u32,
    /// Formats of the op's matrices, in operand order.
    pub formats: Vec<Format>,
    /// It serves row counts up to this one, from the next smaller bucket on.
    pub up_to_rows: u32,
}

/// The token bucket of a row count: the smallest of 1, 4, 16, 64, 256, ... that is not below it.
pub fn bucket(rows: u32) -> u32 {
    let power = rows.max(1).next_power_of_two();
    if power.trailing_zeros().is_multiple_of(2) { power } else { power.saturating_mul(2) }
}

impl SiteClass {
    /// The class of a site.
    pub fn of(site: &Site) -> Self {
        SiteClass {
            op: site.op.name().to_owned(),
            k: site.k,
            m: site.m,
            formats: site.inputs.iter().filter_map(|i| i.format).collect(),
            up_to_rows: bucket(site.rows),
        }
    }
}

impl SiteClass {
    /// The same sites in another bucket.
    pub(super) fn in_bucket(&self, up_to_rows: u32) -> Self {
        SiteClass { up_to_rows, ..self.clone() }
    }
}

impl std::fmt::Display for SiteClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.op, self.k, self.m)?;
        self.formats.iter().try_for_each(|format| write!(f, " {format}"))?;
        write!(f, " rows<={}", self.up_to_rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_serve_up_to() {
        assert_eq!([0, 1, 2, 4, 5, 16, 17, 64, 65, 256, 257].map(bucket), [1, 1, 4, 4, 16, 16, 64, 64, 256, 256, 1024]);
    }
}
