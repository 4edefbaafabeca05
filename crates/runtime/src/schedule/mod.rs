//! From a graph and a plan to a recording: plain data that says which kernel runs on what, in which order.

mod buffer;
mod fuse;
mod memory;
mod packing;
mod states;
#[cfg(test)]
mod tests;

use crate::{BatchError, RuntimeError};
pub use buffer::{BufferId, BufferRange};
pub use fuse::{FuseError, Fused, Unfused, fuse};
pub(crate) use memory::{ARRIVALS, PARAMS, Places, UNIFORM_SEGMENTS, buffers, params_distance, storage_bytes};
pub use memory::{Memory, Operand};
pub use packing::packing;
use packing::{Shards, packed_of, packed_values};
use rayon::prelude::*;
pub(crate) use states::{StateLayout, StateTensor};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use wgoose_graph::{Arena, BatchShape, Format, Graph, Node, NodeId, OperandKind, Source, State, Weight, arena};
use wgoose_kernels::{
    Catalogue, Config, Instance, Kernel, KernelError, Limits, Packed, Params, Plan, PlanError, StateFormat, Variant,
    dispatch_size,
};

/// What is bound at a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The uniform block of the dispatch.
    Params,
    /// A range of an activation slot, in bytes.
    Slot {
        /// The slot.
        slot: usize,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        size: u64,
    },
    /// A shard of a weight.
    Weight(Weight, usize),
    /// State of every sequence.
    State(State),
    /// A table of the batch.
    Table(Table),
    /// What operands of several layers have in common, or what only a persistent kernel has.
    Range(BufferRange),
}

/// A table of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Token ids.
    Tokens,
    /// Segment of each token.
    TokenSegments,
    /// Segments.
    Segments,
    /// Rows that are wanted.
    Outputs,
    /// How many workgroups have handed over their part of a sum, by tile: zeros between dispatches.
    Arrivals,
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// The op it belongs to.
    pub node: NodeId,
    /// Index of its kernel.
    pub kernel: usize,
    /// What is bound, by binding number.
    pub bindings: Vec<(u32, Bound)>,
    /// The uniform block.
    pub params: Params,
    /// Workgroups.
    pub grid: [u32; 3],
}

/// Everything a pass does.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The kernels, each once.
    pub kernels: Vec<Kernel>,
    /// The dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// The offset tables of persistent kernels: how many layers there are, then `[layers, columns]`.
    pub offsets: Vec<Vec<u32>>,
    /// Bytes of the cells of persistent kernels whose values announce themselves.
    pub cells: Vec<u64>,
    /// Where the values live.
    pub arena: Arena,
    /// Slot of the result, if any is wanted.
    pub output: Option<usize>,
    /// The values that are stored as packed f16 ([`wgoose_kernels::Packed`]).
    pub packed: BTreeSet<NodeId>,
    /// How the WKV matrices are stored.
    pub state: StateFormat,
}

/// What the schedule must know of the model's tensors.
pub(crate) struct Tensors<'a> {
    /// How a weight is stored.
    pub(crate) format: &'a dyn Fn(Weight) -> Format,
    /// The shards of rows in which a matrix is bound.
    pub(crate) shards: &'a dyn Fn(Weight) -> Result<Vec<Range<u32>>, RuntimeError>,
}

/// How kernels are chosen: by a plan, with `like_rows` so that rows have the bits that they have among so many.
pub(crate) struct Choose<'a> {
    /// The plan.
    pub(crate) plan: &'a Plan,
    /// Rows of the instances whose bits all have.
    pub(crate) like_rows: Option<u32>,
    /// The device's limits.
    pub(crate) limits: &'a Limits,
    /// What there is to choose from.
    pub(crate) catalogue: &'a Catalogue,
}

/// Batch size for which a batch-invariant plan chooses kernels: the recurrence has other configurations for a small one.
const INVARIANT_SEGMENTS: u32 = 32;

/// A variant, its configuration, and the rows of the instance that it was chosen for.
type Chosen<'a> = Option<(&'a Variant, Config, u32)>;

