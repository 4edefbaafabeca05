//! How the stages of a persistent kernel hand values over to one another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How stages hand values over. The sums are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum HandOver {
    /// Behind a barrier among all workgroups.
    #[default]
    Barrier,
    /// Values announce themselves: who needs one looks at its cell until it is there. A barrier is left where stages have more in
    /// common than values.
    Announced,
}

impl fmt::Display for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandOver::Barrier => "barrier",
            HandOver::Announced => "announced",
        })
    }
}
