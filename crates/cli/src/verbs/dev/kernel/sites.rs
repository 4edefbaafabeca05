//! Where an op occurs in a model.

use super::args::Args;
use crate::failure::Failure;
use wgoose_graph::{Format, ModelShape, Weight, WeightClass};
use wgoose_kernels::Plan;
use wgoose_loader::Model;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{Occurrence, occurrences};
use wgoose_runtime::Device;

/// The kinds of instances of an op in the passes that were asked for, each with its pass.
pub(super) fn sites(args: &Args, device: &Device, op: &str) -> Result<Vec<(Scenario, Occurrence)>, Failure> {
    let (shape, stored) = model(args)?;
    let fusions = Plan::default_for(device.fingerprint().clone(), shape, device.limits()).fusions;
    let mut sites = Vec::new();
    let passes = args.tokens.iter().copied().filter(|tokens| *tokens > 0).map(Scenario::prefill);
    for pass in passes.chain(args.sequences.iter().copied().map(Scenario::batch)) {
        let default = match (pass.tokens, pass.sequences) {
            (1, 1) => &fusions.decode,
            (1, _) => &fusions.batched,
            _ => &fusions.prefill,
        };
        let found = occurrences(op, &shape, pass, default, &stored);
        sites.extend(found.into_iter().map(|occurrence| (pass, occurrence)));
    }
    Ok(sites)
}

/// A pass in words.
pub(super) fn named(pass: Scenario) -> String {
    match pass.sequences {
        1 => format!("a pass of {} tokens", pass.tokens),
        sequences => format!("a step of {sequences} sequences"),
    }
}

/// In which format a weight reaches the GPU.
type Formats = Box<dyn Fn(Weight) -> Format>;

/// The shape of the model that was named, and the formats of its weights.
fn model(args: &Args) -> Result<(ModelShape, Formats), Failure> {
    let format = args.format;
    if let Some(shape) = args.model.to_str().and_then(ModelShape::preset) {
        let stored = move |weight: Weight| {
            let [rows, cols] = weight.shape(&shape).map(|n| n as usize);
            match weight.class() {
                WeightClass::Vector => Format::F32,
                WeightClass::Matrix if format.bytes(rows, cols).is_some() => format,
                _ => Format::F16,
            }
        };
        return Ok((shape, Box::new(stored)));
    }
    let model = Model::open(&args.model)?;
    let stored = move |weight: Weight| match weight.class() {
        WeightClass::Vector => Format::F32,
        _ => model.tensor(weight).format(),
    };
    Ok((*Model::open(&args.model)?.shape(), Box::new(stored)))
}
