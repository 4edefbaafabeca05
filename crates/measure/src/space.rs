//! The space of a sweep: the kinds of op instances that a model's passes have, and for each the configurations of the
//! catalogue's variants, each admitted or refused with a reason.

use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, Graph, Level, ModelShape, NodeId, Target, Weight, rewrite, rwkv7,
};
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{
    Catalogue, Config, Instance, KernelError, Limits, Packed, Plan, Precision, Refusal, TextError, Variant,
};
use wgoose_runtime::schedule;

/// Op instances that take the same kernel, and how many a pass has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceGroup {
    /// What a plan calls them.
    pub key: TuningKey,
    /// One of them.
    pub instance: Instance,
    /// How many a pass has.
    pub count: u32,
    /// Whether any of them belongs to a layer.
    pub in_layers: bool,
}

impl InstanceGroup {
    /// The instance for the kernel of a configuration: what the pass has packed is, as far as the kernel can take it
    /// so.
    pub fn instance_for(&self, variant: &Variant, config: &Config, limits: &Limits) -> Instance {
        Instance { packed: variant.takes(&self.instance, config, limits), ..self.instance.clone() }
    }

    /// The instance with no value packed, which every kernel can take.
    pub fn unpacked(&self) -> Instance {
        let packed = Packed { x: false, y: false, ..self.instance.packed };
        Instance { packed, ..self.instance.clone() }
    }

    /// The same with another number of rows; `None` where its operands do not simply have as many.
    pub fn with_rows(&self, rows: u32) -> Option<Self> {
        let instance = self.instance.with_rows(rows)?;
        Some(InstanceGroup { key: TuningKey::of(&instance), instance, ..self.clone() })
    }

    /// Bytes that all of them read and write in a pass.
    pub fn bytes(&self) -> u64 {
        u64::from(self.count) * self.instance.bytes()
    }
}

/// The groups of a pass: `tokens` of each of `sequences`, with one output each.
pub fn groups(
    model: &ModelShape,
    scenario: Scenario,
    fusions: &FusionSet,
    format: &dyn Fn(Weight) -> Format,
) -> Vec<InstanceGroup> {
    groups_to(model, Target::Logits, scenario, (fusions, format), &|_, _| BTreeMap::new())
}

/// The groups of a pass as it runs by a plan: values that kernels hand to one another are packed where these can.
pub fn groups_as_run(
    plan: &Plan,
    scenario: Scenario,
    fusions: &FusionSet,
    format: &dyn Fn(Weight) -> Format,
    (limits, catalogue): (&Limits, &Catalogue),
) -> Vec<InstanceGroup> {
    // What cannot be run says so where it is.
    let packing = |graph: &Graph, batch: &BatchShape| {
        schedule::packing(graph, batch, format, (plan, limits, catalogue)).unwrap_or_default()
    };
    groups_to(&plan.model, Target::Logits, scenario, (fusions, format), &packing)
}

fn groups_to(
    model: &ModelShape,
    target: Target,
    scenario: Scenario,
    (fusions, format): (&FusionSet, &dyn Fn(Weight) -> Format),
    packing: &dyn Fn(&Graph, &BatchShape) -> BTreeMap<NodeId, Packed>,
) -> Vec<InstanceGroup> {
    let Scenario { tokens, sequences, .. } = scenario;
    let batch = BatchShape { tokens: tokens * sequences, segments: sequences, outputs: sequences };
    let mut groups: BTreeMap<TuningKey, InstanceGroup> = BTreeMap::new();
    // A shape that is no model, or a fusion that does not apply, has no instances.
    let Ok(mut graph) = rwkv7::forward_to(model, target) else { return Vec::new() };
    if rewrite::apply(&mut graph, fusions).is_err() {
        return Vec::new();
    }
    let packing = packing(&graph, &batch);
    for id in graph.schedule().unwrap_or_default() {
        let packed = packing.get(&id).copied().unwrap_or_default();
        let instance = Instance { packed, ..Instance::of(&graph, id, &batch, format) };
        let key = TuningKey::of(&instance);
        let new = InstanceGroup { key: key.clone(), instance, count: 0, in_layers: false };
        let group = groups.entry(key).or_insert(new);
        group.count += 1;
        group.in_layers |= graph.op(id).layer.is_some();
    }
    groups.into_values().collect()
}

/// Instances of an op, in whatever form of the pass they occur.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The instances.
    pub group: InstanceGroup,
    /// Whether the pass with the given fusions has them; another op does their work there otherwise.
    pub occurs: bool,
}

