//! A plan as a file.

use crate::failure::Failure;
use std::io::{ErrorKind, Write};
use std::path::Path;
use wgoose_files::{Existing, NewFile};
use wgoose_plans::Listed;

/// Writes the plan; a file that is there stays.
pub(super) fn run(listed: Listed, file: &Path) -> Result<(), Failure> {
    let plan = listed.plan?;
    let written = NewFile::beside(file).and_then(|mut new| {
        new.file().write_all(plan.to_ron().as_bytes())?;
        new.finish(Existing::Keep)
    });
    match written {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            Err(format!("{} exists already: remove it first, or name another file", file.display()).into())
        }
        Err(e) => Err(format!("{}: {e}", file.display()).into()),
    }
}
