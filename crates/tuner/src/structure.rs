//! What whole steps decide: how quantised matrices lie on the GPU, the prefill chunk, the fusions.

use crate::race::Step;
use crate::stats::verdict::Verdict;
use std::collections::BTreeSet;
use wgoose_graph::{Format, Fusion, FusionSet, Weight, WeightClass};
use wgoose_kernels::Plan;
use wgoose_loader::Model;

/// One structural change to a plan.
pub(crate) struct Change {
    /// What it is, for people.
    pub(crate) name: String,
    /// The steps that it must speed up.
    pub(crate) steps: Vec<Step>,
    /// Makes the change.
    pub(crate) apply: Box<dyn Fn(&mut Plan)>,
}

impl Change {
    fn new(name: String, steps: &[Step], apply: impl Fn(&mut Plan) + 'static) -> Self {
        Change { name, steps: steps.to_vec(), apply: Box::new(apply) }
    }
}

/// The changes to try, in order: each on top of those that won before it. Layouts come first, as decode and prefill
/// share one; then the fusions of decode; then the chunk, which decides most of a prompt's time, before the fusions of
/// its passes. Fusions, those that the device can bind, are toggled one at a time.
pub(crate) fn changes(
    start: &Plan,
    tileable: &BTreeSet<Format>,
    fusions: &FusionSet,
    chunks: &[u32],
    prompt: Step,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for format in tileable.difference(&start.repack).copied() {
        let apply = move |plan: &mut Plan| plan.repack.extend([format]);
        changes.push(Change::new(format!("{format} in tiles"), &[Step::DECODE, prompt], apply));
    }
    for fusion in fusions.iter().copied() {
        let name = format!("decode {} {fusion}", verb(&start.fusions.decode, fusion));
        changes.push(Change::new(name, &[Step::DECODE], move |plan| toggle(&mut plan.fusions.decode, fusion)));
    }
    for chunk in chunks.iter().copied().filter(|c| *c != start.prefill_chunk) {
        changes.push(Change::new(format!("chunk {chunk}"), &[prompt], move |plan| plan.prefill_chunk = chunk));
    }
    for fusion in fusions.iter().copied() {
        let name = format!("prefill {} {fusion}", verb(&start.fusions.prefill, fusion));
        changes.push(Change::new(name, &[prompt], move |plan| toggle(&mut plan.fusions.prefill, fusion)));
    }
    changes
}

/// The formats of the model's matrices that can be repacked in tiles.
pub(crate) fn tileable(model: &Model) -> BTreeSet<Format> {
    let matrices = Weight::all(model.shape()).filter(|w| w.class() != WeightClass::Vector);
    matrices.map(|w| model.tensor(w).format()).filter(|f| f.tiled().is_some()).collect()
}

/// Whether a change takes place: it speeds up one of its steps and slows down none.
pub(crate) fn wins(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|v| v.replaces_incumbent()) && !verdicts.contains(&Verdict::Slow)
}

/// What toggling a fusion means.
fn verb(set: &FusionSet, fusion: Fusion) -> &'static str {
    if set.contains(&fusion) { "without" } else { "with" }
}

fn toggle(set: &mut FusionSet, fusion: Fusion) {
    if !set.remove(&fusion) {
        set.insert(fusion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::ModelShape;
    use wgoose_kernels::{DeviceFingerprint, Limits};

    fn default() -> Plan {
        let text = String::new;
        let device =
            DeviceFingerprint { adapter: text(), vendor: 0, device: 0, driver: text(), backend: text(), wgpu: text() };
        Plan::default_for(device, ModelShape::preset("0.1B").unwrap(), &wide())
    }

    /// A device that binds all that any fusion asks for.
    fn wide() -> Limits {
        Limits { storage_buffers: 16, ..Limits::webgpu() }
    }

    #[test]
    fn every_change_is_one_and_named() {
        let (default, prompt) = (default(), Step::prefill(256));
        let tileable = BTreeSet::from([Format::Q8_0, Format::Q6_K]);
        let all = changes(&default, &tileable, &Fusion::ALL.into(), &[16, 64, 256], prompt);
        assert_eq!(all.len(), 2 + 2 + 2 * Fusion::ALL.len());
        let mut hashes = BTreeSet::from([default.hash()]);
        for change in &all {
            let mut changed = default.clone();
            (change.apply)(&mut changed);
            assert!(hashes.insert(changed.hash()), "{} changes nothing new", change.name);
        }
        let layouts: Vec<&str> = all[..2].iter().map(|c| c.name.as_str()).collect();
        assert_eq!(layouts, ["Q8_0 in tiles", "Q6_K in tiles"]);
        assert!(all[..2].iter().all(|c| c.steps == [Step::DECODE, prompt]));
        assert!(all[2..].iter().all(|c| c.steps.len() == 1));
    }

    #[test]
    fn layouts_add_up() {
        let tileable = BTreeSet::from([Format::Q8_0, Format::Q4_0]);
        let mut plan = default();
        for change in &changes(&default(), &tileable, &FusionSet::new(), &[], Step::DECODE)[..2] {
            (change.apply)(&mut plan);
        }
        assert_eq!(plan.repack, tileable);
        let names = changes(&plan, &tileable, &FusionSet::new(), &[], Step::DECODE).into_iter().map(|c| c.name);
        assert_eq!(names.filter(|n| n.contains("tiles")).count(), 0);
    }

    #[test]
    fn a_change_must_not_slow_down_the_other_step() {
        use Verdict::{Ambiguous, Fast, Same, Slow};
        assert!(wins(&[Fast]) && wins(&[Fast, Same]) && wins(&[Ambiguous, Fast]));
        assert!(!wins(&[Fast, Slow]) && !wins(&[Same, Ambiguous]) && !wins(&[]));
    }
}