/// Every kind of instance of an op that a pass has with any fusions, or as it reads a text for its hidden states; those
/// that it has with `fusions` first.
pub fn occurrences(
    op: &str,
    model: &ModelShape,
    scenario: Scenario,
    fusions: &FusionSet,
    format: &dyn Fn(Weight) -> Format,
) -> Vec<Occurrence> {
    let mut found: Vec<Occurrence> = Vec::new();
    let mut add = |groups: Vec<InstanceGroup>, occurs| {
        for group in groups.into_iter().filter(|group| group.key.op == op) {
            if found.iter().all(|known| known.group.key != group.key) {
                found.push(Occurrence { group, occurs });
            }
        }
    };
    add(groups(model, scenario, fusions, format), true);
    for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
        for set in Fusion::covering_sets() {
            add(groups_to(model, target, scenario, (&set, format), &|_, _| BTreeMap::new()), false);
        }
    }
    found
}

/// A variant with one choice of each of its tunables.
#[derive(Clone, Debug)]
pub struct Configuration<'c> {
    /// The variant.
    pub variant: &'c Variant,
    /// Its choices.
    pub config: Config,
    /// Why it is not tried here, as far as can be told without making its text.
    pub refusal: Option<Refusal>,
}

/// A variant whose files are wrong.
pub type BrokenVariant<'c> = (&'c Variant, TextError);

/// What of the space is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The least precise arithmetic that a kernel may use.
    pub allowed: Precision,
    /// Whether speed heuristics are ignored.
    pub exhaustive: bool,
}

/// Every configuration for a group: each variant that op tries by default first, from its default configuration on; and
/// the variants whose files are wrong.
pub fn configurations<'c>(
    group: &InstanceGroup,
    limits: &Limits,
    scope: Scope,
    catalogue: &'c Catalogue,
) -> (Vec<Configuration<'c>>, Vec<BrokenVariant<'c>>) {
    let (mut all, mut broken) = (Vec::new(), Vec::new());
    'variants: for variant in catalogue.variants(group.instance.op.name()) {
        let mut own = Vec::new();
        for config in variant.configs() {
            let precision = variant.precision(&config);
            let instance = group.instance_for(variant, &config, limits);
            let judged = match scope.exhaustive {
                true => variant.is_legal(&instance, &config, limits),
                false => variant.admits(&instance, &config, limits),
            };
            let refusal = match judged {
                Err(KernelError::Text(error)) => {
                    broken.push((variant, error));
                    continue 'variants;
                }
                _ if precision > scope.allowed => Some(Refusal::Precision(precision)),
                Err(KernelError::Refused(refusal)) => Some(refusal),
                Ok(()) => None,
            };
            own.push(Configuration { variant, config, refusal });
        }
        all.append(&mut own);
    }
    (all, broken)
}

/// The configurations that differ from `from` in one tunable.
pub fn one_tunable_away<'a>(
    all: &'a [Configuration<'_>],
    from: &'a Configuration<'_>,
) -> impl Iterator<Item = usize> + 'a {
    let is_near =
        |c: &Configuration<'_>| c.variant.path() == from.variant.path() && c.config.distance(&from.config) == 1;
    all.iter().enumerate().filter(move |(_, c)| is_near(c)).map(|(i, _)| i)
}

/// The grid of a persistent kernel: what its stages must suit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersistentGrid {
    /// Workgroups.
    pub workgroups: u32,
    /// Threads of each.
    pub threads: u32,
}

