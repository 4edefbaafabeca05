//! Sampling: the kernels that choose the next tokens from logits `[B, V]`, where they lie.
//!
//! Two stages, a dispatch each: [`score`] penalises logits and sums up pieces of the vocabulary, [`pick`] draws a token for
//! each sequence. Neither is an op: they end a step, outside of what a plan chooses. The layouts of what they bind are in
//! `kernels-wgsl/sample/layout.wgsl`.

use crate::source::{File, Sources, wgsl};
use crate::{Kernel, Limits, Refusal, Tunables, specialise};

/// Tokens of a piece of the vocabulary (twin: `PIECE` in `kernels-wgsl/sample/layout.wgsl`).
const PIECE: u32 = 1024;

/// Bytes that the first stage leaves for a piece (twin: `Piece` there).
pub const PIECE_BYTES: u64 = 16;

/// Widths that the second stage may have, the best first: a sequence has one workgroup, whose width hides its latency.
const WIDTHS: [u32; 5] = [1024, 512, 256, 128, 64];

/// Pieces that a vocabulary is cut into.
pub fn pieces(vocab: u32) -> u32 {
    vocab.div_ceil(PIECE)
}

/// The first stage: scores `[B, V]` and the best of every piece, a workgroup per sequence and piece.
///
/// # Errors
/// The kernel's file cannot be read or is wrong, or the device cannot run it.
pub fn score(sequences: u32, vocab: u32, limits: &Limits, sources: &Sources) -> Result<Kernel, Refusal> {
    let units = u64::from(sequences) * u64::from(pieces(vocab));
    stage("sample/score", wgsl!("sample/score.wgsl"), &Tunables::default(), units, limits, sources)
}

/// The second stage: a token per sequence, a workgroup each, as wide as the device has them.
///
/// # Errors
/// The kernel's file cannot be read or is wrong, or the device cannot run it at any width.
pub fn pick(sequences: u32, limits: &Limits, sources: &Sources) -> Result<Kernel, Refusal> {
    let mut refusal = Refusal::Shape("no width of workgroups");
    for width in WIDTHS {
        let tunables = Tunables([("WG".to_owned(), width.to_string())].into());
        let file = wgsl!("sample/pick.wgsl");
        match stage("sample/pick", file, &tunables, u64::from(sequences), limits, sources) {
            Err(e @ Refusal::Limit { .. }) => refusal = e,
            other => return other,
        }
    }
    Err(refusal)
}

fn stage(
    name: &str,
    file: File,
    tunables: &Tunables,
    units: u64,
    limits: &Limits,
    sources: &Sources,
) -> Result<Kernel, Refusal> {
    let specialised = specialise::specialise(file, sources, None, tunables)?;
    Kernel::assemble(format!("{name} {tunables}").trim_end().to_owned(), specialised, units, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stages_run_on_the_least_device() {
        let limits = Limits::webgpu();
        let score = score(3, 65_536, &limits, &Sources::Embedded).unwrap();
        assert_eq!(score.units, 3 * 64);
        let pick = pick(3, &limits, &Sources::Embedded).unwrap();
        assert_eq!((pick.units, pick.reflection.workgroup_size[0]), (3, 256));
    }

    #[test]
    fn the_second_stage_is_as_wide_as_the_device() {
        let wide = Limits { workgroup_invocations: 1024, workgroup_memory: 48 << 10, ..Limits::webgpu() };
        assert_eq!(pick(1, &wide, &Sources::Embedded).unwrap().reflection.workgroup_size[0], 1024);
        let narrow = Limits { workgroup_memory: 1 << 10, ..Limits::webgpu() };
        assert!(matches!(pick(1, &narrow, &Sources::Embedded), Err(Refusal::Limit { .. })));
    }
}
