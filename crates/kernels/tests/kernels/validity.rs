//! naga accepts every kernel, and it binds exactly the op's operands.

use crate::instances::{small, wide};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use wgoose_graph::{Format, Operand, OperandKind};
use wgoose_kernels::{Access, Catalogue, Instance, Kernel, KernelError, Variant};

/// Configurations of a variant that are tried at an instance: others at others, and property tests take others again.
const TRIED: usize = 4;

#[test]
fn every_kernel_is_valid_and_binds_the_operands() {
    let (checked, refused) = (AtomicU32::new(0), AtomicU32::new(0));
    let (catalogue, limits) = (Catalogue::embedded(), wide());
    let formats: Vec<Format> = Format::all().collect();
    formats.into_par_iter().enumerate().for_each(|(i, format)| {
        for instance in small(format, &[1, 16]) {
            for variant in catalogue.variants(instance.op.name()) {
                let configs = variant.configs();
                let step = configs.len().div_ceil(TRIED);
                for config in configs.into_iter().skip(i % step).step_by(step) {
                    match Kernel::new(variant, &instance, &config, &limits) {
                        Ok(kernel) => {
                            checked.fetch_add(1, Relaxed);
                            assert_binds(&kernel, &instance, variant);
                        }
                        Err(KernelError::Text(e)) => panic!("{}: {e}", variant.label(&config)),
                        Err(KernelError::Refused(_)) => drop(refused.fetch_add(1, Relaxed)),
                    }
                }
            }
        }
    });
    let (checked, refused) = (checked.into_inner(), refused.into_inner());
    println!("{checked} kernels valid, {refused} configurations refused");
    assert!(checked > 1000, "only {checked} kernels");
}

fn assert_binds(kernel: &Kernel, instance: &Instance, variant: &Variant) {
    let op = &instance.op;
    let mut want: BTreeSet<&str> = op.operands().iter().map(|o| o.name).collect();
    want.extend(["y", "params"]);
    if let Some(overwritten) = op.in_place() {
        want.remove(overwritten);
    }
    if op.only_updates_state() {
        want.remove("y");
    }
    for binding in &kernel.facts.bindings {
        let updated = |o: &Operand| o.kind == OperandKind::State && o.name == binding.name;
        let handed_over = ["partials", "arrivals"].contains(&binding.name.as_str());
        let written = binding.name == "y" || handed_over || op.operands().iter().any(updated);
        assert_eq!(binding.access == Access::ReadWrite, written, "{} {}", variant.id(), binding.name);
    }
    if kernel.partials > 0 {
        want.extend(["partials", "arrivals"]);
    }
    let got: BTreeSet<&str> = kernel.facts.bindings.iter().map(|b| b.name.as_str()).collect();
    // A kernel need not read an operand that tells it nothing (single-pass row kernels).
    assert!(got.is_subset(&want), "{}: {got:?} against {want:?}", variant.id());
    let idle: Vec<_> = want.difference(&got).collect();
    let may_idle = idle.iter().all(|n| ["token_segments", "segments"].contains(n));
    assert!(may_idle, "{} does not bind {idle:?}", variant.id());
    assert!(kernel.workgroups > 0);
}
