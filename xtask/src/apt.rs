//! Packages on Debian and its descendants.

use crate::shell::{self, Error, Result, command};
use std::fs;

/// Whether this system installs packages with apt.
pub(crate) fn is_here() -> bool {
    cfg!(target_os = "linux") && fs::read_to_string("/etc/os-release").is_ok_and(|text| descends_from_debian(&text))
}

/// Installs packages, as root or through `sudo` where it asks for no password.
///
/// # Errors
/// Without such rights (the message says what to type), or when apt fails.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let prefix: &[&str] = if shell::probe(&mut command("id", ["-u"])).as_deref() == Some("0") {
        &["env"]
    } else if shell::probe(&mut command("sudo", ["-n", "true"])).is_some() {
        &["sudo", "-n", "env"]
    } else {
        let packages = packages.join(" ");
        return Err(Error::Other(format!("no rights to install packages; run: sudo apt-get install {packages}")));
    };
    let apt = |words: &[&str]| {
        let quiet = ["DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"];
        command(prefix[0], prefix[1..].iter().chain(&quiet).chain(words))
    };
    // One unreachable third-party list must not stop us; if the lists that matter failed, so does the installation.
    if let Err(error) = shell::run(&mut apt(&["update"])) {
        println!("{error}; going on with the package lists at hand");
    }
    shell::run(&mut apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat()))
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
}
