//! Memory: what a plan will take, what it takes now, and how a budget is divided.

use super::GpuExecutor;
use crate::gpu::decode::MOST_SAMPLERS;
use crate::report::Footprint;
use crate::residency::{Residency, Room, RowShard, StagingSize};
use crate::sampler::Sampler;
use crate::schedule::{BufferId, Recording, buffers, storage_bytes};
use crate::{Executor, RuntimeError};
use std::collections::{BTreeMap, HashMap};
use wgoose_graph::{BatchShape, Weight};

/// Steps kept within a budget: each has its uniform blocks.
const STEPS_WITHIN_BUDGET: usize = 8;

/// What the allocator may reserve beyond what is used: half a block of each kind of memory.
const SLACK: u64 = 32 << 20;

/// What a budget must hold whatever it is. Sizes in bytes.
struct Fixed {
    /// Rows of logits of a pass.
    outputs: u32,
    /// Everything but weights and what brings them.
    beside: u64,
    /// The weights of the dispatch that needs most.
    largest: u64,
}

impl GpuExecutor {
    /// Says when weights reach the device and how long they stay. Eager ones do now, and what a decode step needs is
    /// compiled; a budget must be set before anything is run.
    ///
    /// # Errors
    /// The budget is too small, or what a pass itself can fail with.
    pub fn set_residency(&mut self, residency: Residency) -> Result<(), RuntimeError> {
        match residency {
            Residency::Lazy => Ok(()),
            Residency::Eager => self.prepare(&BatchShape { tokens: 1, segments: 1, outputs: 1 }),
            Residency::Budget(budget) => {
                let (room, staging) = self.divide(budget)?;
                self.shared.weights.lock().limit(room, staging);
                self.forget_steps();
                self.steps.most = STEPS_WITHIN_BUDGET;
                Ok(())
            }
        }
    }

    /// Sets memory aside for all weights, in the background, unless there is a budget to keep to: call it when a pass
    /// will run soon. Nothing is uploaded.
    ///
    /// # Errors
    /// A single row of a weight is larger than the largest binding. That there is no memory left is said by the first
    /// pass.
    pub fn reserve(&mut self) -> Result<(), RuntimeError> {
        let shards = self.shards()?;
        self.shared.weights.lock().reserve(shards.into_iter());
        Ok(())
    }

    /// What running the plan will take: passes of its chunk, decoding in every slot, one row of logits per sequence.
    /// Choosing tokens on the device takes two rows of logits more per sequence and one for a prompt's, and, unless there is a budget, its state
    /// once more.
    ///
    /// # Errors
    /// No kernel serves an op, or a value is larger than the device binds.
    pub fn predict(&self) -> Result<Footprint, RuntimeError> {
        let (all, beside) = (self.all_weights()?, self.beside_weights(&self.largest_passes(1)?));
        let weights = self.shared.weights.lock();
        let own = weights.capacity().map_or(all, |room| room.pinned.min(all));
        let (ring, staging) = (weights.layout.ring_bytes(), weights.staging_size.bytes());
        Ok(Footprint { weights: own, ring, staging, ..beside })
    }

    /// What is allocated now.
    pub fn footprint(&self) -> Footprint {
        let (weights, ring, staging) = self.shared.weights.lock().on_device();
        let [sampling, snapshot] = self.kept.bytes();
        Footprint {
            mapped: self.shared.model.file_len() as u64,
            weights,
            ring,
            staging,
            state: self.states.buffers.iter().map(wgpu::Buffer::size).sum::<u64>() + snapshot,
            activations: of_kind(self.buffers.iter().map(|(id, buffer)| (id, buffer.size())), is_activation),
            tables: of_kind(self.buffers.iter().map(|(id, buffer)| (id, buffer.size())), is_table)
                + self.steps.chains.values().map(super::Step::bytes).sum::<u64>()
                + self.steps.persistent.bytes()
                + sampling,
            read_back: self.read_back.results.iter().chain(&self.read_back.states).map(wgpu::Buffer::size).sum(),
        }
    }

    /// The shards of all weights.
    fn shards(&self) -> Result<Vec<RowShard>, RuntimeError> {
        let all = Weight::all(self.shared.model.shape()).map(|w| self.planner.shards(w));
        let shards = all.collect::<Result<Vec<_>, _>>()?;
        Ok(shards.into_iter().flatten().collect())
    }

    fn all_weights(&self) -> Result<u64, RuntimeError> {
        Ok(self.shards()?.iter().map(RowShard::room).sum())
    }

    /// The largest passes, one that reads prompts and one that decodes in every slot, with up to `outputs` rows of
    /// logits.
    fn largest_passes(&self, outputs: u32) -> Result<[(BatchShape, Recording); 2], RuntimeError> {
        let slots = self.states.slots as u32;
        let chunk = self.planner.plan.prefill_chunk.max(1);
        let prefill = BatchShape { tokens: chunk, segments: slots.min(chunk), outputs: outputs.max(slots.min(chunk)) };
        let decode = BatchShape { tokens: slots, segments: slots, outputs: slots };
        Ok([(prefill, self.record(&prefill)?), (decode, self.record(&decode)?)])
    }

