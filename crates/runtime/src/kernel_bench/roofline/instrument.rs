//! The instrument of every measurement: the device, its clock, and how long to look.

use super::scale::Scale;
use crate::kernel_bench::{Clock, ClockSource};
use crate::pipelines::{Pipeline, Pipelines};
use crate::{Device, RuntimeError};
use std::sync::Arc;
use std::time::Instant;
use wgoose_kernels::probes::{self, Params, Probe};
use wgoose_kernels::{Binding, Catalogue, PlanError};

/// Most rounds of a dispatch: software devices cut loops at 65,535 iterations.
const MOST_ROUNDS: u32 = 1 << 15;

/// Ticks of the timestamp counter that a sample must have at least.
const LEAST_TICKS: f64 = 20.0;

/// What waits say in errors.
pub(super) const DURING: &str = "measuring what the device can do";

/// A device, its clock, and the scale of the measurements.
pub(super) struct Instrument {
    pub(super) device: Arc<Device>,
    pub(super) clock: Clock,
    pub(super) scale: Scale,
}

/// A probe with its buffers.
pub(super) struct Loaded {
    pipeline: Pipeline,
    bindings: Vec<Binding>,
    params: wgpu::Buffer,
    group: wgpu::BindGroup,
    workgroups: u32,
}

impl Instrument {
    /// Tests the device's clock.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn new(device: &Arc<Device>, scale: Scale) -> Result<Self, RuntimeError> {
        let (x, y) = (operands(device), device.storage("y", 4096));
        let params = Params { rounds: 64, ..Params::default() };
        let work = Loaded::new(device, Probe::FmaF32, Some(&x), &y, params, scale.computers)?;
        let clock = Clock::self_test(device, &|pass, n| (0..n).for_each(|_| work.encode(pass)))?;
        Ok(Instrument { device: Arc::clone(device), clock, scale })
    }

    /// What the clock is, in words.
    pub(super) fn clock_name(&self) -> String {
        match (self.clock.source(), &self.clock.doubt) {
            (ClockSource::Timestamps, _) => "GPU timestamps".to_owned(),
            (ClockSource::Wall, None) => "wall clock".to_owned(),
            (ClockSource::Wall, Some(doubt)) => format!("wall clock, because {doubt}"),
        }
    }

    /// Samples of `time`, which gives the nanoseconds of work done `n` times, divided by n; also n. It is doubled until
    /// a sample is long enough, up to `most`.
    ///
    /// # Errors
    /// Those of `time`.
    pub(super) fn sample(
        &self,
        most: u32,
        time: &mut dyn FnMut(u32) -> Result<f64, RuntimeError>,
    ) -> Result<(Vec<f64>, u32), RuntimeError> {
        let tick = self.device.timestamp_period.unwrap_or(0.0);
        let least = (self.scale.least.as_nanos() as f64).max(LEAST_TICKS * tick);
        let begun = Instant::now();
        let mut n = 1;
        while time(n)? < least && n < most {
            n *= 2;
        }
        while begun.elapsed() < self.scale.warm_up {
            time(n)?;
        }
        let samples = (0..self.scale.samples).map(|_| Ok(time(n)? / f64::from(n)));
        Ok((samples.collect::<Result<_, RuntimeError>>()?, n))
    }

    /// Samples of a probe that does its work `rounds` times within a dispatch: nanoseconds of a round, and rounds.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn rounds(&self, probe: &Loaded, params: Params) -> Result<(Vec<f64>, u32), RuntimeError> {
        self.sample(MOST_ROUNDS, &mut |rounds| {
            probe.set(&self.device, Params { rounds, ..params });
            self.clock.time(DURING, &|pass| probe.encode(pass))
        })
    }
}

/// Ten vectors between one half and one: what arithmetic probes read.
pub(super) fn operands(device: &Device) -> wgpu::Buffer {
    let floats: Vec<f32> = (0..40u32).map(|i| 1.0 - (i * 17 % 40 + 1) as f32 / 82.0).collect();
    let buffer = device.storage("x", 160);
    device.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&floats));
    buffer
}

impl Loaded {
    /// Compiles a probe and binds its buffers.
    ///
    /// # Errors
    /// The device cannot run it, or fails.
    pub(super) fn new(
        device: &Arc<Device>,
        probe: Probe,
        x: Option<&wgpu::Buffer>,
        y: &wgpu::Buffer,
        params: Params,
        workgroups: u32,
    ) -> Result<Self, RuntimeError> {
        let failed = |e| PlanError::of_kernel(&format!("the probe {probe:?}"), e);
        let kernel = probes::kernel(probe, device.limits(), &Catalogue::embedded()).map_err(failed)?;
        let mut pipelines = Pipelines::new(Arc::clone(device));
        pipelines.compile(&[&kernel])?;
        let Some(pipeline) = pipelines.get(&kernel.hash).cloned() else {
            let why = "it was compiled, and is not there".to_owned();
            return Err(RuntimeError::Compile { kernel: kernel.label, why });
        };
        let uniform = device.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some("params"),
            size: 16,
            usage: wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let bindings = kernel.facts.bindings;
        let group = bind(device, &pipeline, &bindings, &uniform, x, y);
        let loaded = Loaded { pipeline, bindings, params: uniform, group, workgroups };
        loaded.set(device, params);
        device.check("preparing a measurement")?;
        Ok(loaded)
    }

    /// The same probe and parameters, with other buffers and another number of workgroups.
    pub(super) fn with(&self, device: &Device, x: Option<&wgpu::Buffer>, y: &wgpu::Buffer, workgroups: u32) -> Self {
        let group = bind(device, &self.pipeline, &self.bindings, &self.params, x, y);
        let (pipeline, bindings, params) = (self.pipeline.clone(), self.bindings.clone(), self.params.clone());
        Loaded { pipeline, bindings, params, group, workgroups }
    }

    /// Sets what the next submission reads.
    pub(super) fn set(&self, device: &Device, params: Params) {
        device.queue.write_buffer(&self.params, 0, bytemuck::cast_slice(&params.words()));
    }

    /// Encodes one dispatch.
    pub(super) fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.pipeline.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        pass.dispatch_workgroups(self.workgroups, 1, 1);
    }

    /// Runs it once.
    #[cfg(test)]
    pub(super) fn run(&self, device: &Device) {
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        self.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        device.queue.submit([encoder.finish()]);
    }
}

/// Binds buffers by the names that all probes have for them.
fn bind(
    device: &Device,
    pipeline: &Pipeline,
    bindings: &[Binding],
    params: &wgpu::Buffer,
    x: Option<&wgpu::Buffer>,
    y: &wgpu::Buffer,
) -> wgpu::BindGroup {
    let entries: Vec<wgpu::BindGroupEntry<'_>> = bindings
        .iter()
        .filter_map(|b| {
            let buffer = match b.name.as_str() {
                "params" => params,
                "x" => x?,
                _ => y,
            };
            Some(wgpu::BindGroupEntry { binding: b.number, resource: buffer.as_entire_binding() })
        })
        .collect();
    let layout = &pipeline.layout;
    device.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}
