//! An allocation as tables in Markdown.

use crate::cells::cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use wgoose_graph::{Format, Weight};
use wgoose_session::bit_allocation::{AllocatedTensor, Allocation};

/// How many matrices of each kind have which format, and what the mix is beside others.
pub(super) fn table(allocation: &Allocation) -> String {
    let format = |tensor: &AllocatedTensor| tensor.formats[tensor.chosen].format;
    let formats: BTreeSet<Format> = allocation.tensors.iter().map(format).collect();
    // In the order of a pass.
    let mut kinds: Vec<String> = Vec::new();
    let mut counts: BTreeMap<(String, Format), u32> = BTreeMap::new();
    for tensor in &allocation.tensors {
        let kind = kind(tensor.weight);
        if !kinds.contains(&kind) {
            kinds.push(kind.clone());
        }
        *counts.entry((kind, format(tensor))).or_default() += 1;
    }
    let names: Vec<&str> = formats.iter().map(|format| format.name()).collect();
    let mut out = format!("| matrices | {} |\n|---|{}\n", names.join(" | "), "---:|".repeat(formats.len()));
    for kind in kinds {
        let count = |format: &Format| counts.get(&(kind.clone(), *format)).map_or(String::new(), u32::to_string);
        let counts: Vec<String> = formats.iter().map(count).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {} | {} |", cell(&kind), counts.join(" | "));
    }
    out += "\n| mix | bytes | KL, nats a token | KL, 99th percentile | top-1 agrees |\n|---|---:|---:|---:|---:|\n";
    for mix in &allocation.mixes {
        let (all, most) = (mix.divergence.all(), mix.divergence.kl_99());
        let agreement = 100.0 * all.agreement();
        let (name, kl) = (cell(mix.name), all.mean_kl());
        let _ = writeln!(out, "| {name} | {} | {kl:.2e} | {most:.2e} | {agreement:.2} % |", mix.bytes);
    }
    let (tokens, estimate) = (allocation.tokens, allocation.estimate);
    let _ = writeln!(out, "\nmeasured on {tokens} tokens; single matrices add up to {estimate:.2e} nats a token");
    out
}

/// What a matrix is called in every layer.
fn kind(weight: Weight) -> String {
    let name = weight.to_string();
    match weight {
        Weight::Layer(layer, _) => name.trim_start_matches(&format!("blocks.{layer}.")).to_owned(),
        _ => name,
    }
}
