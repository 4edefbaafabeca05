//! A Vulkan loader and Mesa's drivers without installing them: the packages that this system lacks are unpacked below the target
//! folder, and variables tell the loader where its drivers are.

use super::DEBIAN_PACKAGES;
use crate::apt::Lists;
use crate::shell::{Error, Result, command, run};
use crate::wgoose::target;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the unpacked packages: complete if it has this name.
fn root() -> PathBuf {
    target().join("vulkan")
}

/// Downloads and unpacks the packages, unless they are there.
///
/// # Errors
/// They cannot be downloaded, or the disk is full.
pub(super) fn prepare() -> Result<()> {
    if root().is_dir() {
        return Ok(());
    }
    fs::create_dir_all(target()).map_err(|e| Error::file("create", &target(), e))?;
    let work = tempfile::tempdir_in(absolute(&target())?).map_err(|e| Error::file("make a folder in", &target(), e))?;
    let part = work.path().join("unpacked");
    for package in Lists::fetch(work.path())?.download_missing(&DEBIAN_PACKAGES)? {
        run(command("dpkg-deb", ["--extract"]).arg(package).arg(&part))?;
    }
    for manifest in manifests(&part)? {
        let text = fs::read_to_string(&manifest).map_err(|e| Error::file("read", &manifest, e))?;
        fs::write(&manifest, with_library_beside(&text)?).map_err(|e| Error::file("write", &manifest, e))?;
    }
    fs::rename(&part, root()).map_err(|e| Error::file("rename", &part, e))
}

/// The variables with which a program finds the unpacked loader and its drivers, and still the drivers of this system; nothing
/// if nothing was unpacked.
///
/// # Errors
/// The unpacked folder cannot be read.
pub(super) fn variables(of_system: Vec<PathBuf>) -> Result<Vec<(&'static str, OsString)>> {
    if !root().is_dir() {
        return Ok(Vec::new());
    }
    let root = absolute(&root())?;
    let drivers = env::join_paths(of_system.into_iter().chain(manifests(&root)?));
    let known = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    // What a system has is not unpacked: these folders hide none of its libraries.
    let libraries =
        library_folders(&root).into_iter().chain(env::split_paths(&known).filter(|path| *path != Path::new("")));
    let colon = |e: env::JoinPathsError| Error::Other(format!("{} cannot be used for drivers: {e}", root.display()));
    let drivers = drivers.map_err(colon)?;
    // Loaders before 1.3.207 know the old name alone.
    Ok(vec![
        ("VK_DRIVER_FILES", drivers.clone()),
        ("VK_ICD_FILENAMES", drivers),
        ("LD_LIBRARY_PATH", env::join_paths(libraries).map_err(colon)?),
    ])
}

fn absolute(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).map_err(|e| Error::file("find", path, e))
}

/// Where a package has its manifests.
const MANIFESTS: &str = "usr/share/vulkan/icd.d";

/// From there to where the package was unpacked.
const ROOT: &str = "../../../..";

fn manifests(root: &Path) -> Result<Vec<PathBuf>> {
    let found = super::manifests(&root.join(MANIFESTS));
    if found.is_empty() {
        return Err(Error::Other(format!(
            "no driver was unpacked in {}: remove the folder and try again",
            root.display()
        )));
    }
    Ok(found)
}

fn library_folders(root: &Path) -> Vec<PathBuf> {
    let folders = super::files(&root.join("usr/lib"));
    folders.into_iter().filter(|path| path.to_string_lossy().ends_with("-linux-gnu")).collect()
}

/// A driver's manifest with the path of its library relative to itself, so that the folder may be moved.
fn with_library_beside(manifest: &str) -> Result<String> {
    let wrong = |why: String| Error::Other(format!("a driver's manifest cannot be read: {why}"));
    let mut json: serde_json::Value = serde_json::from_str(manifest).map_err(|e| wrong(e.to_string()))?;
    let path = json["ICD"]["library_path"].as_str().ok_or_else(|| wrong("it names no library".to_owned()))?;
    // A name without a folder is searched for in LD_LIBRARY_PATH.
    if path.starts_with('/') {
        json["ICD"]["library_path"] = format!("{ROOT}{path}").into();
    }
    Ok(json.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_driver_finds_its_library() {
        let of = |path: &str| format!(r#"{{"ICD":{{"api_version":"1.3","library_path":"{path}"}}}}"#);
        let moved = |path: &str| with_library_beside(&of(path)).unwrap();
        assert_eq!(moved("/usr/lib/x86_64-linux-gnu/lvp.so"), of("../../../../usr/lib/x86_64-linux-gnu/lvp.so"));
        assert_eq!(moved("lvp.so"), of("lvp.so"));
        assert!(with_library_beside("{}").is_err());
    }
}
