//! Fusions: rewrites that a plan may ask for. Each is a named pattern with typed refusals; the unfused form stays.

mod lora_group;
mod matmul_activation;
mod matmul_residual;
mod norm_consumer;
mod norm_shift;
mod project;
mod time_mix_core;
mod time_mix_heads;
mod time_mix_split;

use crate::{Activation, Graph, NodeId, Op, Source, Violation, Weight, legality};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;

/// A fusion that a plan may choose. The order is the order in which they are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fusion {
    /// Layer norm + token shift + lerps in one op.
    NormShift,
    /// The first halves of the adapters in one op, the second halves in another.
    LoraGroup,
    /// The matrices r, k, v and the grouped first halves of the adapters in one op; nothing without
    /// [`Fusion::LoraGroup`].
    Project,
    /// All that a time mix does between its projections and its output matrix in one op.
    TimeMixCore,
    /// The second halves of the adapters in the op of the heads that they are for; nothing without
    /// [`Fusion::LoraGroup`] and [`Fusion::TimeMixCore`].
    TimeMixHeads,
    /// The work of [`Fusion::TimeMixCore`] in two ops: the recurrence with what goes into it, and what follows it, whose
    /// tokens are independent. For many tokens; nothing with [`Fusion::TimeMixCore`], which comes first.
    TimeMixSplit,
    /// An activation in the product before it.
    MatmulActivation,
    /// A residual addition in the product before it, in place.
    MatmulResidual,
    /// The layer norm and token shift of the time mix in the projections after them; nothing without
    /// [`Fusion::NormShift`] and [`Fusion::Project`].
    NormProject,
    /// The layer norm and token shift of the channel mix in the product after them; nothing without
    /// [`Fusion::NormShift`].
    NormMatmul,
}

/// The fusions of a plan.
pub type FusionSet = BTreeSet<Fusion>;

impl Fusion {
    /// Every fusion, in the order of application.
    pub const ALL: [Fusion; 10] = [
        Fusion::NormShift,
        Fusion::LoraGroup,
        Fusion::Project,
        Fusion::TimeMixCore,
        Fusion::TimeMixHeads,
        Fusion::TimeMixSplit,
        Fusion::MatmulActivation,
        Fusion::MatmulResidual,
        Fusion::NormProject,
        Fusion::NormMatmul,
    ];

    /// Sets that together make every op, fused or not: some fusions take in the ops that others make.
    pub fn covering_sets() -> [FusionSet; 5] {
        let all = FusionSet::from(Fusion::ALL);
        let without = |fusions: &[Fusion]| &all - &fusions.iter().copied().collect();
        let apart = without(&[Fusion::NormProject, Fusion::NormMatmul]);
        let adapters_apart = without(&[Fusion::Project, Fusion::TimeMixHeads]);
        [FusionSet::new(), adapters_apart, apart, all.clone(), FusionSet::from([Fusion::TimeMixSplit])]
    }

    /// The fusion that leaves this one nothing to do.
    pub const fn instead_of(self) -> Option<Fusion> {
        match self {
            Fusion::TimeMixSplit => Some(Fusion::TimeMixCore),
            _ => None,
        }
    }

    /// Whether it is for steps of one token of one sequence only: every workgroup repeats for its token what others share
    /// among many.
    pub const fn is_for_decode(self) -> bool {
        matches!(self, Fusion::NormProject | Fusion::NormMatmul)
    }

    /// The name on the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Fusion::NormShift => "norm-shift",
            Fusion::LoraGroup => "lora-group",
            Fusion::Project => "project",
            Fusion::TimeMixCore => "time-mix-core",
            Fusion::TimeMixHeads => "time-mix-heads",
            Fusion::TimeMixSplit => "time-mix-split",
            Fusion::MatmulActivation => "matmul-activation",
            Fusion::MatmulResidual => "matmul-residual",
            Fusion::NormProject => "norm-project",
            Fusion::NormMatmul => "norm-matmul",
        }
    }
}

