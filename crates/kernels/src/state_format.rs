//! How the WKV matrices of the recurrent state are stored on a device.

use crate::Precision;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How the WKV matrices are stored. Kernels compute in f32 whatever it is: a pass loads them, and rounds them once as
/// it stores them, so that in f16 the bits of a result depend on where passes end. The rows of the token shift are f32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum StateFormat {
    /// f32.
    #[default]
    F32,
    /// f16, two to a word, without a scale: finite values beyond [`StateFormat::LARGEST_F16`] become that.
    F16,
}

/// A name that is no [`StateFormat`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no state format '{0}': f32, f16")]
pub struct UnknownStateFormat(pub String);

impl FromStr for StateFormat {
    type Err = UnknownStateFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = StateFormat::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| UnknownStateFormat(name.to_owned()))
    }
}

impl StateFormat {
    /// Every format.
    pub const ALL: [StateFormat; 2] = [StateFormat::F32, StateFormat::F16];

    /// The largest f16; must match `kernels-wgsl/lib/state/f16.wgsl`.
    pub const LARGEST_F16: f32 = 65504.0;

    /// As options name it, and the file of its readers in `kernels-wgsl/lib/state/`.
    pub const fn name(self) -> &'static str {
        match self {
            StateFormat::F32 => "f32",
            StateFormat::F16 => "f16",
        }
    }

    /// Bytes of a value.
    pub const fn value_bytes(self) -> u64 {
        match self {
            StateFormat::F32 => 4,
            StateFormat::F16 => 2,
        }
    }

    /// The class of precision that it belongs to.
    pub const fn precision(self) -> Precision {
        match self {
            StateFormat::F32 => Precision::F32,
            StateFormat::F16 => Precision::F16,
        }
    }
}

impl fmt::Display for StateFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
