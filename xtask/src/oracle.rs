//! The Python side of the comparison: an environment with PyTorch and the reference package.

use crate::apt;
use crate::shell::{self, Error, Result, command};
use crate::venv::Recipe;
use crate::wgoose::Wgoose;
use std::path::{Path, PathBuf};

const REQUIREMENTS: &str = "oracle/requirements.txt";

/// The CPU build; PyPI's wheel for Linux would bring gigabytes of CUDA.
const DEBIAN_PACKAGES: [&str; 2] = ["python3-torch", "python3-venv"];

/// Prints versions when this Python can be the base of the environment: it has PyTorch, can make environments, and is
/// not in one itself, whose packages a further one would not see.
const PROBE: &str = "import sys, ensurepip, torch
assert sys.prefix == sys.base_prefix
print(sys.executable, sys.version, 'torch', torch.__version__)";

/// The environment.
pub(crate) struct Oracle {
    python: PathBuf,
}

impl Oracle {
    /// Makes the environment unless the one at hand was made from the same Python, PyTorch and requirements.
    ///
    /// # Errors
    /// Without PyTorch (the message says what to install), or when a package cannot be installed.
    pub(crate) fn prepare() -> Result<Self> {
        let (base, versions) = base_python()?;
        let recipe = Recipe {
            name: "oracle-venv",
            base,
            versions: &versions,
            options: &["--system-site-packages"],
            requirements: REQUIREMENTS,
            pip: &["--no-deps"],
        };
        Ok(Oracle { python: recipe.prepare()? })
    }

    /// Runs `oracle/check.py` or a sibling on the tool.
    ///
    /// # Errors
    /// When the script fails.
    pub(crate) fn run(&self, script: &str, wgoose: &Wgoose) -> Result<()> {
        shell::run(self.script(script).arg("--wgoose").arg(wgoose.path()))
    }

    /// Runs a script that needs nothing but the environment.
    ///
    /// # Errors
    /// When the script fails.
    pub(crate) fn run_alone(&self, script: &str) -> Result<()> {
        shell::run(&mut self.script(script))
    }

    fn script(&self, script: &str) -> std::process::Command {
        let mut command = command(&self.python, [Path::new("oracle").join(script)]);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// A Python with PyTorch and its versions, after installing one on Debian and Ubuntu if need be.
fn base_python() -> Result<(&'static str, String)> {
    let find = || {
        // Debian's first: its packages belong to that one, whatever else is called python3.
        let mut candidates = ["/usr/bin/python3", "python3", "python"].into_iter();
        candidates.find_map(|python| Some((python, shell::probe(&mut command(python, ["-c", PROBE]))?)))
    };
    if let Some(found) = find() {
        return Ok(found);
    }
    if apt::is_here() {
        println!("no Python with PyTorch: installing {}", DEBIAN_PACKAGES.join(" and "));
        apt::install(&DEBIAN_PACKAGES)?;
    }
    find().ok_or_else(|| {
        Error::Other("no python3 with PyTorch: `pip install torch` (the CPU build is enough), or leave the comparison out with --no-oracle".into())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_requirement_is_pinned() {
        let text = include_str!("../../oracle/requirements.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().count() > 0 && lines.into_iter().all(|line| line.contains("==")), "{text}");
    }
}
