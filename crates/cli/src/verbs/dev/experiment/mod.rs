//! `wgoose dev experiment`: questions that are declared in files, and what devices answered.

mod devices;
mod list;
mod readme;
mod recorded;
mod render;
mod run;
mod show;

use crate::failure::Failure;
use crate::findings::Form;
use clap::Subcommand;
use std::path::PathBuf;

/// Answer a declared question on this device, and keep the answer with every sample.
///
/// A folder with an experiment.ron declares a question: what is expected, a model, what is timed, a baseline, and arms
/// that differ from it. `run` appends what it measures to results/DEVICE.jsonl there, and writes README.md and
/// results/DEVICE.svg anew.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose dev experiment list
  wgoose dev experiment run experiments/001-norm-shift
  wgoose dev experiment show experiments/001-norm-shift
  wgoose dev experiment devices experiments/001-norm-shift")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run experiments on this device.
    Run(run::Args),
    /// Write README.md and the pictures anew from what is recorded: results of another machine are beside them, or
    /// words have changed.
    Render {
        /// The experiments' folders.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// List the experiments of a folder, and what was answered.
    List {
        /// The folder with theirs.
        #[arg(default_value = "experiments")]
        folder: PathBuf,
    },
    /// Show what was found on every device, the newest run of each.
    Show {
        /// The experiment's folder.
        folder: PathBuf,
        /// How results are printed.
        #[arg(long, value_enum, default_value_t)]
        format: Form,
    },
    /// Show the devices side by side.
    Devices {
        /// The experiment's folder.
        folder: PathBuf,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Run(args) => run::run(args),
        Command::Render { folders } => render::run(folders),
        Command::List { folder } => list::run(folder),
        Command::Show { folder, format } => show::run(folder, *format),
        Command::Devices { folder } => devices::run(folder),
    }
}
