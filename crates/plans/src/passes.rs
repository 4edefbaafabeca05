//! The op instances of a model class under a plan: does the plan fit, and would its kernels run?

use crate::ModelClass;
use std::collections::BTreeSet;
use wgoose_graph::{BatchShape, Format, FusionSet, Graph, Weight, arena, rewrite, rwkv7};
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Instance, Plan};

/// The passes that a plan makes of the smallest model of a class: decode, batched decode, prefill.
pub(crate) struct Passes<'a> {
    class: &'a ModelClass,
    plan: &'a Plan,
    graphs: [Graph; 3],
}

impl<'a> Passes<'a> {
    /// `None` if the shape is no model, or a fusion leaves no legal graph.
    pub(crate) fn new(class: &'a ModelClass, plan: &'a Plan) -> Option<Self> {
        let base = rwkv7::forward(&class.smallest()).ok()?;
        let graph = |fusions: &FusionSet| {
            let mut graph = base.clone();
            rewrite::apply(&mut graph, fusions).ok().map(|_| graph)
        };
        let fusions = &plan.fusions;
        let graphs = [graph(&fusions.decode)?, graph(&fusions.batched)?, graph(&fusions.prefill)?];
        Some(Passes { class, plan, graphs })
    }

    /// Whether the passes have instances for every choice of the plan; how many rows it is for does not count.
    pub(crate) fn have_all_choices(&self) -> bool {
        let any = |key: &TuningKey| TuningKey { up_to_rows: 0, ..key.clone() };
        let here: BTreeSet<TuningKey> = self.instances(2).map(|instance| any(&TuningKey::of(&instance))).collect();
        self.plan.choices.iter().all(|choice| here.contains(&any(&choice.key)))
    }

    /// An instance of every kind that a pass of so many rows has.
    pub(crate) fn instances(&self, rows: u32) -> impl Iterator<Item = Instance> + '_ {
        let [decode, batched, prefill] = &self.graphs;
        let one = BatchShape { tokens: 1, segments: 1, outputs: 1 };
        let each = BatchShape { tokens: rows, segments: rows, outputs: rows };
        let passes = match rows {
            0 | 1 => vec![(decode, one)],
            _ => vec![(decode, one), (batched, each), (prefill, BatchShape { tokens: rows, ..one })],
        };
        let mut seen = BTreeSet::new();
        let instances = passes.into_iter().flat_map(move |(graph, batch)| {
            let format = |weight: Weight| self.format(weight);
            graph.op_ids().map(|id| Instance::of(graph, id, &batch, &format)).collect::<Vec<_>>()
        });
        instances.filter(move |instance| seen.insert(TuningKey::of(instance)))
    }

    /// The tokens of a chunk, halved until every value of the pass is of so many bytes at most.
    pub(crate) fn largest_chunk(&self, mut chunk: u32, bytes: u64) -> u32 {
        let [_, _, prefill] = &self.graphs;
        let fits = |tokens| {
            let values = arena(prefill, &BatchShape { tokens, segments: 1, outputs: 1 });
            values.is_none_or(|values| values.slot_len.iter().all(|floats| floats * 4 <= bytes))
        };
        while chunk > 1 && !fits(chunk) {
            chunk /= 2;
        }
        chunk
    }

    fn format(&self, weight: Weight) -> Format {
        self.plan.format_on_gpu(weight, self.class.format_in_smallest(weight))
    }
}
