//! Which values of a range of layers announce themselves, and what still waits for a barrier. Nothing of it needs a device.
//!
//! Every value that a stage stores has separate cells in every layer, so that nothing is overwritten within a step. The
//! contents of activation slots are stored behind the last layer. A slot has cells if all its uses can be told from the
//! kernels' texts and ranges; for everything else that stages share they wait at barriers.

use super::{LayerRange, Placed};
use crate::schedule::buffer::{BufferId, BufferRange};
use std::collections::BTreeSet;
use wgoose_kernels::persistent::{AnnouncedOperand, Announcing, Cells};
use wgoose_kernels::{Access, Binding, Limits};

/// The types of elements that have cells, one each or four.
const ELEMENTS: [&str; 2] = ["f32", "vec4<f32>"];

/// Cells that are looked at together.
const TOGETHER: u64 = 4;

/// What announces itself in a range of layers.
pub(super) struct Announced {
    /// The slots that have cells.
    slots: BTreeSet<BufferId>,
    /// For each dispatch of a layer.
    pub(super) stages: Vec<AnnouncedStage>,
    /// Cells of a layer.
    pub(super) cells: u32,
    /// What the first layer finds in slots: the first cell, and where it is.
    pub(super) carried: Vec<(u32, BufferRange)>,
    /// What the last layer leaves in slots.
    pub(super) results: Vec<(u32, BufferRange)>,
}

/// What announces itself to a stage, and what it waits for otherwise.
#[derive(Clone, Default)]
pub(super) struct AnnouncedStage {
    /// By binding number.
    pub(super) operands: Vec<(u32, AnnouncedOperand)>,
    /// Whether it waits for the stages before it at a barrier.
    pub(super) needs_grid_sync: bool,
    /// Whether it runs behind all layers: it overwrites what slow workgroups may still read, and no stage waits for it.
    pub(super) is_last: bool,
}

