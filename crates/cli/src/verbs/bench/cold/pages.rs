//! The pages of a model's files: in memory, or not.

use super::report::Temperature;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use wgoose_loader::page_cache::{evict, resident};

/// Largest share of a file that may be left in memory when its pages are said to be cold.
const COLD: f64 = 0.01;

/// Brings the pages of all files into memory, or out of it; the share in memory then, where the system says: the one
/// farthest from what is wanted.
///
/// # Errors
/// A file cannot be read; or its pages stay: where the system cannot drop them, or a file system keeps them.
pub(super) fn prepare(files: &[PathBuf], wanted: Temperature) -> Result<Option<f64>, String> {
    let shares: Option<Vec<f64>> = files.iter().map(|file| prepare_one(file, wanted)).collect::<Result<_, String>>()?;
    let farthest = match wanted {
        Temperature::Warm => f64::min,
        Temperature::Cold => f64::max,
    };
    Ok(shares.and_then(|shares| shares.into_iter().reduce(farthest)))
}

fn prepare_one(path: &Path, wanted: Temperature) -> Result<Option<f64>, String> {
    let fail = |e: io::Error| format!("{}: {e}", path.display());
    match wanted {
        Temperature::Warm => {
            if resident(path).is_ok_and(|share| share >= 1.0) {
                return Ok(Some(1.0));
            }
            io::copy(&mut File::open(path).map_err(fail)?, &mut io::sink()).map_err(fail)?;
            Ok(resident(path).ok())
        }
        Temperature::Cold => {
            evict(path).map_err(fail)?;
            match resident(path).map_err(fail)? {
                share if share <= COLD => Ok(Some(share)),
                share => Err(format!(
                    "{}: {:.0}% of the file stays in memory: its file system, or another process, keeps them",
                    path.display(),
                    share * 100.0
                )),
            }
        }
    }
}
