//! Other versions of RWKV, told by tensors that RWKV-7 has not.

use std::fmt;

/// A version of RWKV that does not run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherRwkv {
    /// RWKV-4.
    V4,
    /// RWKV-5.
    V5,
    /// RWKV-6.
    V6,
    /// RWKV-8, whose attention is a suffix automaton (ROSA).
    V8,
}

/// Parts of names, each in one version and in those after its kind; the newest version comes first.
///
/// Sources: `RWKV-v8/260222_rosa4bitLM_L12.py` and `RWKV-v{4neo,5}/src/model.py` in BlinkDL/RWKV-LM.
const PARTS: [(&str, OtherRwkv); 4] = [
    (".rosa", OtherRwkv::V8),
    (".att.time_maa", OtherRwkv::V6),
    (".att.time_faaaa", OtherRwkv::V5),
    (".att.time_first", OtherRwkv::V4),
];

impl OtherRwkv {
    /// The version that a file with tensors of such names is of, and the name that says so.
    pub(crate) fn of<'a>(names: &(impl Iterator<Item = &'a str> + Clone)) -> Option<(Self, &'a str)> {
        PARTS.into_iter().find_map(|(part, version)| Some((version, names.clone().filter(|n| n.contains(part)).min()?)))
    }
}

impl fmt::Display for OtherRwkv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OtherRwkv::V4 => "RWKV-4",
            OtherRwkv::V5 => "RWKV-5",
            OtherRwkv::V6 => "RWKV-6",
            OtherRwkv::V8 => "RWKV-8",
        })
    }
}
