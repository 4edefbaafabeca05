//! Mesa's newest lavapipe, the one software adapter with matrix units: in a Debian sid chroot, made once below the
//! target folder, in which tests run. Programs built here run there, as its C library is the newer one.

use crate::shell::{self, Error, Result, cargo, command, probe};
use crate::wgoose::target;
use crate::{apt, vulkan};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Debian with little but Mesa.
pub(crate) struct Mesa {
    root: PathBuf,
}

impl Mesa {
    /// Makes the system, unless it is there.
    ///
    /// # Errors
    /// The reason why this machine cannot.
    pub(crate) fn prepare() -> std::result::Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("Mesa's software adapter is for Linux".to_owned());
        }
        if probe(&mut command("id", ["-u"])).as_deref() != Some("0") {
            return Err("only root may chroot".to_owned());
        }
        let root = target().join("mesa-sid");
        if !root.is_dir() {
            if probe(&mut command("debootstrap", ["--version"])).is_none() {
                if !apt::is_here() {
                    return Err("there is no debootstrap".to_owned());
                }
                apt::install(&["debootstrap"]).map_err(|e| format!("there is no debootstrap: {e}"))?;
            }
            println!("making a Debian sid with Mesa in {} (500 MB, once)", root.display());
            make(&root)?;
        }
        let version = command("chroot", [&root])
            .args(["dpkg-query", "--showformat=${Version}", "--show", "mesa-vulkan-drivers"])
            .env("PATH", PATH)
            .output();
        let version = version.map_err(|e| format!("cannot chroot: {e}"))?;
        if !version.status.success() {
            return Err(format!("cannot chroot: {}", String::from_utf8_lossy(&version.stderr).trim()));
        }
        println!("Mesa {}", String::from_utf8_lossy(&version.stdout));
        Ok(Mesa { root })
    }

    /// Tests the check of matrix units there, and the kernels that need some, or those of this op or OP/VARIANT: at random cases, or
    /// also at every choice.
    ///
    /// # Errors
    /// When the tests do not compile, or one fails.
    pub(crate) fn test(&self, kernel: Option<&str>, every_choice: bool) -> Result<()> {
        let built = build_tests()?;
        self.run("check", &program(&built, "wgoose_runtime")?, &["matrix_check"], kernel)?;
        // Every choice is for those who ask: a kernel takes this adapter's compiler up to a minute and a half.
        let all = [
            "variants::random_cases",
            "variants::kernels_that_add_up_alike",
            "variants::matrix_units",
            "variants::every_choice",
        ];
        let which = if every_choice { &all[..] } else { &all[..3] };
        self.run("variants", &program(&built, "runtime")?, which, kernel)
    }

    /// Runs the tests of a program there whose names contain one of these.
    fn run(&self, name: &str, program: &Path, which: &[&str], kernel: Option<&str>) -> Result<()> {
        let inside = self.root.join("root").join(name);
        fs::copy(program, &inside).map_err(|e| Error::file("copy the tests to", &inside, e))?;
        let mut run = command("chroot", [&self.root]);
        run.arg(Path::new("/root").join(name)).args(which).arg("--nocapture");
        // One random case of each: a kernel takes this adapter's compiler some seconds.
        let variables = [
            ("PATH", PATH),
            ("HOME", "/root"),
            ("XDG_RUNTIME_DIR", "/tmp"),
            ("WGOOSE_MATRICES", "1"),
            ("PROPTEST_CASES", "1"),
        ];
        run.env_clear().envs(variables);
        run.envs(kernel.map(|kernel| ("WGOOSE_KERNEL", kernel)));
        shell::run(&mut run)
    }
}

