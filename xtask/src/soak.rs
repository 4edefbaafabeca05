//! `cargo xtask soak`: the test `soak` of crate session, for as long as one likes and optimised as users have it.

use crate::shell::{self, Result, cargo};
use crate::vulkan;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Duration of the test
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// Seed: the same seed makes the same calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    vulkan::ensure()?;
    let mut soak = cargo("test --release --package wgoose-session --test session soak:: -- --nocapture");
    let (seconds, seed) = (args.seconds.to_string(), args.seed.to_string());
    shell::run(soak.env("WGOOSE_SOAK_SECONDS", seconds).env("WGOOSE_SOAK_SEED", seed))
}
