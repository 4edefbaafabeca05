//! Times every dispatch of a pass: a timestamp before the first, and one after each.

use super::step::BoundDispatch;
use crate::{Device, RuntimeError};

/// Timestamps of a query set (wgpu allows 4096).
const PER_SET: u32 = 4096;

/// Query sets for the dispatches of a pass.
pub(super) struct Stopwatch<'a> {
    device: &'a Device,
    sets: Vec<wgpu::QuerySet>,
    resolved: wgpu::Buffer,
    dispatches: usize,
    /// Nanoseconds of a tick.
    period: f64,
}

impl<'a> Stopwatch<'a> {
    /// # Errors
    /// The device has no timestamps inside passes.
    pub(super) fn new(device: &'a Device, dispatches: usize) -> Result<Self, RuntimeError> {
        let inside = device.device.features().contains(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES);
        let Some(period) = device.timestamp_period.filter(|_| inside) else {
            return Err(RuntimeError::Untimed { why: "it has no timestamps inside passes" });
        };
        let sets = (dispatches + 1).div_ceil(PER_SET as usize);
        let set = |_| {
            let ty = wgpu::QueryType::Timestamp;
            device.device.create_query_set(&wgpu::QuerySetDescriptor { label: None, ty, count: PER_SET })
        };
        let resolved = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("timestamps"),
            size: sets as u64 * u64::from(PER_SET) * 8,
            usage: wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            mapped_at_creation: false,
        });
        Ok(Stopwatch { device, sets: (0..sets).map(set).collect(), resolved, dispatches, period })
    }

    /// Runs a pass; nanoseconds of each dispatch, from the end of the one before.
    ///
    /// # Errors
    /// The device fails, or its timestamps cannot be right.
    pub(super) fn time<'b>(
        &self,
        dispatches: impl Iterator<Item = &'b BoundDispatch>,
    ) -> Result<Vec<f64>, RuntimeError> {
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            let stamp = |pass: &mut wgpu::ComputePass<'_>, i: usize| {
                pass.write_timestamp(&self.sets[i / PER_SET as usize], i as u32 % PER_SET);
            };
            stamp(&mut pass, 0);
            for (i, dispatch) in dispatches.enumerate() {
                dispatch.encode(&mut pass);
                stamp(&mut pass, i + 1);
            }
        }
        let stamps = self.dispatches as u32 + 1;
        for (i, set) in self.sets.iter().enumerate() {
            let first = i as u32 * PER_SET;
            encoder.resolve_query_set(set, 0..PER_SET.min(stamps - first), &self.resolved, u64::from(first) * 8);
        }
        self.device.queue.submit([encoder.finish()]);
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&self.device.read(
            &self.resolved,
            0,
            u64::from(stamps) * 8,
            "timing the dispatches of a pass",
        )?);
        let right = ticks.is_sorted() && ticks.first() < ticks.last();
        if !right {
            return Err(RuntimeError::Untimed { why: "its timestamps do not grow" });
        }
        Ok(ticks.windows(2).map(|t| (t[1] - t[0]) as f64 * self.period).collect())
    }
}
