//! `wgoose info MODEL --memory`: where the bytes go, as predicted and as measured.

use crate::failure::Failure;
use crate::options::RunOptions;
use crate::progress::Moving;
use serde::Serialize;
use std::path::Path;
use wgoose_bench::process_memory;
use wgoose_measure::driver::prompts;
use wgoose_runtime::{Engine, Executor, LoadReport, Outputs, Sequence};

/// Bytes of one part.
#[derive(Serialize)]
struct Part {
    part: &'static str,
    predicted: u64,
    measured: u64,
}

#[derive(Serialize)]
struct MemoryReport {
    device: String,
    prefill_chunk: u32,
    parts: Vec<Part>,
    /// All parts but the mapped file. Predicted counts staging, which is there while weights arrive; the measured peak is
    /// what the device's allocator handed out then.
    on_device_predicted: u64,
    on_device_measured: u64,
    peak_used: Option<u64>,
    peak_reserved: Option<u64>,
    /// Anonymous memory of this process now: what is neither a file nor on the device; some of it is the driver's.
    anonymous: Option<u64>,
    /// Bytes uploaded: more than the weights where these pass through a ring.
    uploaded: u64,
    /// The smallest `--gpu-budget` with which the model runs.
    least_budget: u64,
}

/// Opens the model, reads a prompt of one chunk, decodes a token, and says what that took.
pub(super) fn run(model: &Path, options: &RunOptions, json: bool) -> Result<(), Failure> {
    let moving = Moving::spinner("opening, reading a prompt and writing a token")?;
    let executor = options.executor(model, 1)?;
    let (predicted, least_budget) = (executor.predict()?, executor.least_budget()?);
    let (chunk, vocab) = (executor.plan().prefill_chunk, executor.shape().vocab);
    let device = executor.device().fingerprint();
    let device = format!("{}, {}", device.adapter, device.driver);
    let mut engine = Engine::new(Box::new(executor), chunk as usize);
    for tokens in [chunk, 1].map(|tokens| prompts(1, tokens as usize, vocab).concat()) {
        engine.forward(&[Sequence { slot: 0, tokens: &tokens, outputs: Outputs::Last }])?;
    }
    let LoadReport { footprint, peak_staging, peak_device, uploaded, .. } = engine.report();
    drop(moving);
    let measured = wgoose_runtime::Footprint { staging: peak_staging, ..footprint };
    let parts = predicted.parts().into_iter().zip(measured.parts());
    let report = MemoryReport {
        device,
        prefill_chunk: chunk,
        parts: parts.map(|((part, predicted), (_, measured))| Part { part, predicted, measured }).collect(),
        on_device_predicted: predicted.on_device(),
        on_device_measured: measured.on_device(),
        peak_used: peak_device.map(|m| m.used),
        peak_reserved: peak_device.map(|m| m.reserved),
        anonymous: process_memory::of(std::process::id()).map(|m| m.anonymous),
        uploaded,
        least_budget,
    };
    if json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    outln!("{} on {}, chunk {}", model.display(), report.device, report.prefill_chunk);
    outln!("{:<28}{:>15}{:>15}", "MiB", "predicted", "measured");
    for p in &report.parts {
        outln!("{:<28}{:>15.2}{:>15.2}", p.part, mib(p.predicted), mib(p.measured));
    }
    let (predicted, measured) = (report.on_device_predicted, report.on_device_measured);
    outln!("{:<28}{:>15.2}{:>15.2}", "all on the device", mib(predicted), mib(measured));
    for (what, bytes) in [
        ("device memory in use, peak", report.peak_used),
        ("device memory reserved, peak", report.peak_reserved),
        ("anonymous memory now", report.anonymous),
        ("uploaded", Some(report.uploaded)),
        ("smallest --gpu-budget", Some(report.least_budget)),
    ] {
        if let Some(bytes) = bytes {
            outln!("{what:<43}{:>15.2}", mib(bytes));
        }
    }
    Ok(())
}
