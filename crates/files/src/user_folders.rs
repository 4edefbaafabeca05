//! Where files of a user are kept by default.

use etcetera::base_strategy::{BaseStrategy, choose_native_strategy};
use std::ffi::OsString;
use std::path::PathBuf;

/// The folder of what belongs to the user, such as plans: `WGOOSE_DATA_DIR` if that is set and not empty, else `wgoose`
/// in the platform's folder for a user's data. `None` if the user has no home. The folder need not exist.
pub fn default_data_dir() -> Option<PathBuf> {
    let platform = || choose_native_strategy().ok().map(|strategy| strategy.data_dir());
    folder(std::env::var_os("WGOOSE_DATA_DIR"), platform)
}

/// The folder of the pipeline cache: `WGOOSE_CACHE_DIR` if that is set and not empty, else `wgoose` in the platform's
/// folder for a user's caches. `None` if the user has no home. The folder need not exist.
pub fn default_cache_dir() -> Option<PathBuf> {
    let platform = || choose_native_strategy().ok().map(|strategy| strategy.cache_dir());
    folder(std::env::var_os("WGOOSE_CACHE_DIR"), platform)
}

fn folder(wanted: Option<OsString>, platform: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    match wanted.filter(|folder| !folder.is_empty()) {
        Some(folder) => Some(folder.into()),
        None => Some(platform()?.join("wgoose")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_variable_overrides_the_platform() {
        let platform = || Some(PathBuf::from("data"));
        assert_eq!(folder(Some("mine".into()), platform), Some("mine".into()));
        assert_eq!(folder(Some(OsString::new()), platform), Some("data/wgoose".into()));
        assert_eq!(folder(None, platform), Some("data/wgoose".into()));
        assert_eq!(folder(None, || None), None);
    }
}
