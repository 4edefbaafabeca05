//! The clock of a device: timestamps if they pass a self-test, else wall clock around submit and wait.
//!
//! GPU timers can be wrong (optimization_plan/README.md has the cases): a timer that does not grow with the work is not
//! used.

use crate::{Device, RuntimeError};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

/// What a measurement was taken with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSource {
    /// GPU timestamps at the ends of a compute pass.
    Timestamps,
    /// Wall clock around submit and wait.
    Wall,
}

/// Times a compute pass.
pub struct Clock {
    device: Arc<Device>,
    source: ClockSource,
    queries: Option<(wgpu::QuerySet, wgpu::Buffer)>,
    /// Why timestamps are not used.
    pub doubt: Option<String>,
}

/// What a clock is tested with.
const WHAT: &str = "the same work, more and less of it";

impl Clock {
    /// A clock that trusts timestamps for now; [`Clock::self_test`] decides.
    fn unchecked(device: &Arc<Device>) -> Self {
        let queries = device.timestamp_period.map(|_| {
            let set = device.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            });
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let descriptor = wgpu::BufferDescriptor { label: None, size: 16, usage, mapped_at_creation: false };
            (set, device.device.create_buffer(&descriptor))
        });
        let source = if queries.is_some() { ClockSource::Timestamps } else { ClockSource::Wall };
        let doubt = queries.is_none().then(|| "the device has no timestamp queries".to_owned());
        Clock { device: Arc::clone(device), source, queries, doubt }
    }

    /// The device's clock. `work` encodes some work `n` times into a pass; timestamps are used if the fastest of three
    /// passes with n = 16 takes more than twice as long as the fastest of two with n = 2, run in alternation.
    ///
    /// # Errors
    /// The device fails.
    pub fn self_test(
        device: &Arc<Device>,
        work: &dyn Fn(&mut wgpu::ComputePass<'_>, u32),
    ) -> Result<Clock, RuntimeError> {
        let mut clock = Clock::unchecked(device);
        if clock.source == ClockSource::Wall {
            return Ok(clock);
        }
        clock.time(WHAT, &|pass| work(pass, 16))?;
        let mut times = Vec::new();
        for n in [16, 2, 16, 2, 16] {
            times.push(clock.time(WHAT, &|pass| work(pass, n))?);
        }
        let heavy = [times[0], times[2], times[4]].into_iter().fold(f64::INFINITY, f64::min);
        let light = times[1].min(times[3]);
        if !(heavy > 2.0 * light && light > 0.0) {
            clock.doubt = Some(format!("timestamps say {heavy:.0} ns for 16 dispatches and {light:.0} ns for 2"));
            clock.source = ClockSource::Wall;
        }
        Ok(clock)
    }

    /// What it measures with.
    pub fn source(&self) -> ClockSource {
        self.source
    }

    /// Nanoseconds that a compute pass takes: `what` it does is said in errors.
    ///
    /// # Errors
    /// The device fails.
    pub(crate) fn time(
        &self,
        what: impl Display,
        encode: &dyn Fn(&mut wgpu::ComputePass<'_>),
    ) -> Result<f64, RuntimeError> {
        let mut encoder = self.device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let queries = self.queries.as_ref().filter(|_| self.source == ClockSource::Timestamps);
        {
            let timestamp_writes = queries.map(|(set, _)| wgpu::ComputePassTimestampWrites {
                query_set: set,
                beginning_of_pass_write_index: Some(0),
                end_of_pass_write_index: Some(1),
            });
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
            encode(&mut pass);
        }
        if let Some((set, buffer)) = queries {
            encoder.resolve_query_set(set, 0..2, buffer, 0);
        }
        let commands = encoder.finish();
        let start = Instant::now();
        self.device.queue.submit([commands]);
        let during = format_args!("timing {what}");
        self.device.wait(during)?;
        let wall = start.elapsed().as_nanos() as f64;
        let Some((_, buffer)) = queries else { return Ok(wall) };
        let ticks: Vec<u64> = bytemuck::pod_collect_to_vec(&self.device.read(buffer, 0, 16, during)?);
        Ok(ticks[1].saturating_sub(ticks[0]) as f64 * self.device.timestamp_period.unwrap_or(1.0))
    }
}
