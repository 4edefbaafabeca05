//! The command-line tool, built here.

use crate::shell::{self, Result, cargo};
use std::path::{Path, PathBuf};
use std::{env, process::Command};

/// The built tool.
pub(crate) struct Wgoose(PathBuf);

/// How it is compiled.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    /// Shares its dependencies with the tests (`opt-level` 2) and checks overflow.
    Dev,
    /// As users get it.
    Release,
}

impl Wgoose {
    /// Builds the tool.
    ///
    /// # Errors
    /// When it does not compile.
    pub(crate) fn build(profile: Profile) -> Result<Self> {
        let (options, folder) = match profile {
            // With the tests and examples: alone, dependencies would have other features and be compiled once more.
            Profile::Dev => ("test --workspace --no-run", "debug"),
            Profile::Release => ("build --package wgoose --release", "release"),
        };
        shell::run(&mut cargo(options))?;
        Ok(Wgoose(target().join(folder).join(format!("wgoose{}", env::consts::EXE_SUFFIX))))
    }

    /// A tool that is already built.
    pub(crate) fn built(path: PathBuf) -> Self {
        Wgoose(path)
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A call of it.
    pub(crate) fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        shell::command(&self.0, args)
    }
}

/// The folder of everything built, which git ignores.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}
