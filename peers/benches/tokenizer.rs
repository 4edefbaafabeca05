//! `cargo bench --bench tokenizer` in this folder: every tokenizer on the same texts, after their ids were compared.

use cpu_time::ThreadTime;
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::time::Duration;
use wgoose_peers::{Peer, Text, peers, texts};

/// The time that this thread has on a processor: other processes do not count.
struct OwnTime;

impl Measurement for OwnTime {
    type Intermediate = ThreadTime;
    type Value = Duration;

    fn start(&self) -> ThreadTime {
        ThreadTime::now()
    }

    fn end(&self, start: ThreadTime) -> Duration {
        start.elapsed()
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        value.as_nanos() as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// More than the caches of the processors we know.
const SWEEP: usize = 256 << 20;

fn check(peers: &[Box<dyn Peer>], texts: &[Text]) {
    for Text { name, text } in texts {
        let ours = peers[0].ids(text);
        for peer in &peers[1..] {
            let theirs = peer.ids(text);
            let first = ours.iter().zip(&theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
            assert!(ours == theirs, "{} gives other ids than wgoose for '{name}', from id {first} on", peer.name());
            assert_eq!(peer.encode(text), ours.len());
        }
    }
}

/// The first kilobyte of a text, to the character.
fn prompt(text: &str) -> &str {
    let end = (0..=1024).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    &text[..end]
}

fn compare(c: &mut Criterion<OwnTime>) {
    let (peers, texts) = (peers(), texts());
    check(&peers, &texts);
    for Text { name, text } in &texts {
        let mut group = c.benchmark_group(format!("{name}, 1 MiB"));
        group.throughput(Throughput::Bytes(text.len() as u64));
        for peer in &peers {
            group.bench_function(BenchmarkId::from_parameter(peer.name()), |b| b.iter(|| peer.encode(black_box(text))));
        }
    }
    let mut sweep = vec![0_u8; SWEEP];
    for Text { name, text } in &texts {
        let text = prompt(text);
        let mut group = c.benchmark_group(format!("{name}, 1 KiB"));
        for peer in &peers {
            group.bench_function(BenchmarkId::new("warm", peer.name()), |b| b.iter(|| peer.encode(black_box(text))));
        }
        group.sample_size(20);
        for peer in &peers {
            let mut evict = || sweep.iter_mut().step_by(64).for_each(|byte| *byte = byte.wrapping_add(1));
            group.bench_function(BenchmarkId::new("cold", peer.name()), |b| {
                b.iter_batched(&mut evict, |()| peer.encode(black_box(text)), BatchSize::PerIteration);
            });
        }
    }
}

fn briefly() -> Criterion<OwnTime> {
    Criterion::default()
        .with_measurement(OwnTime)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3))
        .sample_size(40)
}

criterion_group! {
    name = benches;
    config = briefly();
    targets = compare
}
criterion_main!(benches);
