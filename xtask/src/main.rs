//! Set-up and chores on any machine: `cargo xtask --help` lists them.

mod apt;
mod bless;
mod clients;
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
mod soak_server;
mod steps;
mod test;
mod upstream;
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
    /// Shows wgoose at work: makes a small model, tunes it for this machine and prints the gain
    Demo(demo::Args),
    /// Runs all checks of CI
    Test(test::Args),
    /// Downloads and installs the needs of `test` beside crates: afterwards it needs no network
    Prepare(prepare::Args),
    /// Compares the figures of speed on pages with the records that they cite, and checks prose and links
    Evidence(evidence::Args),
    /// Kills every verb that writes, at many moments: named files must be whole, and the next run must resume
    Kills(kills::Args),
    /// Soak test: a session does everything for a long time, with constant answers and constant memory
    Soak(soak::Args),
    /// Soak test of the server: a thousand clients stall, hang up and flood while others compare answers
    SoakServer(soak_server::Args),
    /// Asks the server with curl, OpenAI's client for Node and LangChain, which it installs below target/
    Clients,
    /// Tests the crates for users of other projects, and packs the crates that may be published
    Upstream,
    /// Writes the list of crates in a released binary, as CycloneDX
    Sbom(sbom::Args),
    /// Writes the licences, with their texts, of all crates that are linked into a release
    Licences(licences::Args),
    /// Builds a release: programs, wheels, the source package, lists of crates, checksums
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
        Verb::SoakServer(args) => soak_server::run(&args),
        Verb::Clients => clients::run(),
        Verb::Upstream => upstream::run(),
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
