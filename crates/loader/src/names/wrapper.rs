//! Prefixes that training puts before the names of a model.

use std::collections::{BTreeSet, HashMap};

/// Parts that PyTorch puts into names at any place: modules that were compiled (`torch.compile`) or wrapped for several
/// devices (`DataParallel`). No convention has a part of these names.
const WRAPPING_PARTS: [&str; 2] = ["_orig_mod", "module"];

/// Modules that hold a whole model: they come before all names, the head's too.
const WRAPPERS: [&str; 2] = ["rwkv.", "model."];

/// Wrappers in each other, at most.
const MAX_WRAPPERS: usize = 2;

/// The names of a file by what is left of them without the parts that wrap modules. Where that leaves two names alike,
/// the one that was shorter in the file counts, and the other stays as it is.
pub(super) fn unwrapped<'a>(names: impl Iterator<Item = &'a str>) -> HashMap<String, String> {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable_by_key(|name| (name.len(), *name));
    let mut in_file = HashMap::with_capacity(names.len());
    for name in names {
        let parts: Vec<&str> = name.split('.').filter(|part| !WRAPPING_PARTS.contains(part)).collect();
        let local = parts.join(".");
        let key = if in_file.contains_key(&local) { name.to_owned() } else { local };
        in_file.insert(key, name.to_owned());
    }
    in_file
}

/// What may be a wrapper around the names of a file, none first.
pub(super) fn wrappers<'a>(names: impl Iterator<Item = &'a String>) -> BTreeSet<String> {
    let mut found = BTreeSet::from([String::new()]);
    for name in names {
        let mut end = 0;
        for _ in 0..MAX_WRAPPERS {
            let Some(wrapper) = WRAPPERS.iter().find(|wrapper| name[end..].starts_with(**wrapper)) else { break };
            end += wrapper.len();
            if !found.contains(&name[..end]) {
                found.insert(name[..end].to_owned());
            }
        }
    }
    found
}
