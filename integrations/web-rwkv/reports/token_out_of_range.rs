//! web-rwkv 0.10.20: a token that is not in the vocabulary ends the runtime.

use crate::engine::{block_on, prompt, runtime};
use crate::models::{SMALL, synthetic};
use web_rwkv::runtime::infer::RnnOption;
use wgoose_loader::Container;
use wgoose_loader::synth::Mix;
use wgoose_web_rwkv::ModelReader;

/// Passes once this is mended; then drop `should_panic`.
#[test]
#[should_panic(expected = "the runtime is gone")]
fn a_runtime_outlives_a_token_that_is_not_in_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let model = ModelReader::open(synthetic(&folder, SMALL, Container::Safetensors, Mix::F16)).unwrap();
    block_on(async {
        let runtime = runtime(model).await;
        let with = |token| runtime.infer(prompt(vec![token], 32, RnnOption::Last));
        assert!(with(SMALL.vocab - 1).await.is_ok());
        assert!(with(SMALL.vocab).await.is_err());
        assert!(with(0).await.is_ok(), "the runtime is gone");
    });
}
