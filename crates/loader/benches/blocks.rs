//! Weights per second, one thread, decoding and encoding each format: `cargo bench -p wgoose-loader`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use wgoose_graph::{Format, Weight};
use wgoose_loader::Container;
use wgoose_loader::blocks::{decode, encode};
use wgoose_loader::synth::{self, Mix, SynthOptions};

fn blocks(criterion: &mut Criterion) {
    let (_, shape) = wgoose_graph::ModelShape::PRESETS[0];
    let (container, mix) = (Container::Gguf, Mix::F32);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    let mut numbers = synth::weight(&options, Weight::Head, 0..1024);
    let mut group = criterion.benchmark_group("blocks");
    group.throughput(Throughput::Elements(numbers.len() as u64));
    for format in Format::in_files() {
        let mut bytes = vec![0; numbers.len() / format.block_weights() * format.block_bytes()];
        group.bench_function(format!("encode {format}"), |b| b.iter(|| encode(format, &numbers, &mut bytes)));
        group.bench_function(format!("decode {format}"), |b| b.iter(|| decode(format, &bytes, &mut numbers)));
    }
    group.finish();
}

criterion_group!(benches, blocks);
criterion_main!(benches);
