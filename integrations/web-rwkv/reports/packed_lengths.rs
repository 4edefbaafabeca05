//! web-rwkv 0.10.20: a chunk of 256 tokens leaves another state than two chunks of 128.

use crate::engine::{logits, tokens};
use crate::models::{SMALL, synthetic};
use web_rwkv::runtime::infer::RnnOption;
use wgoose_loader::Container;
use wgoose_loader::synth::Mix;
use wgoose_web_rwkv::ModelReader;

/// Root mean square of the difference of the logits behind one more token, over that of the logits, when the `count`
/// tokens before it are one chunk instead of several.
fn difference(count: usize, several: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelReader::open(synthetic(&folder, SMALL, Container::Safetensors, Mix::F16)).unwrap();
    let last = |chunk| logits(model.clone(), tokens(count as u32 + 1, SMALL.vocab), chunk, RnnOption::Last);
    let [parts, whole] = [last(several), last(count)];
    let square = |numbers: &mut dyn Iterator<Item = f32>| numbers.map(|x| f64::from(x).powi(2)).sum::<f64>();
    let error = square(&mut parts.iter().zip(&whole).map(|(a, b)| a - b));
    (error / square(&mut parts.iter().copied())).sqrt()
}

#[test]
fn chunks_of_224_tokens_are_right() {
    let difference = difference(224, 32);
    assert!(difference < 0.01, "{difference}");
}

/// Passes once this is mended; then drop `should_panic`.
#[test]
#[should_panic(expected = "a chunk of 256 tokens changes the logits")]
fn chunks_of_256_tokens_are_right() {
    let difference = difference(256, 128);
    assert!(difference < 0.01, "a chunk of 256 tokens changes the logits by {difference}");
}
