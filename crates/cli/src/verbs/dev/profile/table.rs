//! The report for people.

use super::report::ProfileReport;
use super::rows::Row;
use crate::failure::Failure;
use wgoose_runtime::kernel_bench::roofline::Spread;

/// Prints a report; by layer too, if asked for.
pub(super) fn print(report: &ProfileReport, layers: bool) -> Result<(), Failure> {
    outln!("{} on {}\n{}", report.model, report.device.adapter, report.device.driver);
    outln!("{}, {} runs, plan {}\n", report.step(), report.runs, report.plan);
    let ms = |spread: Option<Spread>| match spread {
        Some(s) => format!("{:>10.3} ms  ({:.3} to {:.3})", s.median, s.min, s.max),
        None => format!("{:>10}", "-"),
    };
    outln!("in use      {}  as `wgoose bench` times it", ms(report.in_use_ms));
    outln!("whole step  {}  a dispatch for each op, wall clock, logits in memory", ms(report.wall_ms));
    outln!("on the GPU  {}  {}", ms(report.gpu_ms), report.clock);
    outln!("independent {}  none waiting for another", ms(report.independent_ms));
    match report.gap_ms {
        Some(gap) => outln!("gap         {gap:>10.3} ms  the difference: what their waiting costs"),
        None => outln!("gap         {:>10}     not measured: its buffers would take too much memory", "-"),
    }
    if let Some(least) = report.total.cost.least_us {
        let least = least / 1e3;
        outln!("roofline    {least:>10.3} ms  if every dispatch ran at the device's ceiling");
    }
    outln!(
        "\nBelow: a step with a timestamp after each dispatch, {:.3} ms. {:.2} us are\n\
         taken off each dispatch, the mean of what timestamps add; what is left of\n\
         waiting stays with the dispatch that waited.\n",
        report.timestamped_ms,
        report.timestamp_us
    );
    if report.clock_is_too_coarse {
        outln!(
            "The clock cannot tell: a timestamp adds more than a dispatch takes. Shares and\n\
             rates below mean little; more --tokens make dispatches longer, a quiet machine\n\
             makes timestamps steadier.\n"
        );
    }
    rows("op", &report.ops, &report.total)?;
    if layers {
        out!("\n");
        rows("layer", &report.layers, &report.total)?;
    }
    if report.ceilings.is_none() {
        outln!("\nRun `wgoose dev roofline` once to see how far this is from what the device can do.");
    }
    Ok(())
}

fn rows(what: &str, rows: &[Row], total: &Row) -> Result<(), Failure> {
    outln!(
        "{what:<18} {:>9} {:>7} {:>5} {:>9} {:>8} {:>8} {:>9}",
        "us",
        "share",
        "runs",
        "MiB",
        "GB/s",
        "GFLOP/s",
        "roofline"
    );
    for row in rows.iter().chain([total]) {
        let percent = row.percent_of_roofline.map_or("-".to_owned(), |p| format!("{p:.1} %"));
        outln!(
            "{:<18} {:>9.1} {:>5.1} % {:>5} {:>9.3} {:>8.1} {:>8.1} {percent:>9}",
            row.name,
            row.cost.us,
            100.0 * row.share,
            row.dispatches,
            row.cost.bytes as f64 / f64::from(1 << 20),
            row.gb_s,
            row.gflop_s,
        );
    }
    Ok(())
}