impl Choose<'_> {
    /// What each instance takes, as far as can be told without a text.
    fn first_admitted(&self, instances: &[Instance]) -> Result<Vec<Chosen<'_>>, PlanError> {
        instances.par_iter().map(|instance| self.first(instance)).collect()
    }

    /// What an instance takes. Where all have the bits of another number of rows, that is what so many take, unless kernels for
    /// its own add up in the same order.
    fn first(&self, instance: &Instance) -> Result<Chosen<'_>, PlanError> {
        let like = self.like(instance);
        let Some((variant, config)) = self.plan.first_admitted(&like, self.limits, self.catalogue)? else {
            return Ok(None);
        };
        let rows = like.rows;
        let own = match variant.sums(&config).filter(|_| rows != instance.rows) {
            Some(sums) => self.plan.first_with_sums(&sums, instance, self.limits, self.catalogue)?,
            None => None,
        };
        Ok(Some(match own {
            Some((variant, config)) => (variant, config, instance.rows),
            None => (variant, config, rows),
        }))
    }

    /// The instance for which a kernel is chosen: one of the pass whose bits all passes have.
    fn like(&self, instance: &Instance) -> Instance {
        let rows = self.like_rows.unwrap_or(instance.rows);
        let segments = if self.plan.invariant { INVARIANT_SEGMENTS } else { instance.segments };
        Instance { rows, segments, ..instance.clone() }
    }

    /// The kernel of an instance, of the variant that is chosen unless the device's limits refuse it.
    fn kernel(&self, instance: &Instance, chosen: &Chosen<'_>) -> Result<Kernel, PlanError> {
        let first = chosen.as_ref().map(|(variant, config, rows)| {
            let like = Instance { rows: *rows, ..instance.clone() };
            Kernel::new(variant, &like, config, self.limits).map(|kernel| (*variant, config.clone(), kernel))
        });
        if let Some(Err(KernelError::Text(error))) = &first {
            self.catalogue.unless_in_part(error.clone())?;
        }
        let (variant, config, kernel) = match first {
            Some(Ok(made)) => made,
            Some(Err(_)) | None => self.plan.choose(&self.like(instance), self.limits, self.catalogue)?,
        };
        let workgroups = variant.workgroups(instance, &config, self.limits)?;
        let partials = variant.partials(instance, &config, self.limits)?;
        Ok(Kernel { workgroups, partials, ..kernel })
    }

    /// The kernel of each. Reading and checking WGSL takes most of the time of recording.
    fn kernels(&self, instances: &[(Instance, &Chosen<'_>)]) -> Result<Vec<Kernel>, PlanError> {
        instances.par_iter().map(|(instance, chosen)| self.kernel(instance, chosen)).collect()
    }
}

/// Records a pass over a batch.
///
/// # Errors
/// No kernel serves an op here, or a value is larger than the device binds.
pub(crate) fn record(
    graph: &Graph,
    batch: &BatchShape,
    tensors: &Tensors<'_>,
    choose: &Choose<'_>,
) -> Result<Recording, RuntimeError> {
    if batch.tokens == 0 {
        return Err(BatchError::Empty(0).into());
    }
    let arena = arena(graph, batch).unwrap_or(Arena { order: vec![], slot: HashMap::new(), slot_len: vec![] });
    let largest = choose.limits.storage_binding.min(choose.limits.buffer);
    if let Some(need) = arena.slot_len.iter().map(|len| len * 4).find(|bytes| *bytes > largest) {
        return Err(RuntimeError::ValueTooLarge { what: "an activation", need, limit: largest });
    }
    let state = choose.plan.state;
    let of_ops = |packed: &BTreeSet<NodeId>| instances(graph, &arena.order, batch, tensors, (packed, state));
    let (plain, ops) = of_ops(&BTreeSet::new())?;
    plain.par_iter().try_for_each(|i| choose.catalogue.check_edited(i, choose.limits)).map_err(PlanError::from)?;
    let chosen = choose.first_admitted(&plain)?;
    let packed = packed_values(graph, &ops, &plain, &chosen, choose);
    // Where a kernel of packed values is beyond the device's limits, all values are f32.
    if !packed.is_empty() {
        let (packing, packing_ops) = of_ops(&packed)?;
        let numbers = |ops: &[Shards]| ops.iter().flat_map(|(_, shards)| shards.clone()).collect::<Vec<usize>>();
        let plain_of: HashMap<usize, usize> = numbers(&packing_ops).into_iter().zip(numbers(&ops)).collect();
        let packing: Vec<_> = packing.into_iter().enumerate().map(|(i, p)| (p, &chosen[plain_of[&i]])).collect();
        match choose.kernels(&packing) {
            Ok(kernels) => {
                let packing = (&packing[..], &packing_ops[..], kernels);
                return assemble(graph, batch, choose.limits, arena, packing, (packed, state));
            }
            Err(PlanError::Text(error)) => return Err(PlanError::from(error).into()),
            Err(_) => {}
        }
    }
    let plain: Vec<_> = plain.into_iter().zip(&chosen).collect();
    let kernels = choose.kernels(&plain)?;
    assemble(graph, batch, choose.limits, arena, (&plain, &ops, kernels), (BTreeSet::new(), state))
}

/// The distinct instances of ops, and for each op that of each of its dispatches. Layers are alike: their instances are equal.
fn instances(
    graph: &Graph,
    order: &[NodeId],
    batch: &BatchShape,
    tensors: &Tensors<'_>,
    (packed, state): (&BTreeSet<NodeId>, StateFormat),
) -> Result<(Vec<Instance>, Vec<Shards>), RuntimeError> {
    let (mut instances, mut ops): (Vec<Instance>, Vec<Shards>) = (Vec::new(), Vec::with_capacity(order.len()));
    for &id in order {
        let packed = packed_of(graph, id, packed, state);
        let whole = Instance { packed, ..Instance::of(graph, id, batch, tensors.format) };
        let mut shards = Vec::new();
        for rows in row_shards(graph, id, tensors)? {
            let instance = match rows {
                Some(rows) => Instance { first: rows.start, shard_rows: rows.end - rows.start, ..whole.clone() },
                None => whole.clone(),
            };
            shards.push(instances.iter().position(|known| *known == instance).unwrap_or_else(|| {
                instances.push(instance);
                instances.len() - 1
            }));
        }
        ops.push((id, shards));
    }
    Ok((instances, ops))
}

fn assemble(
    graph: &Graph,
    batch: &BatchShape,
    limits: &Limits,
    mut arena: Arena,
    (instances, ops, kernels): (&[(Instance, &Chosen<'_>)], &[Shards], Vec<Kernel>),
    (packed, state): (BTreeSet<NodeId>, StateFormat),
) -> Result<Recording, RuntimeError> {
    // Sums that workgroups hand to one another have a slot of their own.
    let partials = kernels.iter().map(|kernel| kernel.partials).max().unwrap_or(0);
    if partials > 0 {
        arena.slot_len.push(partials);
    }
    let mut dispatches = Vec::with_capacity(ops.len());
    for (node, shard, kernel) in
        ops.iter().flat_map(|(id, shards)| shards.iter().enumerate().map(|(i, k)| (*id, i, *k)))
    {
        let bindings = bindings(graph, node, batch, (&arena, &packed), &kernels[kernel], shard);
        for (_, bound) in &bindings {
            if let Bound::Slot { offset, .. } = bound
                && !offset.is_multiple_of(u64::from(limits.storage_alignment))
            {
                let (width, alignment) = (graph.model().width, limits.storage_alignment);
                return Err(RuntimeError::Alignment { width, alignment });
            }
        }
        let Kernel { label, workgroups, .. } = &kernels[kernel];
        let grid = dispatch_size(*workgroups, limits)
            .ok_or_else(|| RuntimeError::DispatchTooLarge { kernel: label.clone(), workgroups: *workgroups })?;
        dispatches.push(Dispatch { node, kernel, bindings, params: instances[kernel].0.params(), grid });
    }
    let output = graph.output().and_then(|id| arena.slot.get(&id).copied());
    Ok(Recording { kernels, dispatches, offsets: Vec::new(), cells: Vec::new(), arena, output, packed, state })
}

/// The shards of an op's only matrix; a single `None` for ops without one, or with several, which must be bound whole.
fn row_shards(graph: &Graph, id: NodeId, tensors: &Tensors<'_>) -> Result<Vec<Option<Range<u32>>>, RuntimeError> {
    let mut shards = Vec::new();
    for (_, input) in graph.inputs(id).into_iter().filter(|(o, _)| o.kind == OperandKind::Matrix) {
        if let Node::Source(Source::Weight(weight)) = graph.node(input.node) {
            shards.push((*weight, (tensors.shards)(*weight)?));
        }
    }
    match shards.as_mut_slice() {
        [] => Ok(vec![None]),
        [(_, only)] => Ok(only.drain(..).map(Some).collect()),
        several => match several.iter().find(|(_, w)| w.len() > 1) {
            Some((weight, _)) => Err(RuntimeError::Unsplit { weight: *weight, op: graph.op(id).op.name() }),
            None => Ok(vec![None]),
        },
    }
}

fn bindings(
    graph: &Graph,
    id: NodeId,
    batch: &BatchShape,
    (arena, packed): (&Arena, &BTreeSet<NodeId>),
    kernel: &Kernel,
    shard: usize,
) -> Vec<(u32, Bound)> {
    let inputs = graph.inputs(id);
    let value = |node: NodeId, plane: Option<u32>| {
        let shape = graph.op(node).shape;
        let value_bytes = if packed.contains(&node) { 2 } else { 4 };
        let plane_bytes = u64::from(batch.rows(shape.rows)) * u64::from(shape.cols) * value_bytes;
        let (offset, size) = match plane {
            Some(p) => (u64::from(p) * plane_bytes, plane_bytes),
            None => (0, u64::from(shape.planes) * plane_bytes),
        };
        Bound::Slot { slot: arena.slot[&node], offset, size }
    };
    let bound = |name: &str| -> Option<Bound> {
        match name {
            "params" => return Some(Bound::Params),
            "y" => return Some(value(id, None)),
            "partials" => {
                let slot = arena.slot_len.len() - 1;
                return Some(Bound::Slot { slot, offset: 0, size: kernel.partials * 4 });
            }
            "arrivals" => return Some(Bound::Table(Table::Arrivals)),
            _ => {}
        }
        let (_, input) = inputs.iter().find(|(operand, _)| operand.name == name)?;
        Some(match graph.node(input.node) {
            Node::Op(_) => value(input.node, input.plane),
            Node::Source(Source::Weight(w)) => Bound::Weight(*w, shard),
            Node::Source(Source::State(s)) => Bound::State(*s),
            Node::Source(Source::Tokens) => Bound::Table(Table::Tokens),
            Node::Source(Source::TokenSegments) => Bound::Table(Table::TokenSegments),
            Node::Source(Source::Segments) => Bound::Table(Table::Segments),
            Node::Source(Source::OutputRows) => Bound::Table(Table::Outputs),
        })
    };
    // Kernels bind nothing but the op's operands: a test of the catalogue sees to it.
    kernel.facts.bindings.iter().filter_map(|b| Some((b.number, bound(&b.name)?))).collect()
}

impl Recording {
    /// What of an op is packed.
    pub(crate) fn packed_of(&self, graph: &Graph, id: NodeId) -> Packed {
        packed_of(graph, id, &self.packed, self.state)
    }
}

impl fmt::Display for Recording {
    /// One line a dispatch: grid, kernel, bindings, and whether its value or its state is stored as packed f16.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for d in &self.dispatches {
            write!(f, "{:>6}x{:<3} {}", d.grid[0], d.grid[1], self.kernels[d.kernel].label)?;
            for (number, bound) in &d.bindings {
                match bound {
                    Bound::Params => {}
                    Bound::Slot { slot, offset: 0, .. } => write!(f, " {number}:slot{slot}")?,
                    Bound::Slot { slot, offset, .. } => write!(f, " {number}:slot{slot}+{offset}")?,
                    Bound::Weight(w, 0) => write!(f, " {number}:{w}")?,
                    Bound::Weight(w, shard) => write!(f, " {number}:{w}#{shard}")?,
                    Bound::State(s @ State::Wkv(_)) if self.state == StateFormat::F16 => {
                        write!(f, " {number}:&{s}:f16")?;
                    }
                    Bound::State(s) => write!(f, " {number}:&{s}")?,
                    Bound::Table(t) => write!(f, " {number}:{t:?}")?,
                    Bound::Range(range) => write!(f, " {number}:{range}")?,
                }
            }
            writeln!(f, "{}", if self.packed.contains(&d.node) { " y:f16" } else { "" })?;
        }
        Ok(())
    }
}