impl Announced {
    /// Of layers that are alike; `None` if nothing is handed over so.
    pub(super) fn of(all: &[Placed<'_>], range: &LayerRange) -> Option<Self> {
        let layer = &all[range[0].clone()];
        let mut slots = slots(all, range);
        let values = loop {
            match Values::of(layer, &slots, range.len() > 1) {
                Ok(values) => break values,
                Err(Unfit(slot)) => slots.remove(&slot),
            };
        };
        let hands_over = |stage: &Vec<(u32, AnnouncedOperand)>| stage.iter().any(|(_, o)| o.loaded.is_some());
        if !values.operands.iter().any(hands_over) {
            return None;
        }
        let carried = values.stored.iter().filter(|value| value.is_carried).map(|v| (v.cells, v.range)).collect();
        let results = values.last().map(|value| (value.cells, value.range)).collect();
        let stages = values.operands.into_iter().map(|operands| AnnouncedStage { operands, ..Default::default() });
        let mut announced = Announced { stages: stages.collect(), cells: values.cells, carried, results, slots };
        announced.wait(all, range);
        Some(announced)
    }

    /// Whether the cells of so many layers can be bound.
    pub(super) fn fits(&self, layers: usize, limits: &Limits) -> bool {
        let all = Announcing { cells_per_layer: self.cells, ..Announcing::default() };
        all.bytes(layers as u32) <= limits.storage_binding.min(limits.buffer)
    }

    /// Whether a stage finds an operand in its buffer.
    pub(super) fn is_in_buffer(&self, stage: usize, placed: &Placed<'_>, binding: &Binding, buffer: BufferId) -> bool {
        let operand = self.stages[stage].operands.iter().find(|(number, _)| *number == binding.number);
        let in_cells = operand.is_some_and(|(_, operand)| operand.loaded.is_some());
        !self.slots.contains(&buffer) || (loads(placed, binding) && !in_cells)
    }

    /// Finds out which stages wait at barriers, or run behind all layers.
    fn wait(&mut self, all: &[Placed<'_>], range: &LayerRange) {
        let last: Vec<bool> = (0..self.stages.len()).map(|stage| self.can_be_last(all, range, stage)).collect();
        let layer = &all[range[0].clone()];
        let among = |a: usize, b: usize| self.conflict(&layer[a], &layer[b]);
        let stages = 0..layer.len();
        let apart = |a: usize| stages.clone().all(|b| a == b || !(last[a] && last[b] && among(a, b)));
        if stages.clone().all(apart) {
            self.stages.iter_mut().zip(last).for_each(|(stage, is_last)| stage.is_last = is_last);
        }
        let (mut since, mut first) = (0, true);
        for i in stages {
            if self.stages[i].is_last {
                continue;
            }
            let waits = |before: usize| !self.stages[before].is_last && self.conflict(&layer[before], &layer[i]);
            let needs = if first { self.layers_conflict(all, range) } else { (since..i).any(waits) };
            self.stages[i].needs_grid_sync = needs;
            if needs {
                since = i;
            }
            first = false;
        }
    }

    /// Whether two dispatches have something in common, but for what announces itself, that one of them stores.
    fn conflict(&self, a: &Placed<'_>, b: &Placed<'_>) -> bool {
        let shared = |placed: &Placed<'_>| -> Vec<(BufferRange, bool)> {
            let others = placed.stored().filter(|(operand, _)| !self.slots.contains(&operand.range.buffer));
            others.map(|(operand, binding)| (operand.range, binding.access == Access::ReadWrite)).collect()
        };
        let (a, b) = (shared(a), shared(b));
        a.iter().any(|(a, stores)| b.iter().any(|(b, too)| (*stores || *too) && a.overlaps(b)))
    }

    /// Whether stages of different layers, but for those behind all, have something in common that one of them stores.
    fn layers_conflict(&self, all: &[Placed<'_>], range: &LayerRange) -> bool {
        let stages: Vec<(usize, &Placed<'_>)> = range
            .iter()
            .enumerate()
            .flat_map(|(layer, places)| all[places.clone()].iter().zip(&self.stages).map(move |of| (layer, of)))
            .filter(|(_, (_, stage))| !stage.is_last)
            .map(|(layer, (placed, _))| (layer, placed))
            .collect();
        let stores = |placed: &Placed<'_>| {
            let stored = |(o, b): (&crate::schedule::Operand, &Binding)| {
                b.access == Access::ReadWrite && !self.slots.contains(&o.range.buffer)
            };
            placed.stored().any(stored)
        };
        let storing: Vec<_> = stages.iter().filter(|(_, placed)| stores(placed)).collect();
        storing
            .iter()
            .any(|(layer, placed)| stages.iter().any(|(other, others)| layer != other && self.conflict(placed, others)))
    }

    /// Whether a stage does nothing but overwrite what earlier stages of its own layer load.
    fn can_be_last(&self, all: &[Placed<'_>], range: &LayerRange, stage: usize) -> bool {
        let hands_over = self.stages[stage].operands.iter().any(|(_, operand)| operand.stored.is_some());
        let mut overwrites = false;
        for (layer, places) in range.iter().enumerate() {
            let own = &all[places.start + stage];
            for (other_layer, others) in range.iter().enumerate() {
                for (other, placed) in all[others.clone()].iter().enumerate() {
                    if (other_layer, other) == (layer, stage) || !self.conflict(own, placed) {
                        continue;
                    }
                    let loads_only = placed.stored().all(|(operand, binding)| {
                        binding.access == Access::Read
                            || !own.stored().any(|(o, _)| o.range.overlaps(&operand.range))
                            || self.slots.contains(&operand.range.buffer)
                    });
                    if other_layer != layer || other > stage || !loads_only {
                        return false;
                    }
                    overwrites = true;
                }
            }
        }
        overwrites && !hands_over
    }
}

/// Whether a dispatch loads an operand. The op says it of what it stores: texts load that too, on paths that are not taken.
fn loads(placed: &Placed<'_>, binding: &Binding) -> bool {
    binding.access == Access::Read || placed.is_in_place
}

/// The slots of which every operand is the same numbers in every layer, stored by one dispatch of its op.
fn slots(all: &[Placed<'_>], range: &LayerRange) -> BTreeSet<BufferId> {
    let layer = &all[range[0].clone()];
    let (mut found, mut unfit) = (BTreeSet::new(), BTreeSet::new());
    for (stage, placed) in layer.iter().enumerate() {
        for (i, (operand, binding)) in placed.stored().enumerate() {
            let buffer = operand.range.buffer;
            if !matches!(buffer, BufferId::Slot(_)) {
                continue;
            }
            found.insert(buffer);
            let stores = binding.access == Access::ReadWrite;
            let is_number = binding.element.is_some_and(|element| ELEMENTS.contains(&element.wgsl));
            let place = |places: &std::ops::Range<usize>| {
                all[places.start + stage].stored().nth(i).map(|(operand, _)| operand.range)
            };
            let is_same = range.iter().all(|places| place(places) == Some(operand.range));
            let is_alone = layer.iter().filter(|other| other.dispatch.node == placed.dispatch.node).count() == 1;
            let is_aligned = operand.range.offset.is_multiple_of(4 * TOGETHER);
            if !is_number || !is_same || !is_aligned || (stores && (!is_alone || binding.name != "y")) {
                unfit.insert(buffer);
            }
        }
    }
    &found - &unfit
}

/// A slot of which a stage loads what no stage stores as a whole.
struct Unfit(BufferId);

/// The values of a layer that have cells.
struct Values {
    /// In the order in which they are stored.
    stored: Vec<Value>,
    /// For each stage.
    operands: Vec<Vec<(u32, AnnouncedOperand)>>,
    /// Cells of all.
    cells: u32,
}

/// What a stage stores in a slot.
struct Value {
    stage: usize,
    range: BufferRange,
    /// The first of its cells.
    cells: u32,
    /// Whether the next layer loads it.
    is_carried: bool,
}

impl Values {
    /// Of a layer, for these slots; others like it may follow.
    fn of(layer: &[Placed<'_>], slots: &BTreeSet<BufferId>, has_next: bool) -> Result<Self, Unfit> {
        let (mut stored, mut cells) = (Vec::new(), 0u64);
        for (stage, placed) in layer.iter().enumerate() {
            for (operand, binding) in placed.stored() {
                if slots.contains(&operand.range.buffer) && binding.access == Access::ReadWrite {
                    let first = u32::try_from(cells).map_err(|_| Unfit(operand.range.buffer))?;
                    stored.push(Value { stage, range: operand.range, cells: first, is_carried: false });
                    cells += (operand.range.bytes / 4).next_multiple_of(TOGETHER);
                }
            }
        }
        let mut values = Values { stored, operands: Vec::new(), cells: u32::try_from(cells).unwrap_or(u32::MAX) };
        for (stage, placed) in layer.iter().enumerate() {
            let mut operands = Vec::new();
            for (operand, binding) in placed.stored().filter(|(operand, _)| slots.contains(&operand.range.buffer)) {
                let loaded = match loads(placed, binding) {
                    true => values.find(stage, &operand.range, has_next)?,
                    false => None,
                };
                let own = values.stored.iter().find(|value| value.stage == stage && value.range == operand.range);
                let stored = own.filter(|_| binding.access == Access::ReadWrite).map(|value| value.cells);
                operands.push((operand.binding, AnnouncedOperand { loaded, stored }));
            }
            operands.retain(|(_, operand)| *operand != AnnouncedOperand::default());
            values.operands.push(operands);
        }
        Ok(values)
    }

    /// The cells of what a stage loads: what was stored there last, in this layer or in the one before. `None` if no layer
    /// stores it.
    fn find(&mut self, stage: usize, range: &BufferRange, has_next: bool) -> Result<Option<Cells>, Unfit> {
        let last = |value: &&mut Value| value.range.overlaps(range);
        let own = self.stored.iter_mut().rev().filter(|value| value.stage < stage).find(last);
        let of_layer_before = own.is_none();
        let value = match own {
            Some(value) => Some(value),
            None if has_next => self.stored.iter_mut().rev().find(last),
            None => None,
        };
        let Some(value) = value else { return Ok(None) };
        let within = value.range.offset <= range.offset && range.end() <= value.range.end();
        if !within {
            return Err(Unfit(range.buffer));
        }
        value.is_carried |= of_layer_before;
        let first = value.cells + ((range.offset - value.range.offset) / 4) as u32;
        Ok(Some(Cells { first, of_layer_before }))
    }

    /// What slots hold in the end: what nothing is stored over.
    fn last(&self) -> impl Iterator<Item = &Value> {
        let stored = &self.stored;
        stored
            .iter()
            .enumerate()
            .filter(|(i, value)| !stored[i + 1..].iter().any(|v| v.range.overlaps(&value.range)))
            .map(|(_, value)| value)
    }
}
