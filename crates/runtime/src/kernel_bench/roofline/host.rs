//! Waits of the CPU: submissions, and results that come back. Wall clock.

use super::figure::{Figure, Quantity};
use super::instrument::{DURING, Instrument, Loaded};
use crate::RuntimeError;
use std::time::Instant;
use wgoose_kernels::probes::{Params, Probe};

/// Submissions without work and with a tiny dispatch, read-backs of 4 bytes and of 256 KiB.
///
/// # Errors
/// The device fails.
pub(super) fn costs(instrument: &Instrument) -> Result<Vec<Figure>, RuntimeError> {
    let device = &instrument.device;
    let buffer = device.storage("y", 256 << 10);
    let tick = Loaded::new(device, Probe::Tick, None, &buffer, Params { rounds: 1, ..Params::default() }, 1)?;
    let submit = |dispatches: bool| -> Result<f64, RuntimeError> {
        let begun = Instant::now();
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        if dispatches {
            tick.encode(&mut encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default()));
        }
        device.queue.submit([encoder.finish()]);
        device.wait(DURING)?;
        Ok(begun.elapsed().as_nanos() as f64)
    };
    let staging = device.staging(buffer.size());
    let read_back = |bytes: u64| -> Result<f64, RuntimeError> {
        let begun = Instant::now();
        let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(&buffer, 0, &staging, 0, bytes);
        device.queue.submit([encoder.finish()]);
        let data = device.read_staging(&staging, bytes, DURING)?;
        std::hint::black_box(data);
        Ok(begun.elapsed().as_nanos() as f64)
    };
    let figure = |quantity, how: &str, time: &dyn Fn() -> Result<f64, RuntimeError>| -> Result<Figure, RuntimeError> {
        let (ns, _) = instrument.sample(1, &mut |_| time())?;
        let us: Vec<f64> = ns.iter().map(|ns| ns / 1e3).collect();
        Ok(Figure::new(quantity, &us, format!("{how}, wall clock")))
    };
    Ok(vec![
        figure(Quantity::SubmitEmpty, "an empty command buffer", &|| submit(false))?,
        figure(Quantity::SubmitDispatch, "a command buffer with one dispatch", &|| submit(true))?,
        figure(Quantity::ReadBack4, "copied, mapped, read", &|| read_back(4))?,
        figure(Quantity::ReadBack256Ki, "copied, mapped, read", &|| read_back(256 << 10))?,
    ])
}
