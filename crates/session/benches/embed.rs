//! Six short texts embedded in one call against six calls: `WGOOSE_MODEL=model.gguf cargo bench -p wgoose-session
//! --bench embed`. Without a model a small synthetic one is made.
#![allow(clippy::unwrap_used)]

use criterion::{Criterion, criterion_group, criterion_main};
use std::path::PathBuf;
use wgoose_graph::ModelShape;
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_session::{CancelToken, EmbedOptions, Session};

/// Names, places, a price: fields of a record, as lists of tokens.
const FIELDS: [&[u32]; 6] = [
    &[33155, 21499],
    &[41, 2051, 3719, 117],
    &[51, 6731, 30],
    &[11, 22, 33, 44, 55, 66, 77],
    &[4712, 22590, 47],
    &[60, 61, 62, 63, 64],
];

fn benches(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let model = std::env::var_os("WGOOSE_MODEL").map_or_else(
        || {
            let path = folder.path().join("model.gguf");
            let shape = ModelShape { layers: 4, ..ModelShape::preset("0.1B").unwrap() };
            let (container, mix) = (Container::Gguf, Mix::F16);
            let options =
                SynthOptions { shape, seed: 1, container, mix, hot: false, vocabulary: None, ffn_zeros: None };
            write(&options, &path, &mut unwatched).unwrap();
            path
        },
        PathBuf::from,
    );
    let mut session = Session::builder().embedding_cache(None).open(&model).unwrap();
    let options = EmbedOptions::default();
    let mut group = criterion.benchmark_group("six short texts");
    group.bench_function("one call", |b| {
        b.iter(|| session.embed_batch(&FIELDS, &options, &CancelToken::default()).unwrap());
    });
    group.bench_function("six calls", |b| {
        b.iter(|| FIELDS.map(|field| session.embed(field, &options).unwrap()));
    });
    group.finish();
}

criterion_group!(embed, benches);
criterion_main!(embed);
