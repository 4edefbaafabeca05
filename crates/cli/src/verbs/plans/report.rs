//! `wgoose plans report`

use crate::failure::Failure;
use crate::out;
use std::path::{Path, PathBuf};
use wgoose_kernels::Precision;
use wgoose_measure::derive::Policy;
use wgoose_measure::ledger::{Records, read};
use wgoose_measure::objective::Objective;
use wgoose_report::t4;
use wgoose_report::{Ceiling, LedgerReport, Source, page};
use wgoose_runtime::kernel_bench::roofline::{self, Quantity, Roofline};

/// Write a report of a search as one HTML file, without a GPU.
///
/// The report shows the plan's gain over the default, all timed kernels, refusals with their reasons, the course of the
/// search, and failures. It needs no network and runs no script.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Ledgers of `wgoose tune`, compressed with zstd or not.
    #[arg(required = true, value_name = "LEDGER")]
    ledgers: Vec<PathBuf>,
    /// Output file. Default: next to the first ledger, with the extension .html.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    out: Option<PathBuf>,
    /// Also write the kernel results to this file as T4 JSON, the exchange format of autotuners such as Kernel Tuner.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    t4: Option<PathBuf>,
    /// Workload that the plan is for: chat, embed, batch, or a file, as for `wgoose tune`.
    #[arg(long, default_value = "chat", value_name = "WORKLOAD")]
    workload: String,
    /// Coarsest arithmetic that kernels may use: f32, q15, f16 or q8.
    #[arg(long, value_name = "CLASS", default_value = "q8")]
    precision: Precision,
    #[command(flatten)]
    kernels: crate::options::KernelOptions,
    #[command(flatten)]
    cache: crate::options::CacheOptions,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let (mut all, mut sources) = (Vec::new(), Vec::new());
    for path in &args.ledgers {
        let (records, notices) = read(path)?;
        let notices = notices.iter().map(ToString::to_string).collect();
        sources.push(Source { name: path.display().to_string(), notices });
        all.push(records);
    }
    let records = Records::merged(all);
    let session = records.newest_session();
    let objective = Objective::named(&args.workload, session.is_some_and(|session| session.limits.is_cpu))?;
    let policy = Policy { allowed: args.precision, ..Policy::all() };
    let known = session.zip(args.cache.folder()).and_then(|(session, cache)| roofline::load(&cache, &session.device));
    let ceiling = known.as_ref().and_then(ceiling);
    let report = LedgerReport::gather(&records, &*args.kernels.catalogue()?, &objective, &policy, ceiling);
    let path = args.out.clone().unwrap_or_else(|| beside(&args.ledgers[0]));
    out::file(&path, page(&report, &sources).as_bytes())?;
    let (sites, failures) = (report.sites.len(), report.failures.len());
    outln!("{}: {} records, {sites} sites, {failures} failures", path.display(), records.as_slice().len());
    if let Some(path) = &args.t4 {
        let results = t4::results(&records);
        out::file(path, &serde_json::to_vec_pretty(&results)?)?;
        outln!("{}: {} results", path.display(), results.results.len());
    }
    Ok(())
}

/// The ceilings of kernels, by what was measured.
fn ceiling(roofline: &Roofline) -> Option<Ceiling> {
    let computed = [Quantity::MatrixF16, Quantity::FmaF16x4, Quantity::FmaF16x2, Quantity::FmaF32];
    let flops = computed.into_iter().filter_map(|quantity| roofline.median(quantity)).fold(0.0, f64::max);
    let bytes = roofline.median(Quantity::ReadBandwidth)?;
    (bytes > 0.0 && flops > 0.0).then_some(Ceiling { bytes, flops, is_measured: true })
}

/// `ledger.html` beside `ledger.jsonl` or `ledger.jsonl.zst`.
fn beside(ledger: &Path) -> PathBuf {
    let bare =
        if ledger.extension().is_some_and(|e| e == "zst") { ledger.with_extension("") } else { ledger.to_owned() };
    bare.with_extension("html")
}
