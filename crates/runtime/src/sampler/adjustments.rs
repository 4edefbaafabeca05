//! Adjustments of logits: sparse here, a table on the device.

use super::{Sampler, Stage, of_kernel};
use crate::decode::Continuation;
use crate::pipelines::Pipelines;
use crate::{Device, RuntimeError};
use std::collections::BTreeMap;
use wgoose_kernels::{Catalogue, sampling};

/// Twin of `Entry` in `kernels-wgsl/device/sampling/adjust.wgsl`.
#[repr(C)]
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
struct Entry {
    /// Row times vocabulary plus token.
    at: u32,
    /// How often the token was chosen.
    count: f32,
    /// 1: it was chosen, or is in the prompt.
    seen: u32,
    bias: f32,
}

/// The entries of a sequence, one for each token that has any.
fn entries(row: usize, sequence: &Continuation<'_>, vocab: u32) -> impl Iterator<Item = Entry> + use<> {
    let mut entries: BTreeMap<u32, Entry> = BTreeMap::new();
    if sequence.sampling.penalties.any() {
        for (token, count) in sequence.past {
            let entry = entries.entry(*token).or_default();
            (entry.count, entry.seen) = (*count, 1);
        }
    }
    sequence.bias.iter().for_each(|(token, bias)| entries.entry(*token).or_default().bias = *bias);
    entries.into_iter().map(move |(token, entry)| Entry { at: row as u32 * vocab + token, ..entry })
}

impl Sampler {
    /// Writes the table of adjustments. Uploading what is not zero takes a thousandth of uploading the table, which has
    /// a megabyte for each sequence.
    ///
    /// # Errors
    /// The device cannot run the kernel.
    pub(super) fn adjust(
        &self,
        device: &Device,
        pipelines: &mut Pipelines,
        catalogue: &Catalogue,
        sequences: &[Continuation<'_>],
    ) -> Result<(), RuntimeError> {
        let vocab = self.size.vocab;
        let of = |(row, sequence)| entries(row, sequence, vocab);
        let entries: Vec<Entry> = sequences.iter().enumerate().flat_map(of).collect();
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.clear_buffer(&self.adjustments, 0, None);
        if !entries.is_empty() {
            let kernel = sampling::adjust(entries.len() as u32, device.limits(), catalogue).map_err(of_kernel)?;
            pipelines.compile(&[&kernel])?;
            let given = device.storage("entries", (entries.len() * size_of::<Entry>()) as u64);
            device.queue.write_buffer(&given, 0, bytemuck::cast_slice(&entries));
            let buffers = [("entries", &given), ("adjustments", &self.adjustments)];
            let stage = Stage::new(device, pipelines, &kernel, &buffers)?;
            stage.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        }
        device.queue.submit([encoder.finish()]);
        Ok(())
    }
}
