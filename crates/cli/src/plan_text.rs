//! A plan for people: what was chosen, and the evidence.

use crate::failure::Failure;
use wgoose_kernels::{Catalogue, Plan, Precision};

/// Prints a plan on standard output.
pub(crate) fn print(plan: &Plan, catalogue: &Catalogue) -> Result<(), Failure> {
    listln!("plan for {} ({}, {})", plan.device.adapter, plan.device.backend, plan.device.driver);
    listln!("model: {} layers of width {}, vocabulary {}", plan.model.layers, plan.model.width, plan.model.vocab);
    listln!("prefill chunk {}", plan.prefill_chunk);
    listln!("precision: {}", plan.least_precise(catalogue));
    listln!("state: {}", plan.state);
    for (scenario, set) in [
        ("decode", &plan.fusions.decode),
        ("batched decode", &plan.fusions.batched),
        ("prefill", &plan.fusions.prefill),
    ] {
        let names: Vec<String> = set.iter().map(ToString::to_string).collect();
        listln!("{scenario} fusions: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
    }
    if let Some(workgroups) = plan.persistent {
        listln!("megakernel: {workgroups} workgroups, synchronised by {}", plan.hand_over);
    }
    if !plan.interleave.is_empty() {
        let names: Vec<&str> = plan.interleave.iter().map(|format| format.name()).collect();
        listln!("interleaved: {}", names.join(", "));
    }
    if !plan.k_major.is_empty() {
        let names: Vec<String> = plan.k_major.iter().map(|role| format!("{role:?}")).collect();
        listln!("K-major, zeros of x skipped: {}", names.join(", "));
    }
    for choice in &plan.choices {
        let rounds = match choice.precision(catalogue) {
            Precision::F32 => String::new(),
            least => format!(" ({least})"),
        };
        listln!("  {:<42} {choice}{rounds}", choice.key.to_string());
    }
    if let Some(e) = &plan.evidence {
        let (certified, positions) = e.certified;
        let class = e.class.map_or("a class that was not recorded".to_owned(), |class| class.to_string());
        listln!(
            "quality hash {} of {class}, {certified} of {positions} positions certified, rms error {:.2e}",
            e.quality_hash,
            e.rms_error
        );
        match e.class {
            Some(_) => listln!("{0} of {0} decisions agree; not checked beyond {1}", e.decisions, e.checked),
            None => listln!("checked by the gate before classes of precision: wgoose verify checks it again"),
        }
        if !e.without_op.is_empty() {
            listln!("not tried, as it has no such op: {}", e.without_op.join(", "));
        }
        for s in &e.scenarios {
            listln!(
                "  {:<14} {:>4} tokens: default {:.0} us, tuned {:.0} us, x{:.2} to x{:.2} over {} pairs",
                s.scenario,
                s.tokens,
                s.default_us,
                s.tuned_us,
                s.speedup.0,
                s.speedup.1,
                s.pairs
            );
        }
    }
    Ok(())
}
