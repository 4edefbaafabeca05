//! Bandwidth: a kernel that reads, one that copies, and the API's own copy.

use super::figure::{Figure, Quantity};
use super::instrument::{DURING, Instrument, Loaded};
use crate::{Device, RuntimeError};
use std::time::Instant;
use wgoose_kernels::probes::{Params, Probe};

/// Bytes of a vector of four words.
const VECTOR: u64 = 16;

/// The block of numbers with which large buffers are filled.
const BLOCK: u64 = 1 << 20;

/// Two buffers of the same size.
pub(super) struct Buffers {
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    bytes: u64,
}

impl Buffers {
    /// As large as the scale asks for, or as the device allows.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn new(instrument: &Instrument) -> Result<Self, RuntimeError> {
        let device = &instrument.device;
        let limit = device.limits().storage_binding.min(device.limits().buffer);
        let mut bytes = instrument.scale.bytes.min((limit + 1).next_power_of_two() / 2);
        loop {
            let [x, y] = ["x", "y"].map(|name| device.storage(name, bytes));
            match device.check("preparing a measurement").and_then(|()| fill(device, &x)) {
                Ok(()) => return Ok(Buffers { x, y, bytes }),
                // Less memory is free than a binding may have.
                Err(RuntimeError::OutOfMemory { .. }) if bytes > BLOCK => bytes /= 2,
                Err(e) => return Err(e),
            }
        }
    }

    fn params(&self) -> Params {
        Params { elements: (self.bytes / VECTOR) as u32, ..Params::default() }
    }

    fn probe(&self, instrument: &Instrument, probe: Probe) -> Result<Loaded, RuntimeError> {
        let movers = instrument.scale.movers;
        Loaded::new(&instrument.device, probe, Some(&self.x), &self.y, self.params(), movers)
    }

    /// Reading x.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn read(&self, instrument: &Instrument) -> Result<Figure, RuntimeError> {
        self.kernel(instrument, Probe::Read, Quantity::ReadBandwidth, self.bytes)
    }

    /// Copying x to y.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn copy(&self, instrument: &Instrument) -> Result<Figure, RuntimeError> {
        self.kernel(instrument, Probe::Copy, Quantity::CopyBandwidth, 2 * self.bytes)
    }

    fn kernel(
        &self,
        instrument: &Instrument,
        probe: Probe,
        quantity: Quantity,
        bytes: u64,
    ) -> Result<Figure, RuntimeError> {
        let (ns, rounds) = instrument.rounds(&self.probe(instrument, probe)?, self.params())?;
        let rates: Vec<f64> = ns.iter().map(|ns| bytes as f64 / ns).collect();
        let how = format!(
            "{} MiB, {rounds} times in one dispatch of {} workgroups of 256",
            self.bytes >> 20,
            instrument.scale.movers
        );
        Ok(Figure::new(quantity, &rates, how))
    }

    /// The API's own copy of x to y.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn command(&self, instrument: &Instrument) -> Result<Figure, RuntimeError> {
        let device = &instrument.device;
        let (ns, n) = instrument.sample(1024, &mut |n| {
            let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for _ in 0..n {
                encoder.copy_buffer_to_buffer(&self.x, 0, &self.y, 0, self.bytes);
            }
            let commands = encoder.finish();
            let begun = Instant::now();
            device.queue.submit([commands]);
            device.wait(DURING)?;
            Ok(begun.elapsed().as_nanos() as f64)
        })?;
        let rates: Vec<f64> = ns.iter().map(|ns| 2.0 * self.bytes as f64 / ns).collect();
        let how = format!("{} MiB, {n} copies in one submission, wall clock", self.bytes >> 20);
        Ok(Figure::new(Quantity::CopyCommand, &rates, how))
    }
}

/// Fills a buffer with a block of numbers, over and over: zeros may be faster than what memory holds in earnest.
fn fill(device: &Device, buffer: &wgpu::Buffer) -> Result<(), RuntimeError> {
    let size = BLOCK.min(buffer.size());
    let words: Vec<u32> = (0..size as u32 / 4).map(|i| i.wrapping_mul(0x9e37_79b9) ^ (i >> 3)).collect();
    let block = device.storage("block", size);
    device.queue.write_buffer(&block, 0, bytemuck::cast_slice(&words));
    let mut encoder = device.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    for at in (0..buffer.size()).step_by(size as usize) {
        encoder.copy_buffer_to_buffer(&block, 0, buffer, at, size);
    }
    device.queue.submit([encoder.finish()]);
    device.wait("preparing a measurement")
}

#[cfg(test)]
mod tests {
    use super::super::scale::Scale;
    use super::*;

    fn words(device: &Device, buffer: &wgpu::Buffer, bytes: u64) -> Vec<u32> {
        bytemuck::pod_collect_to_vec(&device.read(buffer, 0, bytes, DURING).unwrap())
    }

    #[test]
    fn probes_read_and_copy_the_whole_buffer() {
        let device = Device::open(None).unwrap();
        let instrument = Instrument::new(&device, Scale::tiny()).unwrap();
        let buffers = Buffers::new(&instrument).unwrap();
        let x = words(&device, &buffers.x, buffers.bytes);
        let movers = instrument.scale.movers as usize * 256;

        let probe = buffers.probe(&instrument, Probe::Read).unwrap();
        probe.set(&device, Params { rounds: 3, ..buffers.params() });
        probe.run(&device);
        let y = words(&device, &buffers.y, movers as u64 * VECTOR);
        for thread in [0, 1, 777, movers - 1] {
            // Of every tile of 4 x 256 vectors that the workgroup takes, the thread's of each quarter.
            let (first, tid) = (thread / 256 * 1024, thread % 256);
            for c in 0..4 {
                let sum = |quarter: usize| {
                    let own = x.chunks_exact(4).skip(first + quarter * 256 + tid).step_by(4 * movers);
                    own.fold(0u32, |sum, v| sum.wrapping_add(v[c])).wrapping_mul(3)
                };
                let want = (sum(0) ^ sum(1)).wrapping_add(sum(2) ^ sum(3));
                assert_eq!(y[4 * thread + c], want, "thread {thread}, component {c}");
            }
        }

        let probe = buffers.probe(&instrument, Probe::Copy).unwrap();
        probe.set(&device, Params { rounds: 3, ..buffers.params() });
        probe.run(&device);
        let y = words(&device, &buffers.y, buffers.bytes);
        assert!(x.iter().zip(&y).all(|(x, y)| x.wrapping_add(2) == *y));
    }
}
