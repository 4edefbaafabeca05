//! Sampling: the kernels that choose the next tokens from logits `[B, V]`, where they are.
//!
//! Three kernels: [`scores`] penalises logits and sums up slices of the vocabulary, [`histogram`] sums up the slices
//! and counts tokens by rank, [`sample`] draws a token for each sequence. The first two have many workgroups for a
//! sequence, the last one has one. [`adjust`] fills the table of what logits are adjusted by, before the first step;
//! [`logprobs`] comes after them where a sequence asks for log-probabilities. None is an op: they end a step, outside
//! of what a plan chooses. The layouts of what they bind are in `kernels-wgsl/device/sampling/layout.wgsl`.

use crate::{Catalogue, Kernel, KernelError, Limits, Refusal};

/// Tokens of a slice of the vocabulary (must match `SLICE` in `kernels-wgsl/device/sampling/layout.wgsl`).
const SLICE: u32 = 1024;

/// Bytes that the first kernel leaves for a slice (must match `VocabSlice` there).
pub const SLICE_BYTES: u64 = 16;

/// Bytes of the adjustment of a token (must match `Adjustment` there).
pub const ADJUSTMENT_BYTES: u64 = 12;

/// Bytes of an entry of [`adjust`] (must match `Entry` in `kernels-wgsl/device/sampling/adjust.wgsl`).
pub const ENTRY_BYTES: u64 = 16;

/// Most log-probabilities of a step and sequence, that of the chosen token among them (must match `MOST_LISTED` in
/// `kernels-wgsl/device/sampling/logprobs.wgsl`).
pub const MOST_LISTED: usize = 21;

/// Bytes that the second kernel leaves for a sequence (must match `Best` there).
pub const BEST_BYTES: u64 = 16;

/// Bytes of the histogram of a sequence (must match `BINS` in `kernels-wgsl/device/sampling/bins.wgsl`).
pub const HISTOGRAM_BYTES: u64 = 1024 * 8;

/// Widths that the last kernel may have, the best first: a sequence has one workgroup, whose width hides its latency.
const WIDTHS: [u32; 5] = [1024, 512, 256, 128, 64];

/// Slices that a vocabulary is cut into.
pub fn slices(vocab: u32) -> u32 {
    vocab.div_ceil(SLICE)
}

/// The first kernel: scores `[B, V]` and the best of every slice, a workgroup per sequence and slice.
///
/// # Errors
/// The kernel's file is wrong, or the device cannot run it.
pub fn scores(sequences: u32, vocab: u32, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    by_slices("device/sampling/scores", sequences, vocab, limits, catalogue)
}

/// The kernel before the first step: writes that many entries into the table of adjustments `[B, V]`.
///
/// # Errors
/// As [`scores`].
pub fn adjust(entries: u32, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    let kernel = Kernel::of_device(catalogue.library(), "device/sampling/adjust", &[], limits)?;
    Ok(Kernel { workgroups: entries.div_ceil(64).into(), ..kernel })
}

/// The kernel after them: log-probabilities `[B, MOST_LISTED]`, a workgroup per sequence.
///
/// # Errors
/// As [`scores`].
pub fn logprobs(sequences: u32, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    let kernel = Kernel::of_device(catalogue.library(), "device/sampling/logprobs", &[], limits)?;
    Ok(Kernel { workgroups: sequences.into(), ..kernel })
}

/// The second kernel: the best of each sequence and its histogram `[B, 1024]`, a workgroup per sequence and slice.
///
/// # Errors
/// As [`scores`].
pub fn histogram(sequences: u32, vocab: u32, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    by_slices("device/sampling/histogram", sequences, vocab, limits, catalogue)
}

fn by_slices(
    file: &str,
    sequences: u32,
    vocab: u32,
    limits: &Limits,
    catalogue: &Catalogue,
) -> Result<Kernel, KernelError> {
    let kernel = Kernel::of_device(catalogue.library(), file, &[], limits)?;
    Ok(Kernel { workgroups: u64::from(sequences) * u64::from(slices(vocab)), ..kernel })
}

/// The last kernel: a token per sequence, a workgroup each, as wide as the device has them.
///
/// # Errors
/// The kernel's file is wrong, or the device cannot run it at any width.
pub fn sample(sequences: u32, limits: &Limits, catalogue: &Catalogue) -> Result<Kernel, KernelError> {
    let mut refusal = KernelError::from(Refusal::None("no width of workgroups"));
    for width in WIDTHS {
        let width = width.to_string();
        match Kernel::of_device(catalogue.library(), "device/sampling/sample", &[("WG", &width)], limits) {
            Ok(kernel) => return Ok(Kernel { workgroups: sequences.into(), ..kernel }),
            Err(e @ KernelError::Refused(Refusal::Limit { .. })) => refusal = e,
            Err(other) => return Err(other),
        }
    }
    Err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_fits_the_least_limits() {
        let (limits, catalogue) = (Limits::webgpu(), Catalogue::embedded());
        for by_slices in [scores, histogram] {
            let kernel = by_slices(3, 65_536, &limits, &catalogue).unwrap();
            assert_eq!((kernel.workgroups, kernel.facts.workgroup_size[0]), (3 * 64, 256));
        }
        assert_eq!(adjust(65, &limits, &catalogue).unwrap().workgroups, 2);
        let by_sequence = [sample(3, &limits, &catalogue), logprobs(3, &limits, &catalogue)];
        for kernel in by_sequence.map(Result::unwrap) {
            assert_eq!((kernel.workgroups, kernel.facts.workgroup_size[0]), (3, 256));
        }
    }

    #[test]
    fn the_last_kernel_is_as_wide_as_the_device() {
        let catalogue = Catalogue::embedded();
        let wide = Limits { workgroup_threads: 1024, workgroup_memory: 48 << 10, ..Limits::webgpu() };
        assert_eq!(sample(1, &wide, &catalogue).unwrap().facts.workgroup_size[0], 1024);
        let narrow = Limits { workgroup_memory: 1 << 10, ..Limits::webgpu() };
        let refusal = sample(1, &narrow, &catalogue).unwrap_err();
        assert!(matches!(refusal, KernelError::Refused(Refusal::Limit { .. })));
    }
}
