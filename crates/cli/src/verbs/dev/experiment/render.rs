//! `wgoose dev experiment render`: pages and pictures of what is recorded.

use super::readme::readme;
use super::recorded::Recorded;
use crate::failure::Failure;
use crate::out;
use std::path::PathBuf;
use wgoose_report::picture;

pub(super) fn run(folders: &[PathBuf]) -> Result<(), Failure> {
    folders.iter().try_for_each(|folder| write(&Recorded::open(folder)?))
}

/// Writes the README of an experiment, and the picture of each device.
pub(super) fn write(recorded: &Recorded) -> Result<(), Failure> {
    let answers = recorded.answers()?;
    for answered in &answers {
        out::file(&recorded.result(&answered.device, "svg"), picture(&answered.findings).as_bytes())?;
    }
    Ok(out::file(&recorded.folder.join("README.md"), readme(recorded, &answers).as_bytes())?)
}
