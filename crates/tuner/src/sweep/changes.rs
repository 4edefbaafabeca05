//! Choices that whole steps decide: the layouts of matrices on the GPU, the format of the state, the prefill chunk, the
//! fusions.

use super::options::Part;
use std::collections::BTreeSet;
use std::fmt;
use wgoose_graph::{Format, Fusion, FusionSet, LayerWeight};
use wgoose_kernels::{Plan, Precision, StateFormat};
use wgoose_measure::objective::Objective;
use wgoose_measure::problem::Layouts;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::stats::verdict::Verdict;

/// What a plan has or has not.
#[derive(Clone, Copy)]
pub(crate) enum Toggle {
    /// A fusion of decode.
    Fusion(Fusion),
    /// Blocks of a format interleaved.
    Interleaved(Format),
    /// A matrix of each layer K-major.
    KMajor(LayerWeight),
}

impl Toggle {
    /// Gives it to a plan, or takes it away.
    pub(crate) fn apply(self, plan: &mut Plan) {
        match self {
            Toggle::Fusion(fusion) => toggle(&mut plan.fusions.decode, fusion),
            Toggle::Interleaved(format) => plan.interleave = &plan.interleave ^ &BTreeSet::from([format]),
            Toggle::KMajor(role) => plan.k_major = &plan.k_major ^ &BTreeSet::from([role]),
        }
    }

    /// What it makes of a plan, for people.
    pub(crate) fn name(self, plan: &Plan) -> String {
        let is_there = match self {
            Toggle::Fusion(fusion) => plan.fusions.decode.contains(&fusion),
            Toggle::Interleaved(format) => plan.interleave.contains(&format),
            Toggle::KMajor(role) => plan.k_major.contains(&role),
        };
        format!("{} {self}", verb(is_there))
    }
}

impl fmt::Display for Toggle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Toggle::Fusion(fusion) => write!(f, "{fusion}"),
            Toggle::Interleaved(format) => write!(f, "{format} interleaved"),
            Toggle::KMajor(role) => write!(f, "{role:?} K-major"),
        }
    }
}

/// One structural change to a plan.
pub(crate) struct Change {
    /// What it is, for people.
    pub(crate) name: String,
    /// What it belongs to.
    pub(crate) part: Part,
    /// What it must speed up.
    pub(crate) scenarios: Vec<Scenario>,
    /// The format whose layout it changes, if that is what it does.
    pub(crate) interleaves: Option<Format>,
    /// Makes the change.
    pub(crate) apply: Box<dyn Fn(&mut Plan)>,
}

impl Change {
    fn new(part: Part, name: String, scenarios: &[Scenario], apply: impl Fn(&mut Plan) + 'static) -> Self {
        Change { part, name, scenarios: scenarios.to_vec(), interleaves: None, apply: Box::new(apply) }
    }
}

/// The changes to try, in order: each on top of those that won before it. Layouts come first, as decode and prefill
/// share one; then, for batches, a state in f16 where such arithmetic is allowed: one sequence reads too little of it
/// to gain; then the fusions of decode, and of batched decode; then the chunk, which decides most of a prompt's time,
/// before the fusions of its passes. Fusions, those that the device can bind, are toggled one at a time; those for
/// decode in decode only.
pub(crate) fn changes(
    start: &Plan,
    layouts: &Layouts,
    fusions: &FusionSet,
    (chunks, allowed): (&[u32], Precision),
    objective: &Objective,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let (all, prompts) = (objective.scenarios(), objective.prompts());
    for format in layouts.interleaved.difference(&start.interleave).copied() {
        let layout = Toggle::Interleaved(format);
        let change = Change::new(Part::Layouts, layout.to_string(), &all, move |plan| layout.apply(plan));
        changes.push(Change { interleaves: Some(format), ..change });
    }
    for role in layouts.k_major.difference(&start.k_major).copied() {
        let layout = Toggle::KMajor(role);
        changes.push(Change::new(Part::Layouts, layout.to_string(), &all, move |plan| layout.apply(plan)));
    }
    let batches = objective.batches();
    if !batches.is_empty() && start.state == StateFormat::F32 && StateFormat::F16.precision() <= allowed {
        let apply = |plan: &mut Plan| plan.state = StateFormat::F16;
        changes.push(Change::new(Part::State, "f16 state".to_owned(), &batches, apply));
    }
    for fusion in fusions.iter().copied().filter(|_| objective.decodes()) {
        let toggle = Toggle::Fusion(fusion);
        let name = format!("decode {}", toggle.name(start));
        changes.push(Change::new(Part::Fusions, name, &[Scenario::DECODE], move |plan| toggle.apply(plan)));
    }
    let for_several = || fusions.iter().copied().filter(|fusion| !fusion.is_for_decode());
    for fusion in for_several().filter(|_| !batches.is_empty()) {
        let name = format!("batched decode {} {fusion}", verb(start.fusions.batched.contains(&fusion)));
        let apply = move |plan: &mut Plan| toggle(&mut plan.fusions.batched, fusion);
        changes.push(Change::new(Part::Fusions, name, &batches, apply));
    }
    if prompts.is_empty() {
        return changes;
    }
    for chunk in chunks.iter().copied().filter(|c| *c != start.prefill_chunk) {
        // Shorter prompts are one pass of either.
        let is_cut = |prompt: &&Scenario| prompt.tokens > chunk.min(start.prefill_chunk);
        let prompts: Vec<Scenario> = prompts.iter().filter(is_cut).copied().collect();
        if !prompts.is_empty() {
            let apply = move |plan: &mut Plan| plan.prefill_chunk = chunk;
            changes.push(Change::new(Part::Chunk, format!("chunk {chunk}"), &prompts, apply));
        }
    }
    for fusion in for_several() {
        let name = format!("prefill {} {fusion}", verb(start.fusions.prefill.contains(&fusion)));
        let apply = move |plan: &mut Plan| toggle(&mut plan.fusions.prefill, fusion);
        changes.push(Change::new(Part::Fusions, name, &prompts, apply));
    }
    changes
}

