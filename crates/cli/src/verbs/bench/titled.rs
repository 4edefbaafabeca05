//! `wgoose bench --title`: whole sessions, checked, and recorded beside others of that title.

use super::{Args, report};
use crate::failure::Failure;
use crate::progress::Moving;
use wgoose_bench::{BenchRecord, Load, Records, measure};
use wgoose_measure::stats::Summary;
use wgoose_runtime::CancelToken;

/// Measures every model with every plan, appends and prints.
pub(super) fn run(args: &Args, title: &str, change: &str) -> Result<(), Failure> {
    let load = Load {
        prefill_tokens: args.prefill_tokens as usize,
        decode_tokens: args.decode_tokens as usize,
        sequences: args.sequences as usize,
        at_least: args.at_least(),
    };
    let save = args.save.as_deref();
    let mut records: Option<Records<BenchRecord>> =
        save.map(|report| super::open(&report.with_extension("jsonl"))).transpose()?;
    for model in &args.models {
        for plan in args.plans() {
            let moving = Moving::spinner("opening")?;
            let subject = args.options.subject_with(plan)?;
            let result = measure(
                model,
                &subject,
                &load,
                title,
                change,
                args.cache.as_deref(),
                &CancelToken::default(),
                &mut moving.watch(title),
            )?;
            drop(moving);
            if let (Some(records), Some(report)) = (&mut records, save) {
                records.append(result.clone())?;
                report::write(report, &records.known)?;
            }
            match args.json {
                true => outln!("{}", serde_json::to_string(&result)?),
                false => print(&result)?,
            }
        }
    }
    match save {
        _ if args.json => {}
        Some(report) => outln!("appended to {}", report.display()),
        None => outln!("not kept: --save FILE appends it to a report"),
    }
    Ok(())
}

fn print(result: &BenchRecord) -> Result<(), Failure> {
    outln!("{} on {}", result.model, result.device);
    outln!("load            {:>10.1} ms", result.load_ms);
    outln!("first token     {:>10.1} ms (loading and a prompt of 32 tokens)", result.first_token_ms);
    outln!(
        "prefill         {:>10.1} tokens/s ({} tokens, chunk {})",
        result.prefill_tok_s,
        result.prefill_tokens,
        result.prefill_chunk
    );
    outln!(
        "decode          {:>10.1} tokens/s ({} tokens, {} at once)",
        result.decode_tok_s,
        result.decode_tokens,
        result.sequences
    );
    if let Some(share) = result.encode_share {
        outln!("encoding steps  {:>10.1} % of that time on the CPU", share * 100.0);
    }
    for (what, times) in [("prefill", &result.prefill_ms), ("decode", &result.decode_ms)] {
        if let Some(s) = Summary::of(times) {
            outln!(
                "{what:<8} spread {:>10.1} to {:.1} ms, half of the runs within {:.1} ms",
                s.min,
                times.iter().copied().fold(s.min, f64::max),
                s.iqr
            );
        }
    }
    if let Some(peak) = result.peak_memory_mib {
        outln!("peak memory     {peak:>10.1} MiB");
    }
    let agree = result.quality_decisions.map(|n| format!(", {n} of {n} decisions agree")).unwrap_or_default();
    let class = result.quality_class.map(|class| format!(" ({class}{agree})")).unwrap_or_default();
    outln!("quality hash    {}{class}", result.quality_hash);
    Ok(())
}
