//! The kinds of op instance of a scenario.

use crate::sweep::task::Task;
use std::cmp::Reverse;
use wgoose_kernels::{Plan, ops};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;

/// Kinds of op instance of a scenario's passes, those first that compute the most. The head of a prompt is decode's.
pub(super) fn sites(task: Task<'_>, plan: &Plan, scenario: Scenario) -> Vec<InstanceGroup> {
    let passes = match scenario.tokens {
        1 => vec![1],
        tokens => vec![tokens.min(plan.prefill_chunk), tokens % plan.prefill_chunk],
    };
    let mut sites: Vec<InstanceGroup> = Vec::new();
    for tokens in passes.into_iter().filter(|tokens| *tokens > 1 || scenario.tokens == 1) {
        let fusions = match (scenario.tokens, scenario.sequences) {
            (1, 1) => &plan.fusions.decode,
            (1, _) => &plan.fusions.batched,
            _ => &plan.fusions.prefill,
        };
        for site in task.sites_as_run(plan, Scenario { tokens, ..scenario }, fusions) {
            let is_head = tokens > 1 && site.instance.rows == 1;
            if !is_head && sites.iter().all(|known| known.key != site.key) {
                sites.push(site);
            }
        }
    }
    sites.sort_by_key(|site| Reverse(work(site)));
    sites
}

/// The op instances that a changed plan brings into a scenario.
pub(super) fn new_sites(task: Task<'_>, plan: &Plan, changed: &Plan, scenario: Scenario) -> Vec<InstanceGroup> {
    let known = sites(task, plan, scenario);
    let mut sites = sites(task, changed, scenario);
    sites.retain(|site| known.iter().all(|known| known.key != site.key));
    sites
}

/// Bytes that op instances move, and half a byte for each operation: a slow device computes about as slowly as it
/// reads.
pub(super) fn work(site: &InstanceGroup) -> u64 {
    let flops = (ops::kernels(&site.instance.op).flops)(&site.instance);
    site.bytes() + u64::from(site.count) * flops / 2
}
