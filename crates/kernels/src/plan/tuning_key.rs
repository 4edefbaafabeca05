//! Tuning keys: what a plan makes one choice for.

use crate::{Instance, bucket};
use serde::{Deserialize, Serialize};
use wgoose_graph::Format;

/// Op instances that take the same kernel: same op, sizes, formats and bucket of rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TuningKey {
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

impl TuningKey {
    /// The class of an instance.
    pub fn of(instance: &Instance) -> Self {
        TuningKey {
            op: instance.op.name().to_owned(),
            k: instance.k,
            m: instance.m,
            formats: instance.inputs.iter().filter_map(|i| i.format).collect(),
            up_to_rows: bucket(instance.rows),
        }
    }

    /// The same instances in another bucket.
    pub(super) fn in_bucket(&self, up_to_rows: u32) -> Self {
        TuningKey { up_to_rows, ..self.clone() }
    }
}

impl std::fmt::Display for TuningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.op, self.k, self.m)?;
        self.formats.iter().try_for_each(|format| write!(f, " {format}"))?;
        write!(f, " rows<={}", self.up_to_rows)
    }
}