    /// Everything but weights and what brings them.
    fn beside_weights(&self, passes: &[(BatchShape, Recording); 2]) -> Footprint {
        let limits = self.shared.device.limits();
        // Passes share all but their uniform blocks.
        let (mut shared, mut blocks) = (BTreeMap::new(), 0);
        for (id, bytes) in passes.iter().flat_map(|(batch, recording)| buffers(recording, batch, limits)) {
            let most: &mut u64 = shared.entry(id).or_default();
            *most = (*most).max(bytes);
            blocks += if id == BufferId::Params { bytes } else { 0 };
        }
        let sizes = || shared.iter().map(|(id, bytes)| (*id, *bytes));
        let row = u64::from(self.shared.model.shape().vocab) * 4;
        Footprint {
            mapped: self.shared.model.file_len() as u64,
            state: self.states.layout.buffers.iter().map(|bytes| storage_bytes(*bytes)).sum(),
            activations: of_kind(sizes(), is_activation),
            tables: of_kind(sizes(), is_table) + blocks,
            read_back: row * u64::from(passes[0].0.outputs),
            ..Footprint::default()
        }
    }

    /// Divides a budget: what must be there besides weights, the ring, and the rest for weights that stay.
    fn divide(&self, budget: u64) -> Result<(Room, StagingSize), RuntimeError> {
        let all = self.all_weights()?;
        let Fixed { outputs, beside, largest } = self.fixed()?;
        // Staging gets by with less before a model is refused.
        for share in [8, 32, u64::MAX] {
            let staging = StagingSize::within(budget / share);
            let room = budget.saturating_sub(beside + staging.bytes());
            if all <= room {
                return Ok((Room { pinned: all, ring: 0, outputs }, staging));
            }
            if largest <= room {
                let ring = self.two_layers()?.max(largest).min(room);
                return Ok((Room { pinned: room - ring, ring, outputs }, staging));
            }
        }
        Err(RuntimeError::BudgetTooSmall { budget, need: self.least_budget()? })
    }

    /// The smallest budget that is not refused, in bytes.
    ///
    /// # Errors
    /// A pass that cannot be planned.
    pub fn least_budget(&self) -> Result<u64, RuntimeError> {
        let Fixed { beside, largest, .. } = self.fixed()?;
        Ok(beside + StagingSize::within(0).bytes() + largest)
    }

    /// What a budget must hold whatever it is.
    fn fixed(&self) -> Result<Fixed, RuntimeError> {
        // As many rows of logits as a pass has tokens: fewer would split passes, and change bits.
        let outputs = self.planner.plan.prefill_chunk.max(self.states.slots as u32).min(self.max_outputs() as u32);
        let passes = self.largest_passes(outputs)?;
        let vocab = self.shared.model.shape().vocab;
        // The logits that a prompt leaves, too.
        let samplers = MOST_SAMPLERS as u64 * Sampler::most_bytes(self.states.slots, vocab);
        let sampling = samplers + u64::from(vocab) * 4;
        let beside = self.beside_weights(&passes).beside_weights() + sampling + SLACK;
        Ok(Fixed { outputs, beside, largest: self.largest_need(&passes)? })
    }

    /// Bytes of the weights of the dispatch that needs most.
    fn largest_need(&self, passes: &[(BatchShape, Recording); 2]) -> Result<u64, RuntimeError> {
        let mut largest = 0;
        for dispatch in passes.iter().flat_map(|(_, recording)| &recording.dispatches) {
            largest = largest.max(self.planner.needs(dispatch)?.bytes());
        }
        Ok(largest)
    }

    /// Twice the bytes of the largest layer: one arrives while the other computes.
    fn two_layers(&self) -> Result<u64, RuntimeError> {
        let mut layers: HashMap<u32, u64> = HashMap::new();
        for shard in self.shards()? {
            if let Weight::Layer(layer, _) = shard.weight {
                *layers.entry(layer).or_default() += shard.room();
            }
        }
        Ok(2 * layers.values().max().copied().unwrap_or(0))
    }
}

/// Bytes of the buffers of a kind.
fn of_kind(sizes: impl Iterator<Item = (BufferId, u64)>, is: fn(BufferId) -> bool) -> u64 {
    sizes.filter(|(id, _)| is(*id)).map(|(_, bytes)| bytes).sum()
}

fn is_activation(id: BufferId) -> bool {
    matches!(id, BufferId::Slot(_))
}

fn is_table(id: BufferId) -> bool {
    matches!(id, BufferId::Table(_))
}
