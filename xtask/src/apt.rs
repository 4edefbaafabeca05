//! Packages on Debian and its descendants.

use crate::shell::{self, Error, Result, capture, command};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether this system installs packages with apt.
pub(crate) fn is_here() -> bool {
    cfg!(target_os = "linux") && fs::read_to_string("/etc/os-release").is_ok_and(|text| descends_from_debian(&text))
}

/// The right to install packages: the words before a command that has it.
pub(crate) struct Rights(&'static [&'static str]);

impl Rights {
    /// Those of root, or of `sudo` where it asks for no password.
    pub(crate) fn find() -> Option<Self> {
        if shell::probe(&mut command("id", ["-u"])).as_deref() == Some("0") {
            Some(Rights(&["env"]))
        } else {
            shell::probe(&mut command("sudo", ["-n", "true"])).map(|_| Rights(&["sudo", "-n", "env"]))
        }
    }

    /// Installs packages.
    ///
    /// # Errors
    /// When apt fails.
    pub(crate) fn install(&self, packages: &[&str]) -> Result<()> {
        let apt = |words: &[&str]| {
            let quiet = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"];
            command(self.0[0], self.0[1..].iter().chain(&quiet).chain(words))
        };
        // One unreachable third-party list must not stop us; if the lists that matter failed, so does the installation.
        if let Err(error) = shell::run(&mut apt(&["update"])) {
            println!("{error}; going on with the package lists at hand");
        }
        shell::run(&mut apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat()))
            .map_err(|_| not_fetched(packages))
    }
}

/// Installs packages.
///
/// # Errors
/// Without the right to (the message says what to type), or when apt fails.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let none = || Error::Other(format!("no right to install packages: run `{}`", by_hand(packages)));
    Rights::find().ok_or_else(none)?.install(packages)
}

/// What a person types who has the right to install packages.
fn by_hand(packages: &[&str]) -> String {
    format!("sudo apt-get install {}", packages.join(" "))
}

fn not_fetched(packages: &[&str]) -> Error {
    let (names, command) = (packages.join(" and "), by_hand(packages));
    Error::Other(format!("{names} cannot be downloaded: connect this machine to the network, or run `{command}`"))
}

/// Package lists in a folder, for users who may not change the system's.
pub(crate) struct Lists<'a> {
    folder: &'a Path,
}

impl<'a> Lists<'a> {
    /// Fetches the lists of the sources that this system has. The folder's path is absolute.
    ///
    /// # Errors
    /// Without a network, or on a full disk.
    pub(crate) fn fetch(folder: &'a Path) -> Result<Self> {
        let lists = Lists { folder };
        let parts = folder.join("lists/partial");
        fs::create_dir_all(&parts).map_err(|e| Error::file("create", &parts, e))?;
        // Some lists may fail: the download says whether one of them mattered.
        if let Err(error) = shell::run(&mut lists.apt(["update"])) {
            println!("{error}; going on with the package lists at hand");
        }
        Ok(lists)
    }

    /// Downloads packages and all that they depend on, except what is installed.
    ///
    /// # Errors
    /// A package is unknown, or cannot be downloaded.
    pub(crate) fn download_missing(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        let needed = ["--simulate", "--no-install-recommends", "install"].iter().chain(packages);
        let plan = capture(&mut self.apt(needed)).map_err(|_| not_fetched(packages))?;
        let mut download = self.apt(["download"].into_iter().chain(to_install(&plan)));
        shell::run(download.current_dir(self.folder)).map_err(|_| not_fetched(packages))?;
        let entries = fs::read_dir(self.folder).map_err(|e| Error::file("list", self.folder, e))?;
        let paths = entries.flatten().map(|entry| entry.path());
        Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
    }

    fn apt(&self, words: impl IntoIterator<Item = impl AsRef<std::ffi::OsStr>>) -> Command {
        let mut apt = command("apt-get", ["-qq"]);
        for (place, name) in [("Dir::State::lists", "lists"), ("Dir::Cache", "cache")] {
            apt.arg("-o").arg(format!("{place}={}", self.folder.join(name).display()));
        }
        apt.args(words);
        apt
    }
}

/// The packages that a simulated installation would install: the lines `Inst NAME ...`.
fn to_install(plan: &str) -> Vec<&str> {
    plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next()).collect()
}

/// Reads os-release(5): `ID` or `ID_LIKE` names Debian or Ubuntu.
fn descends_from_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split(' '))
        .any(|id| matches!(id, "debian" | "ubuntu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_known_by_id() {
        assert!(descends_from_debian("PRETTY_NAME=\"Debian\"\nID=debian\n"));
        assert!(descends_from_debian("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!descends_from_debian("ID=fedora\nHOME_URL=\"https://debian.org\"\nVARIANT_ID=debian\n"));
    }

    #[test]
    fn a_simulated_installation_names_its_packages() {
        let plan = "Inst libdrm-common (2.4 Debian:12 [all]) []\nInst libllvm15 [1] (2 Debian:12 [amd64])\nConf libllvm15 (2)\n";
        assert_eq!(to_install(plan), ["libdrm-common", "libllvm15"]);
    }
}