impl fmt::Display for Fusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Fusion`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown fusion '{0}': expected norm-shift, lora-group, project, time-mix-core, time-mix-heads, time-mix-split, \
     matmul-activation, matmul-residual, norm-project or norm-matmul"
)]
pub struct UnknownFusion(pub String);

impl std::str::FromStr for Fusion {
    type Err = UnknownFusion;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Fusion::ALL.into_iter().find(|f| f.name() == s).ok_or_else(|| UnknownFusion(s.to_owned()))
    }
}

/// Why a place that could be fused was not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The neighbouring op is another one.
    #[error("{operand} is not made by {expected}")]
    NoMatch {
        /// The operand that was followed.
        operand: &'static str,
        /// The op that the pattern needs there.
        expected: &'static str,
    },
    /// A value inside the pattern is needed outside it as well.
    #[error("the value of {role} has {readers} readers")]
    Shared {
        /// Role of the op that makes the value.
        role: &'static str,
        /// How many ops read it.
        readers: usize,
    },
    /// The fused op would not be legal.
    #[error("{0}")]
    CheckFailed(String),
}

/// What one fusion did to a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct FusionReport {
    /// The fusion.
    pub fusion: Fusion,
    /// How many places were fused.
    pub applied: usize,
    /// The places that were not: role, layer, reason.
    pub refused: Vec<(&'static str, Option<u32>, Refusal)>,
}

/// Applies the chosen fusions in order and checks the legality rules after each.
///
/// # Errors
/// A rule that the rewritten graph breaks: a bug in a rewrite, not in the input.
pub fn apply(graph: &mut Graph, fusions: &FusionSet) -> Result<Vec<FusionReport>, Violation> {
    legality::check(graph)?;
    let mut reports = Vec::new();
    for &fusion in fusions {
        let (anchors, fuse): (fn(&Graph, NodeId) -> bool, Rewrite) = match fusion {
            Fusion::NormShift => (norm_shift::anchor, norm_shift::fuse),
            Fusion::LoraGroup => (lora_group::anchor, lora_group::fuse),
            Fusion::Project => (project::anchor, project::fuse),
            Fusion::TimeMixCore => (time_mix_core::anchor, time_mix_core::fuse),
            Fusion::TimeMixHeads => (time_mix_heads::anchor, time_mix_heads::fuse),
            Fusion::TimeMixSplit => (time_mix_core::anchor, time_mix_split::fuse),
            Fusion::MatmulActivation => (matmul_activation::anchor, matmul_activation::fuse),
            Fusion::MatmulResidual => (matmul_residual::anchor, matmul_residual::fuse),
            Fusion::NormProject => (norm_consumer::is_project, norm_consumer::fuse),
            Fusion::NormMatmul => (norm_consumer::is_normed_matmul, norm_consumer::fuse),
        };
        let mut report = FusionReport { fusion, applied: 0, refused: Vec::new() };
        let places: Vec<NodeId> = graph.op_ids().filter(|id| anchors(graph, *id)).collect();
        for place in places {
            let (role, layer) = (graph.op(place).role, graph.op(place).layer);
            match fuse(graph, place) {
                Ok(()) => report.applied += 1,
                Err(refusal) => report.refused.push((role, layer, refusal)),
            }
        }
        legality::check(graph)?;
        reports.push(report);
    }
    Ok(reports)
}

/// Tries one place; a refusal leaves the graph as it was.
type Rewrite = fn(&mut Graph, NodeId) -> Result<(), Refusal>;

/// The op behind an operand, if it is of that name and has no other reader.
fn producer(graph: &Graph, op: NodeId, operand: &'static str, expected: &'static str) -> Result<NodeId, Refusal> {
    let no_match = Refusal::NoMatch { operand, expected };
    let input = graph.input(op, operand).ok_or(no_match.clone())?;
    match graph.node(input.node) {
        crate::Node::Op(node) if node.op.name() == expected => Ok(input.node),
        _ => Err(no_match),
    }
}

/// The plain product that alone reads a matrix.
fn product_of(graph: &Graph, weight: Weight) -> Result<NodeId, Refusal> {
    let readers = graph.find_source(Source::Weight(weight)).map(|id| graph.readers(id)).unwrap_or_default();
    match readers[..] {
        [(id, _)] if graph.op(id).op == (Op::Matmul { activation: Activation::None }) => Ok(id),
        _ => Err(Refusal::NoMatch { operand: "w", expected: "matmul" }),
    }
}

/// Refuses unless `id` is read exactly `readers` times.
fn read_by(graph: &Graph, id: NodeId, readers: usize) -> Result<(), Refusal> {
    match graph.readers(id).len() {
        n if n == readers => Ok(()),
        n => Err(Refusal::Shared { role: graph.op(id).role, readers: n }),
    }
}

/// What an op reads at an operand, as an input of the fused op.
fn operand(graph: &Graph, op: NodeId, name: &'static str) -> Result<crate::Input, Refusal> {
    graph.input(op, name).ok_or_else(|| Refusal::CheckFailed(format!("operand '{name}' is missing")))
}

impl From<crate::GraphError> for Refusal {
    fn from(error: crate::GraphError) -> Self {
        Refusal::CheckFailed(error.to_string())
    }
}
