//! Continues a prompt with web-rwkv and wgoose-web-rwkv: after.

use half::f16;
use web_rwkv::context::{ContextBuilder, InstanceExt};
use web_rwkv::runtime::TokioRuntime;
use web_rwkv::runtime::infer::{Rnn, RnnInput, RnnInputBatch, RnnOption};
use web_rwkv::runtime::loader::Loader;
use web_rwkv::runtime::model::{ContextAutoLimits, ModelBuilder};
use web_rwkv::runtime::v7::Bundle;
use web_rwkv::wgpu::{Instance, PowerPreference};
use wgoose_web_rwkv::ModelReader;

pub type Failure = Box<dyn std::error::Error>;

/// The tokens that a model continues a prompt with, the likeliest each time.
pub async fn continued(path: &str, prompt: &[u32], tokens: usize) -> Result<Vec<u32>, Failure> {
    let model = ModelReader::open(path)?;
    let info = Loader::info(&model)?;
    let adapter = Instance::default().adapter(PowerPreference::HighPerformance).await?;
    let context = ContextBuilder::new(adapter).auto_limits(&info).build().await?;
    let model = ModelBuilder::new(&context, model).build_v7().await?;
    let runtime = TokioRuntime::<Rnn>::new(Bundle::<f16>::new(model, 1)).await;
    let mut input = RnnInput::new(vec![RnnInputBatch::new(prompt.to_vec(), RnnOption::Last)], 128);
    let mut written = Vec::new();
    while written.len() < tokens {
        let (rest, output) = runtime.infer(input).await?;
        input = rest;
        let logits = output[0].0.to_vec();
        if let Some((likeliest, _)) = logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)) {
            written.push(likeliest as u32);
            input.batches[0].push(likeliest as u32);
        }
    }
    Ok(written)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("name a model file")?;
    println!("{:?}", continued(&path, &[1, 2, 3], 8).await?);
    Ok(())
}
