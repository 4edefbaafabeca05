//! web-rwkv on this machine's Vulkan device.

use half::f16;
use std::sync::OnceLock;
use tokio::runtime::Builder;
use web_rwkv::context::{Context, ContextBuilder, InstanceExt};
use web_rwkv::runtime::TokioRuntime;
use web_rwkv::runtime::infer::{Rnn, RnnInput, RnnInputBatch, RnnOption};
use web_rwkv::runtime::loader::Reader;
use web_rwkv::runtime::model::ModelBuilder;
use web_rwkv::runtime::v7::Bundle;
use web_rwkv::wgpu::{Backends, Instance, InstanceDescriptor, PowerPreference};

/// Runs asynchronous code.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().build().unwrap().block_on(future)
}

/// The one device of all tests.
pub(crate) fn context() -> &'static Context {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    // On a thread of its own: the caller may be asynchronous.
    CONTEXT.get_or_init(|| std::thread::spawn(|| block_on(open())).join().unwrap())
}

async fn open() -> Context {
    let mut instance = InstanceDescriptor::new_without_display_handle();
    instance.backends = Backends::VULKAN;
    let adapter = Instance::new(instance).adapter(PowerPreference::HighPerformance).await;
    let adapter = adapter.expect("a Vulkan device: `cargo xtask upstream` installs a software one");
    ContextBuilder::new(adapter).build().await.unwrap()
}

/// A model with one state.
pub(crate) async fn runtime(model: impl Reader) -> TokioRuntime<Rnn> {
    let model = ModelBuilder::new(context(), model).build_v7().await.unwrap();
    TokioRuntime::new(Bundle::<f16>::new(model, 1)).await
}

/// Tokens that go through a vocabulary in leaps.
pub(crate) fn tokens(count: u32, vocab: u32) -> Vec<u32> {
    (0..count).map(|at| at * 389 % vocab).collect()
}

/// A prompt that is read from the beginning, `chunk` tokens in a pass.
pub(crate) fn prompt(tokens: Vec<u32>, chunk: usize, option: RnnOption) -> RnnInput {
    RnnInput::new(vec![RnnInputBatch::new(tokens, option)], chunk)
}

/// What a model says behind a prompt: the logits behind every token, or behind the last.
pub(crate) fn logits(model: impl Reader, tokens: Vec<u32>, chunk: usize, option: RnnOption) -> Vec<f32> {
    block_on(async {
        let runtime = runtime(model).await;
        let mut input = prompt(tokens, chunk, option);
        let mut logits = Vec::new();
        while !input.batches[0].tokens.is_empty() {
            let (rest, output) = runtime.infer(input).await.unwrap();
            logits.extend_from_slice(output[0].0.data());
            input = rest;
        }
        logits
    })
}

/// The bits of numbers: NaN equals NaN.
pub(crate) fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}