/// Whether a change takes place: it speeds up one of its scenarios and slows down none.
pub(crate) fn wins(verdicts: &[Verdict]) -> bool {
    verdicts.iter().any(|v| v.replaces_incumbent()) && !verdicts.contains(&Verdict::Slow)
}

/// What toggling means of what a plan has, or has not.
fn verb(is_there: bool) -> &'static str {
    if is_there { "without" } else { "with" }
}

/// Adds a fusion to a set, or takes it out.
fn toggle(set: &mut FusionSet, fusion: Fusion) {
    if !set.remove(&fusion) {
        // Where both are, the other one leaves it nothing to do.
        set.retain(|other| fusion.instead_of() != Some(*other));
        set.insert(fusion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::ModelShape;
    use wgoose_kernels::{DeviceFingerprint, Limits};
    use wgoose_measure::objective::Part;

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
    fn every_change_is_distinct_and_named() {
        let (default, prompts) = (default(), [Scenario::prefill(64), Scenario::prefill(256)]);
        let part = |scenario: Scenario| Part { tokens: scenario.tokens, sequences: 1, from_start: false, weight: 1.0 };
        let parts = [Scenario::DECODE, prompts[0], prompts[1]].map(part).to_vec();
        let objective = Objective { name: "test".to_owned(), parts }.and_together(8);
        let layouts = Layouts {
            interleaved: BTreeSet::from([Format::Q8_0, Format::Q6_K]),
            k_major: BTreeSet::from([LayerWeight::FfnValue]),
        };
        let changes_of = |start: &Plan, chunks: &[u32], allowed| {
            changes(start, &layouts, &Fusion::ALL.into(), (chunks, allowed), &objective)
        };
        let all = changes_of(&default, &[16, 64, 256], Precision::F16);
        assert_eq!(all.len(), 3 + 1 + 2 + 3 * Fusion::ALL.len() - 2 * 2);
        assert_eq!(changes_of(&default, &[16, 64, 256], Precision::Q15).len(), all.len() - 1);
        assert_eq!(all[3].scenarios, objective.batches());
        let mut hashes = BTreeSet::from([default.hash()]);
        for change in &all {
            let mut changed = default.clone();
            (change.apply)(&mut changed);
            assert!(hashes.insert(changed.hash()), "{} changes nothing new", change.name);
        }
        let names: Vec<&str> = all[..4].iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["Q8_0 interleaved", "Q6_K interleaved", "FfnValue K-major", "f16 state"]);
        assert!(all[..3].iter().all(|c| c.scenarios == objective.scenarios()));
        assert!(all[3..].iter().all(|c| c.scenarios.len() == 1 || c.scenarios == prompts));
        // The default reads 64 at once.
        let chunk = |name: &str| all.iter().find(|c| c.name == name).unwrap().scenarios.clone();
        assert_eq!((chunk("chunk 16"), chunk("chunk 256")), (prompts.to_vec(), prompts[1..].to_vec()));
        // No prompt is longer than either chunk: there is nothing to compare.
        let long = Plan { prefill_chunk: 256, ..default };
        let none = changes(&long, &Layouts::default(), &FusionSet::new(), (&[512], Precision::F32), &objective);
        assert_eq!(none.len(), 0);
    }

    #[test]
    fn layouts_add_up() {
        let layouts = Layouts {
            interleaved: BTreeSet::from([Format::Q8_0, Format::Q4_0]),
            k_major: BTreeSet::from([LayerWeight::FfnValue]),
        };
        let mut plan = default();
        let changes =
            |start: &Plan| changes(start, &layouts, &FusionSet::new(), (&[], Precision::F16), &Objective::chat(true));
        for change in &changes(&default()) {
            (change.apply)(&mut plan);
        }
        assert_eq!((&plan.interleave, &plan.k_major), (&layouts.interleaved, &layouts.k_major));
        assert_eq!(changes(&plan).len(), 0);
    }

    #[test]
    fn a_change_must_not_slow_down_the_other_scenario() {
        use Verdict::{Ambiguous, Fast, Same, Slow};
        assert!(wins(&[Fast]) && wins(&[Fast, Same]) && wins(&[Ambiguous, Fast]));
        assert!(!wins(&[Fast, Slow]) && !wins(&[Same, Ambiguous]) && !wins(&[]));
    }
}
