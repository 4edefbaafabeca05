//! The card of an op, for whoever writes its next kernel: definition, operands, sizes, tolerance, the time at the
//! device's roofline and that of the best kernel.

use super::args::{Args, Target};
use super::sites::{named, sites};
use super::timing::runner;
use crate::failure::Failure;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use wgoose_graph::OperandKind;
use wgoose_kernels::{Catalogue, Instance, InstanceInput, Precision, ops};
use wgoose_measure::ledger::Ledger;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{Occurrence, Scope};
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::roofline::{self, Quantity};
use wgoose_tuner::kernel_tuning::KernelTuner;

/// A card of an op.
#[derive(Serialize)]
struct Card {
    op: String,
    /// The definition: a formula, and the reference that kernels are held against, as Rust.
    definition: &'static str,
    device: String,
    instances: Vec<InstanceCard>,
    /// What a kernel's file must say, and what it may.
    rules: &'static str,
}

/// One kind of instances in the model.
#[derive(Serialize)]
struct InstanceCard {
    instance: String,
    /// Tokens of each sequence in the pass, and its sequences.
    tokens: u32,
    sequences: u32,
    #[serde(skip)]
    pass: String,
    /// How many a pass has; 0 where the default plan fuses the op into another one.
    count: u32,
    operands: Vec<OperandCard>,
    /// Shape of y: planes, rows, columns.
    y: [u32; 3],
    /// Largest error that is allowed, over the root mean square of y, for kernels in f32.
    tolerance: f32,
    tolerance_reason: String,
    /// Bytes that it reads and writes at least.
    bytes: u64,
    operations: u64,
    /// Microseconds for these bytes at the memory roofline; missing before `wgoose dev roofline`.
    roofline_us: Option<f64>,
    /// The fastest kernel that was found within the budget.
    best: Option<BestKernel>,
}

#[derive(Serialize)]
struct OperandCard {
    name: &'static str,
    kind: &'static str,
    /// Planes, rows, columns.
    shape: [u32; 3],
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    /// Where most of its values lie.
    range: [f32; 2],
}

#[derive(Serialize)]
struct BestKernel {
    kernel: String,
    us: f64,
    gb_per_s: f64,
    share_of_roofline: Option<f64>,
}

/// The rules of a kernel's file.
const RULES: &str = include_str!("../../../../../../kernels-wgsl/README.md");

pub(super) fn print(
    args: &Args,
    device: &Arc<Device>,
    catalogue: &Arc<Catalogue>,
    target: &Target,
) -> Result<(), Failure> {
    let sites = sites(args, device, &target.op)?;
    let Some((_, first)) = sites.first() else {
        return Err(format!("{} occurs in no pass of this model", target.op).into());
    };
    let seed = args.seed.unwrap_or_default();
    let mut runner = runner(args, device, catalogue, (&first.group, seed))?;
    let samples = tempfile::tempdir()?;
    let ledger = Ledger::open(samples.path().join("ledger.jsonl"))?;
    let scope = Scope { allowed: Precision::Q8, exhaustive: args.exhaustive };
    let tuner = KernelTuner::new(device.limits(), catalogue, scope);
    let known = args.cache.folder().and_then(|cache| roofline::load(&cache, device.fingerprint()));
    let read_gb_s = known.and_then(|known| known.median(Quantity::ReadBandwidth));
    let mut cache = ResultCache::new(ledger, device.fingerprint().clone(), None, &mut runner);
    let mut instances = Vec::new();
    for (pass, Occurrence { group, occurs }) in &sites {
        let found = tuner.side_by_side(group, &mut cache, None, Duration::from_secs(args.budget))?;
        let best = found.timed.iter().find_map(|timed| {
            let ns = timed.result.as_ref().ok()?.median;
            let gb_per_s = group.instance.bytes() as f64 / ns;
            let share_of_roofline = read_gb_s.map(|read| gb_per_s / read);
            Some(BestKernel { kernel: timed.label.clone(), us: ns / 1e3, gb_per_s, share_of_roofline })
        });
        let count = if *occurs { group.count } else { 0 };
        instances.push(of_instance(&group.instance, (group.key.to_string(), *pass, count), read_gb_s, best));
    }
    let definition = ops::ALL.iter().find(|op| op.name == target.op).map_or("", |op| op.definition);
    let card = Card {
        op: target.op.clone(),
        definition,
        device: device.fingerprint().adapter.clone(),
        instances,
        rules: RULES,
    };
    match args.json {
        true => outln!("{}", serde_json::to_string(&card)?),
        false => text(&card)?,
    }
    Ok(())
}

