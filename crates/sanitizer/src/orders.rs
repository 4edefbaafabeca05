//! One dispatch in several orders: what any of them shows, and results that differ.

use crate::dispatch::{Dispatch, Order};
use crate::error::SanitizerError;
use crate::program::Program;
use crate::report::{FindingKind, Report};
use crate::run::{Findings, Found, Outcome, run};
use std::collections::BTreeSet;

/// Pairs of places whose values are followed one by one; of more it is only told whether all are dropped.
const FOLLOWED: usize = 8;

/// The instructions of a race.
type Ops = BTreeSet<u32>;

pub(crate) fn check(
    program: &Program,
    source: &str,
    dispatch: &Dispatch,
    orders: &[Order],
) -> Result<Report, SanitizerError> {
    let (mut findings, mut outcomes, mut steps) = (Findings::default(), Vec::new(), 0);
    let orders = if orders.is_empty() { &[dispatch.order][..] } else { orders };
    for order in orders {
        let mut outcome = run(program, &dispatch.clone().in_order(*order), BTreeSet::new())?;
        findings.merge(std::mem::take(&mut outcome.findings));
        steps += outcome.steps;
        outcomes.push(outcome);
    }
    if let Some((first, others)) = outcomes.split_first() {
        for other in others.iter().filter(|other| first.is_complete && other.is_complete) {
            compare(program, dispatch, first, other, &mut findings);
        }
    }
    let dropped = dropped(program, dispatch, orders, &findings, &outcomes)?;
    let is_dropped = |found: &Found| races(found).map(|ops| dropped.contains(&ops));
    let findings = findings.reported(program, source, is_dropped);
    let is_complete = outcomes.iter().all(|outcome| outcome.is_complete);
    let buffers = outcomes.into_iter().next().map(|outcome| outcome.buffers).unwrap_or_default();
    Ok(Report { findings, buffers, is_complete, steps })
}

/// Says which buffers have other bytes in another order, and who wrote the first of them.
fn compare(program: &Program, dispatch: &Dispatch, first: &Outcome, other: &Outcome, findings: &mut Findings) {
    for (number, (a, b)) in first.buffers.iter().zip(&other.buffers).enumerate() {
        let Some(byte) = a.bytes().iter().zip(b.bytes()).position(|(a, b)| a != b) else { continue };
        let count = a.bytes().iter().zip(b.bytes()).filter(|(a, b)| a != b).count();
        let bound = dispatch.bindings.iter().find(|(_, range)| range.buffer == number).map(|(binding, _)| *binding);
        let variable = program.variables.iter().position(|v| v.binding.is_some() && v.binding == bound);
        let writers = [first, other].map(|outcome| outcome.writers.of(number, byte));
        let mut known = writers.into_iter().flatten();
        let Some(writer) = known.next() else { continue };
        let detail = || format!("{count} bytes differ, byte {byte} first");
        findings.add(FindingKind::OrderDependence, variable.map(|v| v as u32), writer, known.next(), detail);
    }
}

/// The instructions of a finding that is a race.
fn races(found: &Found) -> Option<Ops> {
    let is_race = matches!(found.kind, FindingKind::Race | FindingKind::WrongBarrier);
    is_race.then(|| [Some(found.first), found.second].into_iter().flatten().map(|site| site.op).collect())
}

/// The races whose value may be NaN without a change of any result.
fn dropped(
    program: &Program,
    dispatch: &Dispatch,
    orders: &[Order],
    findings: &Findings,
    outcomes: &[Outcome],
) -> Result<BTreeSet<Ops>, SanitizerError> {
    let all: BTreeSet<Ops> = findings.all().filter_map(races).collect();
    let keeps_results = |poisoned: &Ops| -> Result<bool, SanitizerError> {
        for (order, before) in orders.iter().zip(outcomes) {
            let outcome = run(program, &dispatch.clone().in_order(*order), poisoned.clone())?;
            if outcome.buffers != before.buffers || !findings.covers(&outcome.findings) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if all.is_empty() || keeps_results(&all.iter().flatten().copied().collect())? {
        return Ok(all);
    }
    let mut dropped = BTreeSet::new();
    if all.len() > 1 && all.len() <= FOLLOWED {
        for ops in all {
            if keeps_results(&ops)? {
                dropped.insert(ops);
            }
        }
    }
    Ok(dropped)
}
