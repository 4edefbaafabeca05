//! The source package for PyPI: made by maturin, and compared with what a build has read.
//!
//! It is built from the folders that `pyproject.toml` names. A folder forgotten there is a package that cannot be
//! built, which shows only outside of the repository: hence the comparison, in seconds, and `cargo xtask release sdist
//! --build`, in minutes.

use crate::licences;
use crate::shell::{self, Error, Result, capture, command};
use crate::wgoose::target;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Makes the package in a folder; `python` has maturin.
///
/// # Errors
/// When a licence is missing ([`licences::write`] makes one of them), or maturin fails.
pub(crate) fn make(python: &Path, out: &Path) -> Result<PathBuf> {
    shell::run(command(python, ["-m", "maturin", "sdist", "--out"]).arg(out))?;
    let entries = fs::read_dir(out).map_err(|e| Error::file("read", out, e))?;
    let made = entries.filter_map(|entry| entry.ok()).map(|entry| entry.path());
    let mut made = made.filter(|path| path.to_string_lossy().ends_with(".tar.gz") && is_package(path));
    let archive =
        made.next().ok_or_else(|| Error::Other(format!("maturin has left no package in {}", out.display())))?;
    lacks(&archive, licences::ALL.iter().map(|name| (*name).to_owned()))?;
    Ok(archive)
}

fn is_package(path: &Path) -> bool {
    path.file_name().is_some_and(|name| {
        // Programs are archives, too: wgoose-VERSION-TARGET.tar.gz.
        name.to_string_lossy().strip_prefix("wgoose-").is_some_and(|rest| !rest.contains('-'))
    })
}

/// Compares a package with what the last development build of the extension module has read:
/// `target/debug/libwgoose_python.d`.
///
/// # Errors
/// Names what the package lacks.
pub(crate) fn check(archive: &Path) -> Result<()> {
    let prefix = if cfg!(windows) { "" } else { "lib" };
    let list = target().join("debug").join(format!("{prefix}wgoose_python.d"));
    let text = fs::read_to_string(&list).map_err(|e| Error::file("read", &list, e))?;
    let root = fs::canonicalize(".").map_err(|e| Error::file("enter", ".".as_ref(), e))?;
    let built = fs::canonicalize(target()).map_err(|e| Error::file("find", &target(), e))?;
    let read = dependencies(&text).into_iter().filter_map(|path| fs::canonicalize(path).ok());
    let sources = read.filter(|path| path.is_file() && !path.starts_with(&built));
    let sources: BTreeSet<_> = sources.filter_map(|path| Some(slashes(path.strip_prefix(&root).ok()?))).collect();
    if !sources.iter().any(|path| path.ends_with(".wgsl")) {
        return Err(Error::Other(format!("{} lists no kernel: build the Python package first", list.display())));
    }
    println!("{} files were read for the build", sources.len());
    lacks(archive, sources)
}

fn slashes(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Names the files that an archive does not have below its one folder.
fn lacks(archive: &Path, files: impl IntoIterator<Item = String>) -> Result<()> {
    let listing = capture(command("tar", ["-tzf"]).arg(archive))?;
    let there: BTreeSet<_> = listing.lines().filter_map(|line| Some(line.split_once('/')?.1)).collect();
    let missing: Vec<_> = files.into_iter().filter(|file| !there.contains(file.as_str())).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Other(format!("{} lacks {} (pyproject.toml: include)", archive.display(), missing.join(", "))))
}

/// The files in a rule of make as rustc writes it: `target: file file`, blanks in names behind `\`.
fn dependencies(rule: &str) -> Vec<PathBuf> {
    let files = rule.split_once(": ").map_or("", |(_, files)| files).trim();
    let files = files.replace("\\ ", "\0");
    files.split_whitespace().map(|file| file.replace('\0', " ").into()).collect()
}

/// Installs a package as pip does outside of the repository, into an empty environment, and imports it.
///
/// # Errors
/// When it does not build, or cannot be imported.
pub(crate) fn build(python: &Path, archive: &Path) -> Result<()> {
    let archive = fs::canonicalize(archive).map_err(|e| Error::file("find", archive, e))?;
    let place = tempfile::tempdir().map_err(|e| Error::file("make a folder in", &std::env::temp_dir(), e))?;
    let place = place.path();
    shell::run(command(python, ["-m", "venv"]).arg(place))?;
    let own = place.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let pip = ["-m", "pip", "install", "--disable-pip-version-check"];
    shell::run(command(&own, pip).arg(archive).env_remove("CARGO_TARGET_DIR").current_dir(place))?;
    let import = "import wgoose; print(wgoose.__file__); print(wgoose.devices())";
    shell::run(command(&own, ["-c", import]).current_dir(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_of_make_is_read() {
        let rule = "/a b/lib.so: /a/one.rs /a\\ b/two.rs\n";
        assert_eq!(dependencies(rule), [PathBuf::from("/a/one.rs"), PathBuf::from("/a b/two.rs")]);
    }

    #[test]
    fn missing_files_of_an_archive_are_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("wgoose-1")).unwrap();
        fs::write(folder.path().join("wgoose-1/LICENSE"), "text").unwrap();
        let archive = folder.path().join("wgoose-1.tar.gz");
        shell::run(command("tar", ["-czf"]).arg(&archive).arg("-C").arg(folder.path()).arg("wgoose-1")).unwrap();
        assert!(lacks(&archive, ["LICENSE".to_owned()]).is_ok());
        let error = lacks(&archive, ["LICENSE", "a.wgsl", "b"].map(str::to_owned)).unwrap_err().to_string();
        assert!(error.contains(" lacks a.wgsl, b ("), "{error}");
    }

    #[test]
    fn programs_are_no_packages() {
        assert!(is_package("out/wgoose-0.1.0.tar.gz".as_ref()));
        assert!(!is_package("out/wgoose-0.1.0-x86_64-unknown-linux-gnu.tar.gz".as_ref()));
    }
}