fn of_instance(
    instance: &Instance,
    (key, pass, count): (String, Scenario, u32),
    read_gb_s: Option<f64>,
    best: Option<BestKernel>,
) -> InstanceCard {
    let op = ops::kernels(&instance.op);
    let operand = |input: &InstanceInput| {
        let (low, high) = (op.domain)(input.name).range();
        OperandCard {
            name: input.name,
            kind: kind(input.kind),
            shape: [input.planes, input.rows, input.cols],
            format: input.format.map(|format| format.name()),
            range: [low, high],
        }
    };
    let (bytes, tolerance) = (instance.bytes(), (op.tolerance)(instance));
    let coarser = [Precision::Q15, Precision::F16, Precision::Q8]
        .map(|precision| format!("{} +{:.1e}", precision.name(), instance.rounding_error(precision)));
    InstanceCard {
        instance: key,
        tokens: pass.tokens,
        sequences: pass.sequences,
        pass: named(pass),
        count,
        operands: instance.inputs.iter().map(operand).collect(),
        y: [instance.planes, instance.rows, instance.m],
        tolerance,
        tolerance_reason: format!(
            "roundings of f32 in sums of this length; a kernel that says `// precision:` may add {}",
            coarser.join(", ")
        ),
        bytes,
        operations: (op.flops)(instance),
        roofline_us: read_gb_s.map(|read| bytes as f64 / read / 1e3),
        best,
    }
}

fn kind(kind: OperandKind) -> &'static str {
    match kind {
        OperandKind::Value => "value",
        OperandKind::Planes => "planes",
        OperandKind::Vector => "vector",
        OperandKind::Matrix => "matrix",
        OperandKind::OldState => "state before",
        OperandKind::State => "state, updated",
        OperandKind::Segments => "segment table",
        OperandKind::TokenSegments => "segment of each token",
        OperandKind::Tokens => "tokens",
        OperandKind::OutputRows => "rows that are asked for",
    }
}

fn text(card: &Card) -> Result<(), Failure> {
    outln!("{} on {}\n", card.op, card.device);
    outln!("What defines the op:\n\n{}", card.definition.trim_end());
    for i in &card.instances {
        let [planes, rows, cols] = i.y;
        let occurrence =
            if i.count == 0 { "fused into another op by default".to_owned() } else { format!("{} of them", i.count) };
        outln!("\n{} in {}: {occurrence}", i.instance, i.pass);
        for o in &i.operands {
            let [planes, rows, cols] = o.shape;
            let format = o.format.unwrap_or("f32");
            outln!(
                "  {:<10} {:<22} {planes} x {rows} x {cols} {format}, about {} to {}",
                o.name,
                o.kind,
                o.range[0],
                o.range[1]
            );
        }
        outln!("  {:<10} {:<22} {planes} x {rows} x {cols}", "y", "result");
        outln!("  tolerance {:.1e}: {}", i.tolerance, i.tolerance_reason);
        let roofline = match i.roofline_us {
            Some(us) => format!("{us:.1} us at the memory roofline"),
            None => "wgoose dev roofline measures what they take at best".to_owned(),
        };
        outln!("  {:.2} MB, {:.2} million operations; {roofline}", i.bytes as f64 / 1e6, i.operations as f64 / 1e6);
        if let Some(BestKernel { kernel, us, gb_per_s, share_of_roofline }) = &i.best {
            let share =
                share_of_roofline.map_or(String::new(), |share| format!(", {:.0} % of the roofline", 100.0 * share));
            outln!("  best known: {us:.1} us, {gb_per_s:.0} GB/s{share}: {kernel}");
        }
    }
    outln!("\n{}", card.rules.trim_end());
    Ok(())
}
