//! web-rwkv 0.10.20: a pass whose tokens are no multiple of 32 runs on the kernel for vectors.

use crate::engine::{bits, logits, tokens};
use crate::models::{SMALL, synthetic};
use web_rwkv::runtime::infer::RnnOption;
use wgoose_loader::Container;
use wgoose_loader::synth::Mix;
use wgoose_web_rwkv::ModelReader;

/// Passes once 20 tokens are padded to a tile, or the tail of a tile is masked; then drop `should_panic`. The two
/// kernels sum in different orders, so that bits tell them apart.
#[test]
#[should_panic(expected = "20 tokens have other bits than the first 20 of 32")]
fn the_rest_of_a_prompt_runs_on_the_kernel_for_matrices() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelReader::open(synthetic(&folder, SMALL, Container::Safetensors, Mix::F16)).unwrap();
    let full = |count| bits(&logits(model.clone(), tokens(count, SMALL.vocab), 32, RnnOption::Full));
    let first = 20 * SMALL.vocab as usize;
    assert!(full(20) == full(32)[..first], "20 tokens have other bits than the first 20 of 32");
}
