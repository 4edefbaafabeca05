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

/// Run declared experiments on this device, and record the answers with every sample.
///
/// An experiment is a folder with an experiment.ron: a question, the expected answer, a model, a workload, a baseline,
/// and arms that differ from the baseline. `run` appends its measurements to results/DEVICE.jsonl there, and rewrites
/// README.md and results/DEVICE.svg.
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
    /// Rewrite README.md and the pictures from the records, for example after results of another machine were added.
    Render {
        /// Folders of experiments.
        #[arg(required = true)]
        folders: Vec<PathBuf>,
    },
    /// List the experiments in a folder with their answers.
    List {
        /// Folder that contains the experiments' folders.
        #[arg(default_value = "experiments")]
        folder: PathBuf,
    },
    /// Show the newest answer of each device.
    Show {
        /// Folder of the experiment.
        folder: PathBuf,
        /// Output format.
        #[arg(long, value_enum, default_value_t)]
        format: Form,
    },
    /// Show the answers of all devices side by side.
    Devices {
        /// Folder of the experiment.
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