impl PersistentGrid {
    /// Whether a kernel may suit, as far as its tunables say: as wide or a part as wide, and, if its grid is fixed,
    /// with as many of its workgroups for each of these.
    pub fn admits(self, variant: &Variant, config: &Config, limits: &Limits) -> bool {
        let number = |name: &str| variant.tunable(config, name, limits);
        number("WG").is_none_or(|width| self.threads.is_multiple_of(width))
            && number("GRID").is_none_or(|grid| grid.is_multiple_of(self.workgroups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_kernels::Plan;
    use wgoose_plans::catalogue;

    #[test]
    fn the_space_has_every_kind_of_instance_once_and_every_refusal() {
        let model = ModelShape::preset("0.1B").unwrap();
        let groups = groups(&model, Scenario::DECODE, &Plan::default_fusions(false).decode, &|_| Format::F16);
        let count = |op: &str| groups.iter().filter(|g| g.key.op == op).map(|g| g.count).sum::<u32>();
        assert_eq!((count("time_mix_core"), count("project"), count("norm_shift")), (12, 12, 24));
        assert_eq!((count("matmul"), count("matmul_add")), (12 + 1, 24));

        let head = groups.iter().find(|g| g.key.m == 65536).unwrap();
        let catalogue = catalogue::embedded();
        let scope = Scope { allowed: Precision::F32, exhaustive: false };
        let (all, broken) = configurations(head, &Limits::webgpu(), scope, &catalogue);
        let refused = all.iter().filter(|c| c.refusal.is_some()).count();
        assert!(all.len() > 80 && refused > 30 && broken.is_empty(), "{} configurations, {refused} refused", all.len());
        let naive = all.iter().find(|c| c.variant.name() == "naive").unwrap();
        assert_eq!(one_tunable_away(&all, naive).count(), 1);
    }

    #[test]
    fn kernels_are_tried_on_values_that_are_packed_as_the_pass_has_them() {
        use wgoose_kernels::{DeviceFingerprint, Feature};
        let features = [Feature::Subgroups, Feature::F16, Feature::CooperativeMatrix].into();
        let own = Limits { workgroup_threads: 1024, workgroup_memory: 48 << 10, ..Limits::webgpu() };
        let limits = Limits { storage_buffers: 20, features, min_subgroup: 32, multiprocessors: 132, ..own };
        let text = String::new;
        let (adapter, driver, backend, wgpu) = (text(), text(), text(), text());
        let device = DeviceFingerprint { adapter, vendor: 0, device: 0, driver, backend, wgpu };
        let plan = Plan::default_for(device, ModelShape::preset("0.1B").unwrap(), &limits);
        let (scenario, catalogue) = (Scenario::prefill(512), catalogue::embedded());
        let known = (&limits, &*catalogue);
        let groups = groups_as_run(&plan, scenario, &plan.fusions.prefill, &|_| Format::F16, known);
        let packed = |op: &str, k: u32, m: u32| {
            let group = groups.iter().find(|group| (&*group.key.op, group.key.k, group.key.m) == (op, k, m)).unwrap();
            (group, (group.instance.packed.x, group.instance.packed.y))
        };
        assert_eq!(packed("norm_shift", 768, 768).1, (false, true));
        assert_eq!(packed("matmul_add", 3072, 768).1, (true, false));
        let (up, both) = packed("matmul", 768, 3072);
        assert_eq!(both, (true, true));
        let scope = Scope { allowed: Precision::F16, exhaustive: false };
        let (all, _) = configurations(up, &limits, scope, &catalogue);
        for (name, takes) in [("gemm_coop_128x128", (true, true)), ("naive", (false, false))] {
            let c = all.iter().find(|c| c.variant.name() == name && c.refusal.is_none()).unwrap();
            let instance = up.instance_for(c.variant, &c.config, &limits);
            assert_eq!((instance.packed.x, instance.packed.y), takes, "{name}");
        }
    }

    #[test]
    fn every_op_occurs_fused_away_or_not() {
        let plain = ModelShape::preset("0.1B").unwrap();
        let deep = ModelShape { deep_embed: Some(32), ..plain };
        let fusions = Plan::default_fusions(false);
        for op in wgoose_kernels::ops::ALL {
            let model = if op.name == "token_matmul" { deep } else { plain };
            let of = |scenario, fusions| occurrences(op.name, &model, scenario, fusions, &|_| Format::F16);
            let decode = of(Scenario::DECODE, &fusions.decode);
            assert!(!decode.is_empty() || !of(Scenario::prefill(16), &fusions.prefill).is_empty(), "{}", op.name);
            let is_fused_away = !decode.iter().any(|o| o.occurs);
            if ["lerp", "time_mix_core", "matmul"].contains(&op.name) {
                assert_eq!(is_fused_away, op.name == "lerp", "{}", op.name);
            }
        }
    }

    #[test]
    fn an_exhaustive_sweep_overrules_speed_heuristics_only() {
        let model = ModelShape::preset("2.9B").unwrap();
        let groups = groups(&model, Scenario::DECODE, &Plan::default_fusions(false).decode, &|_| Format::Q8_0);
        let limits = Limits {
            features: BTreeMap::from([(wgoose_kernels::Feature::Subgroups, ())]).into_keys().collect(),
            ..Limits::webgpu()
        };
        let catalogue = catalogue::embedded();
        let count = |exhaustive| {
            let scope = Scope { allowed: Precision::Q8, exhaustive };
            let all = groups.iter().flat_map(|g| configurations(g, &limits, scope, &catalogue).0);
            let (mut legal, mut pruned) = (0, 0);
            for c in all {
                legal += usize::from(c.refusal.is_none());
                pruned += usize::from(matches!(c.refusal, Some(Refusal::Pruned { .. })));
            }
            (legal, pruned)
        };
        let ((some, pruned), (all, none)) = (count(false), count(true));
        assert!(pruned > 100 && none == 0 && all == some + pruned, "{some} + {pruned} of {all}");
    }
}
