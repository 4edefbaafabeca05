//! Kernels of no op under the sanitizer: sampling, repacking, the check of matrix units.

use std::collections::BTreeMap;
use wgoose_graph::Format;
use wgoose_kernels::{Kernel, dispatch_size, matrix_check, repack, sampling};
use wgoose_loader::blocks;
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::sanitize::{SanitizeOptions, findings, shader, widest_limits};
use wgoose_sanitizer::{Buffer, Dispatch};

/// What kernels bind, by name.
struct Memory(BTreeMap<&'static str, Buffer>);

impl Memory {
    fn new(buffers: impl IntoIterator<Item = (&'static str, Buffer)>) -> Self {
        Memory(buffers.into_iter().collect())
    }

    /// Runs a kernel in both orders, which must be clean, and keeps what it wrote.
    #[track_caller]
    fn run(&mut self, kernel: &Kernel) {
        let options = SanitizeOptions::default();
        let grid = dispatch_size(kernel.workgroups, &widest_limits(32)).unwrap();
        let mut dispatch = Dispatch::new(grid);
        for binding in &kernel.facts.bindings {
            dispatch = dispatch.bind(binding.number, self.0[binding.name.as_str()].clone());
        }
        let report = shader(kernel).unwrap().check(&dispatch, &options.orders).unwrap();
        for (binding, buffer) in kernel.facts.bindings.iter().zip(&report.buffers) {
            *self.0.get_mut(binding.name.as_str()).unwrap() = buffer.clone();
        }
        let found = findings(kernel, report);
        let faults = found.iter().filter(|found| found.finding.allowed.is_none());
        let faults: Vec<String> = faults.map(ToString::to_string).collect();
        assert!(faults.is_empty(), "{}\n{}", kernel.label, faults.join("\n"));
    }

    fn bytes(&self, name: &str) -> &[u8] {
        self.0[name].bytes()
    }
}

fn words(values: &[u32]) -> Buffer {
    Buffer::of(values.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>())
}

fn floats(values: &[f32]) -> Buffer {
    Buffer::of(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

/// Settings of a sequence, as `device/sampling/layout.wgsl` has them.
fn settings(temperature: f32, top_p: f32, top_k: u32, presence: f32, typical: f32) -> Vec<u32> {
    let mut words = vec![temperature.to_bits(), top_p.to_bits(), top_k, presence.to_bits()];
    words.extend([0.1f32.to_bits(), 0.99f32.to_bits(), 7, 8, 1, 1, typical.to_bits(), 1]);
    // Min-p, repetition, a mask, log-probabilities.
    words.extend([0.01f32.to_bits(), 1.1f32.to_bits(), 1, 4]);
    words.extend([3, 0, 0, 0, 0, 0, 0, 0]);
    words
}

#[test]
fn sampling_is_clean() {
    let (sequences, vocab) = (4, 2500);
    let (limits, catalogue) = (widest_limits(32), catalogue::embedded());
    let values = (sequences * vocab) as usize;
    let logits: Vec<f32> = (0..values).map(|i| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 3e6).collect();
    let how = [
        settings(1.0, 0.9, u32::MAX, 0.2, 0.8),
        settings(0.0, 1.0, u32::MAX, 0.0, 1.0),
        settings(0.7, 1.0, 40, 0.0, 1.0),
        settings(1.3, 1.0, u32::MAX, 0.0, 0.5),
    ];
    let slices = sequences as usize * sampling::slices(vocab) as usize * sampling::SLICE_BYTES as usize;
    let mut memory = Memory::new([
        ("params", words(&[vocab, sequences, sequences, 0])),
        ("logits", floats(&logits)),
        ("settings", words(&how.concat())),
        ("progress", words(&[5, 3, 9, 0].repeat(sequences as usize))),
        ("entries", words(&[3, 0, 1, 0, 2501, 0, 1, 0, 7, 0, 0, 0.5f32.to_bits(), 9999, 0, 1, 0])),
        ("adjustments", words(&vec![0; 3 * values])),
        ("masks", words(&vec![0xffff_fff7; sequences as usize * vocab.div_ceil(32) as usize])),
        ("logprobs", Buffer::unwritten(sequences as usize * sampling::MOST_LISTED * 8)),
        ("scores", Buffer::unwritten(4 * values)),
        ("slices", Buffer::unwritten(slices)),
        ("bests", Buffer::unwritten(sequences as usize * sampling::BEST_BYTES as usize)),
        ("histogram", Buffer::of(vec![0; sequences as usize * sampling::HISTOGRAM_BYTES as usize])),
        ("grid_barrier", words(&[0; 4])),
        ("tokens", Buffer::unwritten(16)),
        ("segments", words(&[0; 16])),
    ]);
    memory.run(&sampling::adjust(4, &limits, &catalogue).unwrap());
    memory.run(&sampling::scores(sequences, vocab, &limits, &catalogue).unwrap());
    memory.run(&sampling::histogram(sequences, vocab, &limits, &catalogue).unwrap());
    memory.run(&sampling::sample(sequences, &limits, &catalogue).unwrap());
    memory.run(&sampling::logprobs(sequences, &limits, &catalogue).unwrap());
    assert!(memory.0["tokens"].is_written(0..16));
    assert!(memory.0["logprobs"].is_written(0..32));
}

#[test]
fn repacking_is_clean() {
    let (limits, catalogue, rows, cols) = (widest_limits(32), catalogue::embedded(), 9usize, 512usize);
    for format in Format::all().filter(|format| format.is_repacked()) {
        let in_file = format.as_in_file();
        let weights: Vec<f32> = (0..rows * cols).map(|i| (i as f32 * 0.37).sin()).collect();
        let mut raw = vec![0; in_file.bytes(rows, cols).unwrap()];
        blocks::encode(in_file, &weights, &mut raw);
        let bytes = raw.len() as u32;
        let chunk = repack::Chunk { to: format, bytes, first: 0, cols: cols as u32, rows: rows as u32 };
        let kernel = repack::kernel(format, &limits, &catalogue).unwrap();
        let mut want = vec![0; format.bytes(rows, cols).unwrap()];
        let goal = match format.is_k_major() {
            true => {
                blocks::to_k_major(in_file, cols, &raw, &mut want);
                "k_major"
            }
            false => {
                blocks::interleave(in_file, &raw, &mut want);
                "interleaved"
            }
        };
        raw.resize(raw.len().next_multiple_of(16), 0xff);
        let room = want.len().next_multiple_of(16);
        let mut memory = Memory::new([
            ("params", words(&chunk.params())),
            ("raw", Buffer::of(raw)),
            (goal, Buffer::unwritten(room)),
        ]);
        memory.run(&Kernel { workgroups: chunk.workgroups(), ..kernel });
        assert!(memory.bytes(goal)[..want.len()] == want, "{format}");
    }
}

#[test]
fn the_check_of_matrix_units_is_clean_and_its_sums_are_exact() {
    let (limits, catalogue) = (widest_limits(32), catalogue::embedded());
    for feature in matrix_check::CHECKED {
        let kernel = matrix_check::kernel(feature, &limits, &catalogue).unwrap().unwrap();
        let numbers = matrix_check::numbers(feature).unwrap();
        let mut memory = Memory::new([
            ("x", words(&numbers.x)),
            ("w", words(&numbers.w)),
            ("y", floats(&numbers.y)),
            ("partials", Buffer::unwritten(4 * kernel.partials as usize)),
            ("arrivals", words(&[0; matrix_check::TILES])),
        ]);
        memory.run(&kernel);
        assert!(memory.bytes("y") == floats(&numbers.want).bytes(), "{feature}");
    }
}
