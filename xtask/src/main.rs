//! Set-up and chores on any machine: `cargo xtask --help` lists them.

mod apt;
mod bless;
mod crates;
mod demo;
mod deny;
mod disk;
mod evidence;
mod failed_tests;
mod kills;
mod licences;
mod mesa;
mod oracle;
mod own_paths;
mod prepare;
mod python;
mod release;
mod sbom;
mod sdist;
mod shell;
mod soak;
mod steps;
mod test;
mod venv;
mod vulkan;
mod weight;
mod wgoose;
mod workspace;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set-up and chores", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Sees wgoose at work: makes a small model, tunes it for this machine and shows what that gained
    Demo(demo::Args),
    /// Checks everything that CI checks
    Test(test::Args),
    /// Downloads and installs what `test` needs beside crates, so that it then needs no network
    Prepare(prepare::Args),
    /// Holds figures of speed on pages against the records that they cite
    Evidence(evidence::Args),
    /// Kills every verb that writes, at many moments: what has its name is whole, and the next run goes on
    Kills(kills::Args),
    /// Has a session do everything for a long time: what it says and its memory must stay
    Soak(soak::Args),
    /// Writes which crates a released binary is made of, as CycloneDX
    Sbom(sbom::Args),
    /// Writes the licences of all crates that are linked into what is published, with their texts
    Licences(licences::Args),
    /// Makes what is published: programs, wheels, the source package, lists of crates, checksums
    Release(release::Args),
    /// Refreshes the committed goldens and snapshots; the diff is the review
    Bless,
}

fn main() -> ExitCode {
    let verb = Cli::parse().verb;
    let outcome = workspace::enter().and_then(|()| match verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Test(args) => test::run(&args),
        Verb::Prepare(args) => prepare::run(&args),
        Verb::Evidence(args) => evidence::run(&args),
        Verb::Kills(args) => kills::run(&args),
        Verb::Soak(args) => soak::run(&args),
        Verb::Sbom(args) => sbom::run(&args),
        Verb::Licences(args) => licences::run(&args),
        Verb::Release(args) => release::run(&args),
        Verb::Bless => bless::run(),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error}");
            disk::complaint().iter().for_each(|full| eprintln!("error: {full}"));
            ExitCode::FAILURE
        }
    }
}
