//! The Python package: built as a wheel from the development build, installed into a fresh environment, and tested; its
//! source package is compared with what that build has read.

use crate::apt;
use crate::licences;
use crate::sdist;
use crate::shell::{self, Error, Result, command};
use crate::venv::Recipe;
use crate::wgoose::{Wgoose, target};
use std::fs;
use std::path::PathBuf;

/// Prints the version when this Python is new enough and can make environments.
const PROBE: &str = "import sys, ensurepip
assert sys.version_info >= (3, 10)
print(sys.executable, sys.version)";

/// What to do without.
const NEEDED: &str = "no python3 of version 3.10 or newer with venv and pip: install one, or leave out what needs it with \
                      --no-python --no-oracle";

/// Builds, installs and tests the package, against the tool.
///
/// # Errors
/// Without Python, or when the package cannot be built, a test fails or its source package lacks something.
pub(crate) fn check(wgoose: &Wgoose) -> Result<()> {
    let python = prepare()?;
    let wheels = target().join("wheels");
    // Wheels of other versions would be installed, too.
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels).map_err(|e| Error::file("empty", &wheels, e))?;
    }
    let place = wheels.to_string_lossy();
    let build = ["-m", "maturin", "build", "--profile", "dev", "--out", &place];
    shell::run(&mut command(&python, build))?;
    let options = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--force-reinstall"];
    let source = ["--no-deps", "--no-index", "--find-links", &place, "wgoose"];
    shell::run(&mut command(&python, options.iter().chain(&source)))?;
    licences::write(licences::FILE.as_ref())?;
    let archive = sdist::make(&python, &wheels)?;
    sdist::check(&archive)?;
    let mut pytest = command(&python, ["-m", "pytest", "crates/python/tests"]);
    pytest.arg("--wgoose").arg(wgoose.path()).env("PYTHONDONTWRITEBYTECODE", "1");
    shell::run_tests(&mut pytest)
}

/// A Python that has what building and testing the package needs.
///
/// # Errors
/// As of [`check`].
pub(crate) fn prepare() -> Result<PathBuf> {
    environment("python-venv", "crates/python/tests/requirements.txt", &[])
}

/// A Python that has the clients of the server.
///
/// # Errors
/// As of [`check`].
pub(crate) fn clients(requirements: &str) -> Result<PathBuf> {
    environment("clients-venv", requirements, &[])
}

/// A Python that has what makes packages.
///
/// # Errors
/// As of [`check`].
pub(crate) fn packaging() -> Result<PathBuf> {
    environment("packaging-venv", "xtask/packaging-requirements.txt", &[])
}

/// A program from a package on PyPI that was compiled already, and whose hash the requirements have.
///
/// # Errors
/// There is no package for this system, or as of [`check`].
pub(crate) fn tool(name: &str, requirements: &str, program: &str) -> Result<PathBuf> {
    let python = environment(name, requirements, &["--require-hashes", "--only-binary", ":all:"])?;
    Ok(python.with_file_name(format!("{program}{}", std::env::consts::EXE_SUFFIX)))
}

fn environment(name: &str, requirements: &str, pip: &[&str]) -> Result<PathBuf> {
    let (base, versions) = base_python()?;
    Recipe { name, base, versions: &versions, options: &[], requirements, pip }.prepare()
}

/// A Python and its version, after installing what makes environments on Debian and Ubuntu if need be.
fn base_python() -> Result<(&'static str, String)> {
    let find = || {
        let mut candidates = ["python3", "/usr/bin/python3", "python"].into_iter();
        candidates.find_map(|python| Some((python, shell::probe(&mut command(python, ["-c", PROBE]))?)))
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    if apt::is_here() {
        println!("no Python that makes environments: installing python3-venv");
        apt::install(&["python3-venv"])?;
    }
    find().ok_or_else(|| Error::Other(NEEDED.into()))
}
