//! How fast weights can reach the device: the upload itself, with nothing to compute, in several sizes of its staging.

use crate::residency::{Job, Staging, StagingSize, Upload, cut, shards_of};
use crate::{Device, RuntimeError};
use std::sync::Arc;
use std::time::Instant;
use wgoose_graph::Weight;
use wgoose_loader::Model;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UploadRate {
    /// Threads and buffers.
    pub staging: StagingSize,
    /// Bytes uploaded.
    pub bytes: u64,
    /// Seconds from the first byte read until the device has the last.
    pub seconds: f64,
}

impl UploadRate {
    /// 10^9 bytes per second.
    pub fn gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.seconds / 1e9
    }
}

/// The sizes worth trying on a machine of that many cores.
pub fn sizes(cores: usize) -> Vec<StagingSize> {
    let mut all = Vec::new();
    for workers in [1, 2, 4, 8, 12].into_iter().filter(|w| *w <= cores) {
        for (per_worker, mib) in [(2, 1), (2, 4), (2, 8), (1, 32), (2, 32)] {
            all.push(StagingSize { workers, slots: (per_worker * workers).max(2), slot_bytes: mib << 20 });
        }
    }
    all
}

/// Uploads a model's matrices once and drops them.
///
/// # Errors
/// The file cannot be read any more, or the device fails.
pub fn upload(device: &Arc<Device>, model: &Arc<Model>, size: StagingSize) -> Result<UploadRate, RuntimeError> {
    let mut shards = Vec::new();
    for weight in Weight::all(model.shape()).filter(|w| model.tensor(*w).file_range().is_some()) {
        let tensor = model.tensor(weight);
        let all = shards_of(weight, tensor.format(), weight.shape(model.shape()), device.limits())?;
        shards.extend(all.into_iter().filter(|w| !w.is_vector()).map(|w| (w, 0)));
    }
    shards.sort_by_key(|(w, _)| (model.tensor(w.weight).file_offset(), w.index));
    let jobs = cut(model, &shards, size.slot_bytes, false);
    let largest = jobs.iter().map(Job::bytes).max().unwrap_or(16).next_multiple_of(16) as u64;
    let bytes = shards.iter().map(|(w, _)| w.bytes).sum();
    let mut staging = Staging::new(device, size.slots, largest)?;
    // One place for all of it would make the copies wait for one another.
    let targets: Vec<wgpu::Buffer> = (0..size.slots).map(|_| device.storage("target", largest)).collect();
    let mut next = targets.iter().cycle();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let mut upload = Upload::start(scope, device, model, &mut staging, jobs, size.workers);
        while !upload.is_done() {
            upload.advance()?;
            upload.copy(&|_| true, &mut |job, from, encoder| {
                if let Some(to) = next.next() {
                    encoder.copy_buffer_to_buffer(from, 0, to, 0, job.bytes() as u64);
                }
                Ok(())
            })?;
        }
        device.wait("uploading weights")
    })?;
    Ok(UploadRate { staging: size, bytes, seconds: begun.elapsed().as_secs_f64() })
}
