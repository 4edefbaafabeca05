//! `wgoose plans derive`

use crate::failure::Failure;
use std::path::PathBuf;
use wgoose_kernels::{Feature, Precision};
use wgoose_measure::derive::{Policy, derive};
use wgoose_measure::ledger::{Records, read};
use wgoose_measure::objective::Objective;
use wgoose_session::printable;

/// Derive a plan from ledgers, without a GPU.
///
/// The same ledgers give the same plan in any order. Missing measurements are listed.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Ledgers of `wgoose tune`.
    #[arg(required = true, value_name = "LEDGER")]
    ledgers: Vec<PathBuf>,
    /// Output file. Default: the plan is printed.
    #[arg(long, value_parser = crate::options::place())]
    out: Option<PathBuf>,
    /// Exclude kernels that need this device feature: subgroups, f16, cooperative-matrix, cooperative-matrix-8x8 or
    /// coherent-memory. Repeatable.
    #[arg(long, value_name = "FEATURE")]
    without: Vec<Feature>,
    /// Coarsest arithmetic that kernels may use: f32, q15, f16 or q8.
    #[arg(long, value_name = "CLASS", default_value = "q8")]
    precision: Precision,
    /// Workload that the plan is for: chat, embed, batch, or a file, as for `wgoose tune`.
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    #[command(flatten)]
    kernels: crate::options::KernelOptions,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let mut ledgers = Vec::new();
    for path in &args.ledgers {
        let (records, notices) = read(path)?;
        notices.iter().for_each(|notice| eprintln!("{}: {}", path.display(), printable(&notice.to_string())));
        ledgers.push(records);
    }
    let records = Records::merged(ledgers);
    let is_cpu = records.newest_session().is_some_and(|session| session.limits.is_cpu);
    let objective = Objective::named(&args.workload, is_cpu)?;
    let policy = Policy { allowed: args.precision, without: args.without.iter().copied().collect() };
    let derived = derive(&records, &*args.kernels.catalogue()?, &objective, &policy)?;
    derived.decisions.iter().for_each(|line| eprintln!("{}", printable(line)));
    derived.missing.iter().for_each(|line| eprintln!("not measured: {}", printable(line)));
    match &args.out {
        Some(path) => {
            derived.plan.save(path)?;
            outln!("{}: plan {}, {} kernels chosen", path.display(), derived.plan.hash(), derived.plan.choices.len());
        }
        None => outln!("{}", derived.plan.to_ron().trim_end()),
    }
    Ok(())
}
