//! Something for wgpu to run on: Metal and DX12 come with the system, on Linux there must be Vulkan.

mod unpacked;

use crate::apt::{self, Rights};
use crate::shell::{Error, Result};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Mesa's drivers include lavapipe, which runs on the CPU: with them every Linux machine has an adapter.
pub(crate) const DEBIAN_PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Makes sure that there is an adapter. On Debian and Ubuntu a software adapter is installed, or unpacked below the target folder
/// where this user may not install packages.
///
/// # Errors
/// Says what to install where we cannot.
pub(crate) fn ensure() -> Result<()> {
    if !cfg!(target_os = "linux") {
        println!("this system brings its own graphics API");
        return Ok(());
    }
    let missing = match Host::this().driver() {
        Ok(_) => {
            println!("Vulkan: a loader and a driver are here");
            return Ok(());
        }
        Err(missing) => missing,
    };
    if !apt::is_here() {
        let hint = "install the Vulkan loader and a driver (your GPU's, or Mesa's lavapipe for the CPU)";
        return Err(Error::Other(format!("{missing}; {hint}")));
    }
    let (what, why) = (DEBIAN_PACKAGES.join(" and "), "(runs on the CPU where there is no GPU)");
    match Rights::find() {
        Some(rights) => {
            println!("{missing}: installing {what} {why}");
            rights.install(&DEBIAN_PACKAGES)?;
            Host::this()
                .driver()
                .map_err(|missing| Error::Other(format!("{missing}, even after installing {what}")))?;
        }
        None => {
            println!("{missing}: unpacking {what} below the target folder {why}");
            unpacked::prepare()?;
        }
    }
    Ok(())
}

/// The variables with which a program finds an unpacked driver; none where this system has a driver of its own.
pub(crate) fn variables() -> Vec<(&'static str, OsString)> {
    let host = Host::this();
    if !cfg!(target_os = "linux") || host.driver().is_ok() {
        return Vec::new();
    }
    unpacked::variables(host.drivers()).unwrap_or_default()
}

/// What a Vulkan installation lacks.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Missing {
    #[error("no Vulkan loader (libvulkan.so.1)")]
    Loader,
    #[error("no Vulkan driver (no manifest in vulkan/icd.d)")]
    Driver,
}

/// A Linux system to look at: the files below `root` and the environment.
struct Host<'a> {
    root: &'a Path,
    variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Host<'_> {
    /// The system that this program runs on.
    fn this() -> Self {
        Host { root: Path::new("/"), variable: &|name| env::var_os(name) }
    }

    /// The first driver manifest that the Vulkan loader would read.
    /// Places: Khronos' loader interface, "Driver Discovery on Linux".
    fn driver(&self) -> std::result::Result<PathBuf, Missing> {
        if !self.library_folders().iter().any(|folder| folder.join("libvulkan.so.1").exists()) {
            return Err(Missing::Loader);
        }
        self.drivers().into_iter().next().ok_or(Missing::Driver)
    }

    /// The driver manifests that the Vulkan loader would read.
    fn drivers(&self) -> Vec<PathBuf> {
        let manifests = match self.list("VK_DRIVER_FILES").or_else(|| self.list("VK_ICD_FILENAMES")) {
            Some(chosen) => {
                chosen.into_iter().flat_map(|path| if path.is_dir() { manifests(&path) } else { vec![path] }).collect()
            }
            None => self.manifest_folders().iter().flat_map(|folder| manifests(folder)).collect::<Vec<_>>(),
        };
        manifests.into_iter().filter(|path| path.is_file()).collect()
    }

    fn manifest_folders(&self) -> Vec<PathBuf> {
        let home = (self.variable)("HOME").map(|home| self.below(Path::new(&home)).join(".local/share"));
        let shared =
            ["etc", "usr/local/share", "usr/share", "run/opengl-driver/share"].map(|path| self.root.join(path));
        let data = self.list("XDG_DATA_DIRS").unwrap_or_default();
        home.into_iter().chain(shared).chain(data).map(|folder| folder.join("vulkan/icd.d")).collect()
    }

    fn library_folders(&self) -> Vec<PathBuf> {
        let fixed = ["usr/lib", "usr/lib64", "lib", "lib64", "usr/local/lib", "run/opengl-driver/lib"];
        let multiarch =
            files(&self.root.join("usr/lib")).into_iter().filter(|path| path.to_string_lossy().ends_with("-linux-gnu"));
        let mut folders = self.list("LD_LIBRARY_PATH").unwrap_or_default();
        folders.extend(fixed.map(|path| self.root.join(path)));
        folders.extend(multiarch);
        folders
    }

    /// The paths in a variable; `None` when it is unset or empty.
    fn list(&self, variable: &str) -> Option<Vec<PathBuf>> {
        let value = (self.variable)(variable).filter(|value| !value.is_empty())?;
        Some(env::split_paths(&value).map(|path| self.below(&path)).collect())
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn manifests(folder: &Path) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
}

/// What a folder holds, sorted; nothing when it cannot be read.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: &str = "usr/lib/x86_64-linux-gnu/libvulkan.so.1";

    fn driver(present: &[&str], variables: &[(&str, &str)]) -> std::result::Result<String, Missing> {
        let root = tempfile::tempdir().unwrap();
        for path in present {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let variable = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        let found = Host { root: root.path(), variable: &variable }.driver()?;
        Ok(found.strip_prefix(root.path()).unwrap().to_string_lossy().into_owned())
    }

    #[test]
    fn loader_and_manifest_make_a_driver() {
        let icd = "usr/share/vulkan/icd.d/lvp_icd.json";
        assert_eq!(driver(&[LOADER, icd], &[]).as_deref(), Ok(icd));
        assert_eq!(driver(&["opt/lib/libvulkan.so.1", icd], &[("LD_LIBRARY_PATH", "/x:/opt/lib")]).as_deref(), Ok(icd));
    }

    #[test]
    fn loader_or_manifest_alone_is_not_enough() {
        assert_eq!(driver(&[], &[]), Err(Missing::Loader));
        assert_eq!(driver(&["etc/vulkan/icd.d/nvidia.json"], &[]), Err(Missing::Loader));
        assert_eq!(driver(&[LOADER], &[]), Err(Missing::Driver));
        assert_eq!(driver(&[LOADER, "usr/share/vulkan/icd.d/README"], &[]), Err(Missing::Driver));
    }

    #[test]
    fn the_environment_overrides_the_folders() {
        let both = [LOADER, "usr/share/vulkan/icd.d/a.json", "opt/icd/b.json"];
        assert_eq!(driver(&both, &[("VK_DRIVER_FILES", "/opt/icd/b.json")]).as_deref(), Ok("opt/icd/b.json"));
        assert_eq!(driver(&both, &[("VK_ICD_FILENAMES", "/opt/icd")]).as_deref(), Ok("opt/icd/b.json"));
        assert_eq!(driver(&both, &[("VK_DRIVER_FILES", "/gone.json")]), Err(Missing::Driver));
        assert_eq!(driver(&both, &[("VK_DRIVER_FILES", "")]).as_deref(), Ok("usr/share/vulkan/icd.d/a.json"));
        assert_eq!(
            driver(&["opt/share/vulkan/icd.d/c.json", LOADER], &[("XDG_DATA_DIRS", "/opt/share")]).as_deref(),
            Ok("opt/share/vulkan/icd.d/c.json")
        );
    }
}
