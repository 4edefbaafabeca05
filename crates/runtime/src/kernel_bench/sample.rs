//! Sampling on the device from logits that stay the same.

use crate::pipelines::Pipelines;
use crate::sampler::{Progress, Sampler, SamplerSize, Standing, Wiring, check};
use crate::{Continuation, DecodeError, Device, Logprob, MOST_LISTED, RuntimeError};
use std::sync::Arc;
use wgoose_kernels::Catalogue;
use wgoose_kernels::persistent::BARRIER_BYTES;

/// What was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// `[rounds, B]`; an ended sequence repeats its last token.
    pub tokens: Vec<Vec<u32>>,
    /// The weights `[B, V]` among which the last round drew, up to a factor: 0 for tokens not kept. Of greedy sequences
    /// nothing meaningful.
    pub weights: Vec<f32>,
    /// Log-probabilities `[B, 1 + MOST_LISTED]` of the last round, that of the chosen token first, if a sequence asks
    /// for them.
    pub logprobs: Vec<Logprob>,
}

/// Chooses `rounds` tokens for each sequence from its row of `logits` `[B, V]`. Slots mean nothing here.
///
/// # Errors
/// Settings that make no sense, logits without a token to choose, or the device fails.
pub fn sample(
    device: &Arc<Device>,
    logits: &[f32],
    sequences: &[Continuation<'_>],
    rounds: usize,
) -> Result<Samples, RuntimeError> {
    if sequences.is_empty() {
        return Err(DecodeError::NoSequences.into());
    }
    let count = sequences.len();
    let vocab = (logits.len() / count) as u32;
    for (i, sequence) in sequences.iter().enumerate() {
        check(i, sequence, vocab)?;
    }
    let size = SamplerSize::of(sequences, count as u32, vocab, 0);
    let wiring = Wiring {
        identity: (0, 0),
        logits: device.storage("logits", logits.len() as u64 * 4),
        tokens: device.storage("tokens", count as u64 * 4),
        segments: device.storage("segments", count as u64 * 16),
        grid_barrier: device.storage("grid barrier", BARRIER_BYTES),
    };
    device.queue.write_buffer(&wiring.logits, 0, bytemuck::cast_slice(logits));
    let mut pipelines = Pipelines::new(Arc::clone(device));
    let sampler = Sampler::new(device, &mut pipelines, &Catalogue::embedded(), size, &wiring)?;
    sampler.begin(device, &mut pipelines, &Catalogue::embedded(), sequences)?;
    let bytes = (count * size_of::<Progress>()) as u64;
    let all = device.storage("progress of all rounds", bytes * rounds as u64);
    for round in 0..rounds as u64 {
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        sampler.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        encoder.copy_buffer_to_buffer(sampler.progress(), 0, &all, round * bytes, bytes);
        device.queue.submit([encoder.finish()]);
    }
    let progress: Vec<Progress> =
        bytemuck::pod_collect_to_vec(&device.read(&all, 0, bytes * rounds as u64, "choosing tokens")?);
    for (i, progress) in progress.iter().enumerate() {
        if let Standing::Broken(why) = progress.standing() {
            return Err(DecodeError::NoToken { sequence: i % count, why }.into());
        }
    }
    let logprobs = match sampler.logprobs() {
        Some(listed) => {
            let bytes = count * (MOST_LISTED + 1) * size_of::<Logprob>();
            bytemuck::pod_collect_to_vec(&device.read(listed, 0, bytes as u64, "choosing tokens")?)
        }
        None => Vec::new(),
    };
    Ok(Samples {
        logprobs,
        tokens: progress.chunks_exact(count).map(|round| round.iter().map(|p| p.token).collect()).collect(),
        weights: bytemuck::pod_collect_to_vec(&device.read(
            sampler.weights(),
            0,
            logits.len() as u64 * 4,
            "choosing tokens",
        )?),
    })
}
