//! Benchmarks of whole sessions: measured, recorded, reported.

pub(crate) mod cold;
mod decode;
pub(crate) mod measure;
pub(crate) mod record;
pub(crate) mod report;

/// A prompt of that many tokens, always the same.
pub(crate) fn prompt(tokens: u32, vocab: u32) -> Vec<u32> {
    (0..tokens).map(|t| (t * 7919 + 13) % vocab).collect()
}
