//! Again, whenever a file of the folder changes.

use crate::failure::Failure;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wgoose_session::one_line;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_millis(200);

/// When each WGSL file was written.
type Written = BTreeMap<PathBuf, SystemTime>;

/// Runs until it is interrupted: a round at once, and one after every change. What is wrong is said, and mended in the
/// next round.
pub(super) fn watch(folder: &Path, round: impl Fn() -> Result<(), Failure>) -> Result<(), Failure> {
    loop {
        let before = written(folder)?;
        if let Err(error) = round() {
            eprintln!("wgoose: {}", one_line(error.as_ref()));
        }
        eprintln!("waiting for a change in {}", folder.display());
        while written(folder)? == before {
            std::thread::sleep(PERIOD);
        }
    }
}

fn written(folder: &Path) -> Result<Written, Failure> {
    let mut found = Written::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let path = entry?.path();
            match std::fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => folders.push(path),
                Ok(meta) if path.extension().is_some_and(|e| e == "wgsl") => drop(found.insert(path, meta.modified()?)),
                // An editor's file of a moment.
                _ => {}
            }
        }
    }
    Ok(found)
}
