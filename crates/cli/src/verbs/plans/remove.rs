//! A plan taken out of the store.

use crate::failure::Failure;
use std::ffi::OsStr;
use std::path::Path;
use wgoose_plans::{Listed, Source, Store, StoreError};

pub(super) fn run(store: Option<&Store>, listed: Listed) -> Result<(), Failure> {
    let store = store.ok_or(StoreError::NoFolder)?;
    let name = match listed.source {
        Source::Store { .. } => listed.name,
        Source::Shipped => return Err(StoreError::Shipped(listed.name).into()),
        Source::File(path) => match name_in(store, &path) {
            Some(name) => name,
            None => return Err(StoreError::Outside(path).into()),
        },
    };
    match store.remove(&name)? {
        true => Ok(outln!("{name} is removed, and what was measured for it")),
        false => Err(StoreError::Unknown(name).into()),
    }
}

/// The name of a file, if it is one of the store.
fn name_in(store: &Store, path: &Path) -> Option<String> {
    let folder = path.parent()?.canonicalize().ok()?;
    let is_inside = folder == store.folder().canonicalize().ok()?;
    path.file_stem().and_then(OsStr::to_str).filter(|_| is_inside).map(str::to_owned)
}