const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Makes the system under another name first: what bears the name is whole.
fn make(root: &Path) -> std::result::Result<(), String> {
    let (part, log) = (root.with_extension("part"), root.with_extension("log"));
    let failed = |what: &str, e: std::io::Error| format!("cannot {what}: {e}");
    if part.exists() {
        fs::remove_dir_all(&part).map_err(|e| failed("remove what an earlier run left", e))?;
    }
    fs::create_dir_all(target()).map_err(|e| failed("make the target folder", e))?;
    let output = File::create(&log).map_err(|e| failed("write a log", e))?;
    let errors = output.try_clone().map_err(|e| failed("write a log", e))?;
    let include = format!("--include={}", vulkan::DEBIAN_PACKAGES.join(","));
    let mut debootstrap = command("debootstrap", ["--variant=minbase", &include, "sid"]);
    debootstrap.arg(&part).args(archive()).stdout(output).stderr(errors);
    if let Some(proxy) = proxy() {
        debootstrap.env("http_proxy", proxy);
    }
    let made = debootstrap.status().map_err(|e| failed("start debootstrap", e))?;
    if !made.success() {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let why = text.lines().rfind(|line| line.starts_with("E:")).unwrap_or("it says nothing");
        return Err(format!("debootstrap failed: {why} (all of it: {})", log.display()));
    }
    // The packages themselves: where they stay, they only take space.
    drop(fs::remove_dir_all(part.join("var/cache/apt/archives")));
    fs::rename(&part, root).map_err(|e| failed("name the system", e))
}

/// The Debian archive that this machine's apt is set to, if any: debootstrap knows one otherwise.
fn archive() -> Option<String> {
    let format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
    let targets = probe(&mut command("apt-get", ["indextargets", "--format", format, "Created-By: Packages"]))?;
    debian(&targets).map(str::to_owned)
}

/// The first of apt's index targets that is Debian itself, at an address that debootstrap can read.
fn debian(targets: &str) -> Option<&str> {
    let addresses = targets.lines().filter_map(|line| line.strip_prefix("Debian|Debian|"));
    addresses.into_iter().find(|uri| ["http://", "https://", "file:/"].iter().any(|scheme| uri.starts_with(scheme)))
}

/// What apt fetches through, which debootstrap does not know of.
fn proxy() -> Option<String> {
    let set = probe(&mut command("apt-config", ["dump", "--format", "%v%n", "Acquire::http::Proxy"]))?;
    set.lines().next().filter(|proxy| proxy.starts_with("http")).map(str::to_owned)
}

/// Builds the tests with the features that they have in the workspace. Returns cargo's messages.
fn build_tests() -> Result<String> {
    let mut build: Command = cargo("test --workspace --lib --test runtime --no-run --message-format json");
    shell::capture(&mut build)
}

/// The program of a test, of a library or an integration test, that cargo's messages name.
fn program(messages: &str, test: &str) -> Result<PathBuf> {
    executable(messages, test).ok_or_else(|| Error::Other(format!("cargo names no program for the test {test}")))
}

/// The program of a test in cargo's messages, one JSON object a line.
fn executable(messages: &str, test: &str) -> Option<PathBuf> {
    let mut of_tests = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    of_tests.find_map(|m| (m["target"]["name"] == test).then(|| m["executable"].as_str().map(PathBuf::from))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_archive_is_debians_own() {
        let targets = "Google|cloud-sdk|https://one.example/apt/\nDebian|Debian-Security|http://two.example/security/\n\
                       Debian|Debian|mirror+file:/etc/apt/mirrors\nDebian|Debian|http://three.example/debian/\n";
        assert_eq!(debian(targets), Some("http://three.example/debian/"));
        assert_eq!(debian("Ubuntu|Ubuntu|http://four.example/ubuntu/\n||http://five.example/debian/"), None);
    }

    #[test]
    fn the_program_of_a_test_is_found() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"files"},"executable":null}
            {"reason":"compiler-artifact","target":{"name":"runtime"},"executable":"/target/runtime-1"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "runtime"), Some("/target/runtime-1".into()));
        assert_eq!(executable(messages, "files"), None);
        assert_eq!(executable("not JSON", "variants"), None);
    }
}
