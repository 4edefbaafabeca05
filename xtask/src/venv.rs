//! Python environments, made once and kept until what they are made from changes.

use crate::shell::{self, Error, Result, command};
use crate::wgoose::target;
use std::fs;
use std::path::{Path, PathBuf};

/// What an environment is made from.
pub(crate) struct Recipe<'a> {
    /// Its folder below the target folder.
    pub(crate) name: &'a str,
    /// The Python that it is based on, and what else must be the same.
    pub(crate) base: &'a str,
    pub(crate) versions: &'a str,
    /// Options of `python -m venv`.
    pub(crate) options: &'a [&'a str],
    /// A file of packages, and options of `pip install`.
    pub(crate) requirements: &'a str,
    pub(crate) pip: &'a [&'a str],
}

impl Recipe<'_> {
    /// Makes the environment unless the one at hand was made in the same way; returns its Python.
    ///
    /// # Errors
    /// When it cannot be made, or a package cannot be installed.
    pub(crate) fn prepare(&self) -> Result<PathBuf> {
        let folder = target().join(self.name);
        let python = folder.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
        let requirements = fs::read_to_string(self.requirements);
        let requirements = requirements.map_err(|e| Error::file("read", self.requirements.as_ref(), e))?;
        let stamp = Stamp { folder: &folder, recipe: format!("{}\n{requirements}", self.versions) };
        if stamp.is_current() {
            println!("environment at hand: {}", folder.display());
            return Ok(python);
        }
        let place = folder.to_string_lossy();
        let venv = ["-m", "venv", "--clear"].iter().chain(self.options).copied().chain([&*place]);
        shell::run(&mut command(self.base, venv))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let install = shell::run(&mut command(&python, pip.iter().chain(self.pip).chain(&["-r", self.requirements])));
        install.map_err(|_| {
            let what = format!("the packages of {} cannot be installed", self.requirements);
            Error::Other(format!("{what}: connect this machine to the network, or set PIP_INDEX_URL"))
        })?;
        stamp.write()?;
        Ok(python)
    }
}

/// What an environment was made from, written into it last: one that was left half made has none.
struct Stamp<'a> {
    folder: &'a Path,
    recipe: String,
}

impl Stamp<'_> {
    fn path(&self) -> PathBuf {
        self.folder.join("made-from.txt")
    }

    fn is_current(&self) -> bool {
        fs::read_to_string(self.path()).is_ok_and(|made_from| made_from == self.recipe)
    }

    fn write(&self) -> Result<()> {
        fs::write(self.path(), &self.recipe).map_err(|e| Error::file("write", &self.path(), e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_is_current_until_its_recipe_changes() {
        let folder = tempfile::tempdir().unwrap();
        let stamp = |recipe: &str| Stamp { folder: folder.path(), recipe: recipe.into() };
        assert!(!stamp("rwkv==1").is_current());
        stamp("rwkv==1").write().unwrap();
        assert!(stamp("rwkv==1").is_current());
        assert!(!stamp("rwkv==2").is_current());
    }
}
