//! `wgoose dev roofline`

use crate::failure::Failure;
use crate::progress::{Moving, aside};
use std::path::PathBuf;
use wgoose_files::default_cache_dir;
use wgoose_runtime::kernel_bench::roofline::{self, Figure, Scale};
use wgoose_runtime::{Device, DeviceOptions};

/// Measure a GPU's roofline: bandwidth, arithmetic, dispatches, submissions, barriers. `wgoose dev profile` compares a
/// model's kernels with it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// GPU adapter: an index, PCI address, UUID or name from `wgoose devices`, or an unambiguous part of a name.
    #[arg(long)]
    device: Option<String>,
    /// Write the figures to this file instead of the cache folder, where `wgoose dev profile` looks for them.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place(), conflicts_with = "cache_dir")]
    out: Option<PathBuf>,
    /// Cache the figures in this folder. Default: $WGOOSE_CACHE_DIR, else the user's cache folder.
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let device = Device::open_with(&DeviceOptions { adapter: args.device.clone(), ..DeviceOptions::default() })?;
    let cached = || {
        let folder = args.cache_dir.clone().or_else(default_cache_dir);
        folder.map(|folder| roofline::path(&folder, device.fingerprint()))
    };
    let place = args.out.clone().or_else(cached).ok_or("there is no cache folder: say where with --out")?;
    let (mut table, mut printed) = (!args.json, Ok(()));
    if table {
        let f = device.fingerprint();
        outln!("{} ({}, {})\n", f.adapter, f.backend, f.driver);
        outln!("{:<34} {:>12} {:>12} {:>12} {:<10} measured", "", "median", "least", "most", "");
    }
    let moving = Moving::spinner("measuring")?;
    let roofline = roofline::measure(&device, Scale::of(&device), &mut |figure| {
        if table {
            printed = aside(|| row(figure));
            table = printed.is_ok();
        }
    })?;
    drop(moving);
    printed?;
    roofline::save(&roofline, &place).map_err(|e| format!("{}: {e}", place.display()))?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&roofline)?);
        return Ok(());
    }
    outln!("\n{} samples a figure at most, by {}; kept in {}", samples(&roofline), roofline.clock, place.display());
    Ok(())
}

fn row(figure: &Figure) -> Result<(), Failure> {
    let name = figure.quantity.name();
    match figure.value {
        Some(v) => {
            let [median, min, max] = [v.median, v.min, v.max].map(number);
            outln!("{name:<34} {median:>12} {min:>12} {max:>12} {:<10} {}", figure.unit, figure.how);
        }
        None => outln!("{name:<34} not available: {}", figure.how),
    }
    Ok(())
}

/// Four digits or so.
fn number(x: f64) -> String {
    match x.abs() {
        1000.0.. => format!("{x:.0}"),
        100.0.. => format!("{x:.1}"),
        10.0.. => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

fn samples(roofline: &roofline::Roofline) -> usize {
    roofline.figures.iter().filter_map(|f| f.value).map(|v| v.n).max().unwrap_or(0)
}
