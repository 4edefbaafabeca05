//! `cargo xtask prepare`: everything that `cargo xtask test` downloads and installs beside crates. A test run has it done by another
//! process while it compiles.

use crate::deny::Deny;
use crate::mesa::Mesa;
use crate::oracle::Oracle;
use crate::shell::{Error, Result};
use crate::steps::Steps;
use crate::wgoose::target;
use crate::{python, vulkan};
use std::env;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out PyTorch and the reference
    #[arg(long)]
    pub(crate) no_oracle: bool,
    /// Leave out the needs of the Python package
    #[arg(long)]
    pub(crate) no_python: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut steps = Steps::default();
    steps.run("adapter", vulkan::ensure);
    steps.run("cargo-deny", || Deny::prepare().map(drop));
    if !args.no_python {
        steps.run("python package", || python::prepare().map(drop));
    }
    steps.run_where("matrix units", Mesa::prepare, |_| Ok(()));
    if !args.no_oracle {
        steps.run("oracle", || Oracle::prepare().map(drop));
    }
    steps.finish()
}

/// The process that prepares, and what it says.
pub(crate) struct Ahead {
    process: Child,
    log: PathBuf,
}

impl Ahead {
    /// Begins to prepare.
    ///
    /// # Errors
    /// The process cannot be started, or the disk is full.
    pub(crate) fn begin(args: &Args) -> Result<Self> {
        fs::create_dir_all(target()).map_err(|e| Error::file("create", &target(), e))?;
        let log = target().join("prepare.log");
        let file = File::create(&log).map_err(|e| Error::file("create", &log, e))?;
        let errors = file.try_clone().map_err(|e| Error::file("write", &log, e))?;
        let xtask = env::current_exe().map_err(|e| Error::file("find", "xtask".as_ref(), e))?;
        let mut command = Command::new(&xtask);
        command.arg("prepare").stdin(Stdio::null()).stdout(file).stderr(errors);
        command.args(
            [(args.no_oracle, "--no-oracle"), (args.no_python, "--no-python")]
                .iter()
                .filter_map(|(is, word)| is.then_some(word)),
        );
        let process = command.spawn().map_err(|e| Error::file("start", &xtask, e))?;
        Ok(Ahead { process, log })
    }

    /// Waits until all is prepared, and says how that went. What could not be prepared is no error here: the step that needs it says so.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.process.wait().map_err(|e| Error::file("wait for", &self.log, e))?;
        print!("{}", fs::read_to_string(&self.log).map_err(|e| Error::file("read", &self.log, e))?);
        Ok(())
    }
}
