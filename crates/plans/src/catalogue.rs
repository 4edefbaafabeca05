//! The kernels of the program with its speed heuristics: `plans/heuristics/*.txt` of the repository.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use wgoose_kernels::{Catalogue, Heuristics, HeuristicsText, LibraryError};

/// Every file of rules, by its path in the repository.
static TEXTS: &[HeuristicsText<'_>] = include!(concat!(env!("OUT_DIR"), "/heuristics.rs"));

static HEURISTICS: LazyLock<Arc<Heuristics>> = LazyLock::new(|| {
    let read = Heuristics::read(TEXTS, &Catalogue::embedded());
    Arc::new(read.unwrap_or_else(|e| panic!("a speed heuristic of this program is wrong: {e}")))
});

/// [`Catalogue::embedded`] with the program's speed heuristics.
///
/// # Panics
/// If these cannot be read: a bug that every test finds.
pub fn embedded() -> Arc<Catalogue> {
    static EMBEDDED: LazyLock<Arc<Catalogue>> = LazyLock::new(|| guided(&Catalogue::embedded()));
    Arc::clone(&EMBEDDED)
}

/// [`Catalogue::with_folder`] with the program's speed heuristics, which are also about files that take the place of
/// the program's. New kernels have none.
///
/// # Errors
/// The folder, or a file in it that is wrong.
pub fn with_folder(folder: &Path) -> Result<Arc<Catalogue>, LibraryError> {
    Ok(guided(&*Catalogue::with_folder(folder)?))
}

/// [`Catalogue::with_folder_in_part`] with the program's speed heuristics.
///
/// # Errors
/// The folder.
pub fn with_folder_in_part(folder: &Path) -> Result<Arc<Catalogue>, LibraryError> {
    Ok(guided(&*Catalogue::with_folder_in_part(folder)?))
}

fn guided(catalogue: &Catalogue) -> Arc<Catalogue> {
    Arc::new(catalogue.with_heuristics(&HEURISTICS))
}
