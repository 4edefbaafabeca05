//! Rates of arithmetic: multiply-adds, int8 dot products, the matrix units.

use super::figure::{Figure, Quantity};
use super::instrument::{Instrument, Loaded, operands};
use crate::RuntimeError;
use wgoose_kernels::probes::{Params, Probe};

/// Bytes of sums that a workgroup of [`Probe::MatrixF16`] has for itself.
const MATRIX_SUMS: u64 = 4 * 256 * 4;

/// The rates that are measured, each with its probe.
pub(super) const RATES: [(Quantity, Probe); 5] = [
    (Quantity::FmaF32, Probe::FmaF32),
    (Quantity::FmaF16x2, Probe::FmaF16x2),
    (Quantity::FmaF16x4, Probe::FmaF16x4),
    (Quantity::DotInt8, Probe::DotInt8),
    (Quantity::MatrixF16, Probe::MatrixF16),
];

/// Measures one rate.
///
/// # Errors
/// The device cannot, or fails.
pub(super) fn rate(instrument: &Instrument, quantity: Quantity, probe: Probe) -> Result<Figure, RuntimeError> {
    let (loaded, _, workgroups) = load(instrument, probe)?;
    let (ns, rounds) = instrument.rounds(&loaded, Params::default())?;
    let operations = (probe.operations() * u64::from(workgroups)) as f64;
    let rates: Vec<f64> = ns.iter().map(|ns| operations / ns).collect();
    let how = format!("{rounds} rounds of {} operations in {workgroups} workgroups", probe.operations());
    Ok(Figure::new(quantity, &rates, how))
}

/// A probe, what it writes, and its workgroups.
fn load(instrument: &Instrument, probe: Probe) -> Result<(Loaded, wgpu::Buffer, u32), RuntimeError> {
    let device = &instrument.device;
    let mut workgroups = instrument.scale.computers.min(device.limits().workgroups_per_dimension);
    let (x, y) = if probe == Probe::MatrixF16 {
        workgroups = workgroups.min((device.limits().storage_binding / MATRIX_SUMS) as u32);
        let halves: Vec<u32> = (0..256).map(|i| 0x3400_3500 + i % 61 * 0x0004_0008).collect();
        let x = device.storage("x", 1024);
        device.queue.write_buffer(&x, 0, bytemuck::cast_slice(&halves));
        (x, device.storage("y", u64::from(workgroups) * MATRIX_SUMS))
    } else {
        (operands(device), device.storage("y", 4096))
    };
    Ok((Loaded::new(device, probe, Some(&x), &y, Params::default(), workgroups)?, y, workgroups))
}

#[cfg(test)]
mod tests {
    use super::super::instrument::DURING;
    use super::super::scale::Scale;
    use super::*;
    use crate::Device;
    use wgoose_kernels::Feature;

    fn after<T: bytemuck::Pod>(instrument: &Instrument, probe: Probe, rounds: u32) -> Vec<T> {
        let (loaded, y, _) = load(instrument, probe).unwrap();
        loaded.set(&instrument.device, Params { rounds, ..Params::default() });
        loaded.run(&instrument.device);
        bytemuck::pod_collect_to_vec(&instrument.device.read(&y, 0, 4096, DURING).unwrap())
    }

    /// Four links of each chain a round: what [`Probe::operations`] counts.
    fn chains(x: &[f32], components: usize, rounds: u32) -> Vec<f64> {
        let at = |vector: usize, c: usize| f64::from(x[4 * vector + c]);
        let chain = |start: usize, c: usize| (0..4 * rounds).fold(at(start, c), |sum, _| sum * -at(0, c) + at(1, c));
        (0..components).map(|c| (2..10).map(|start| chain(start, c)).sum()).collect()
    }

    #[test]
    fn probes_compute_every_counted_operation() {
        let device = Device::open(None).unwrap();
        let instrument = Instrument::new(&device, Scale::tiny()).unwrap();
        let x: Vec<f32> = bytemuck::pod_collect_to_vec(&device.read(&operands(&device), 0, 160, DURING).unwrap());
        for rounds in [1, 2] {
            let got: Vec<f32> = after(&instrument, Probe::FmaF32, rounds);
            for (got, want) in got.chunks(4).flat_map(|v| v.iter().zip(chains(&x, 4, rounds))) {
                assert!((f64::from(*got) - want).abs() < 1e-5, "{rounds} rounds: {got} for {want}");
            }
            if device.limits().features.contains(&Feature::F16) {
                let got: Vec<f32> = after(&instrument, Probe::FmaF16x2, rounds);
                for (got, want) in got.chunks(4).flat_map(|v| v.iter().zip(chains(&x, 2, rounds))) {
                    assert!((f64::from(*got) - want).abs() < 0.05, "{rounds} rounds: {got} for {want}");
                }
            }
            let got: Vec<u32> = after(&instrument, Probe::DotInt8, rounds);
            let by: Vec<u32> = x.iter().take(8).map(|f| f.to_bits()).collect();
            let signed = |word: u32| word.to_le_bytes().map(|b| i32::from(b as i8));
            for (tid, got) in got.chunks(4).enumerate() {
                let sum = |of: usize| -> i32 {
                    let dot = |q: u32| -> i32 { signed(q).iter().zip(signed(by[of])).map(|(a, b)| a * b).sum() };
                    (0..4 * rounds).map(|i| dot(tid as u32 + i)).sum()
                };
                let want: Vec<u32> = (0..4).map(|c| (sum(c) ^ sum(c + 4)) as u32).collect();
                assert_eq!(got, want, "thread {tid}");
            }
        }
    }
}
