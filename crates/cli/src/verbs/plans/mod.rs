//! `wgoose plans`: the plans that there are.

mod derive;
mod diff;
mod export;
mod import;
mod list;
mod remove;
mod report;
mod show;

use crate::failure::{Failure, WrongUsage};
use crate::options::KernelOptions;
use clap::Subcommand;
use std::path::PathBuf;
use wgoose_kernels::{Catalogue, DeviceFingerprint};
use wgoose_plans::{Listed, Standing, Store, look_up};
use wgoose_runtime::adapters;

/// List, show, compare, derive, report, export, import and remove plans.
///
/// A NAME is a name from the list, an unambiguous part of one, or the path of a plan file.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kernels: KernelOptions,
}

#[derive(Subcommand)]
enum Command {
    /// List filed and shipped plans with their gain over the default plan.
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show the choices of a plan and its evidence.
    Show {
        /// Name of the plan.
        name: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Derive(derive::Args),
    Report(report::Args),
    /// Show the differences between two plans.
    Diff {
        /// Name of the plan.
        a: String,
        /// Name of the other plan.
        b: String,
    },
    /// Write a plan to a new file, for --plan or for another machine.
    Export {
        /// Name of the plan.
        name: String,
        /// Plan file.
        file: PathBuf,
    },
    /// File a plan, such as one of `export`, where every command finds it.
    Import {
        /// Plan file.
        file: PathBuf,
        /// Model that the plan is for.
        model: PathBuf,
    },
    /// Remove a filed plan and its ledger.
    Remove {
        /// Name of the plan.
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let store = Store::of_user();
    let store = store.as_ref();
    let find = |name: &str| look_up(store, name);
    match &args.command {
        None => list::run(store, &Here::of(&args.kernels)?, args.json),
        Some(Command::List { json }) => list::run(store, &Here::of(&args.kernels)?, args.json || *json),
        Some(Command::Show { name, json }) => show::run(find(name)?, &Here::of(&args.kernels)?, args.json || *json),
        Some(_) if args.json => Err(WrongUsage("only list and show print JSON".into()).into()),
        Some(Command::Derive(args)) => derive::run(args),
        Some(Command::Report(args)) => report::run(args),
        Some(Command::Diff { a, b }) => diff::run(find(a)?, find(b)?),
        Some(Command::Export { name, file }) => export::run(find(name)?, file),
        Some(Command::Import { file, model }) => import::run(store, &*args.kernels.catalogue()?, file, model),
        Some(Command::Remove { name }) => remove::run(store, find(name)?),
    }
}

/// This machine: what plans are held against.
struct Here {
    devices: Vec<DeviceFingerprint>,
    catalogue: std::sync::Arc<Catalogue>,
}

impl Here {
    fn of(kernels: &KernelOptions) -> Result<Here, Failure> {
        let devices = adapters().into_iter().map(|adapter| adapter.fingerprint).collect();
        Ok(Here { devices, catalogue: kernels.catalogue()? })
    }

    fn standing(&self, listed: &Listed) -> Standing {
        listed.standing(&self.devices, &self.catalogue)
    }
}

/// What a plan is worth here, in words.
fn words(standing: &Standing) -> String {
    match standing {
        Standing::Current => "current".to_owned(),
        Standing::Stale(why) => {
            format!("stale: {}", why.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
        }
        Standing::OtherDevice => "of another device".to_owned(),
        Standing::Damaged(why) => format!("damaged: {why}"),
    }
}
