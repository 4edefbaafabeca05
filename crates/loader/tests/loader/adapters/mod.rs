//! Adapters that are merged into models: what becomes of the weights, and what is refused.

mod refusals;

use crate::model_files::support::gguf::Gguf;
use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::{TINY, Tensor, checkpoint, numbers, safetensors, transpose};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight};
use wgoose_loader::adapter::{AdapterSource, MergedAdapter, merge};
use wgoose_loader::synth::{self, Mix, SynthOptions};
use wgoose_loader::{Container, LoadError, Model};

const RANK: usize = 3;

/// A matrix of layer 1 that is no square.
const KEY: Weight = Weight::Layer(1, LayerWeight::FfnKey);
const ROWS: usize = 96;
const COLS: usize = 64;

/// Small whole numbers: sums of their products are exact in f32.
fn small(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed * 5) % 11) as f32 - 5.0).collect()
}

fn tensor(name: &str, dims: &[usize], seed: usize) -> Tensor {
    Tensor::new(name, Format::F32, dims, &small(dims.iter().product(), seed))
}

fn lora() -> Vec<Tensor> {
    vec![tensor("blocks.1.ffn.key.lora_A", &[RANK, COLS], 1), tensor("blocks.1.ffn.key.lora_B", &[ROWS, RANK], 2)]
}

/// `B A` of [`tensor`]s with these seeds.
fn product(a: usize, b: usize) -> Vec<f32> {
    let (a, b) = (small(RANK * COLS, a), small(ROWS * RANK, b));
    let cell = |row: usize, col: usize| (0..RANK).map(|k| b[row * RANK + k] * a[k * COLS + col]).sum();
    (0..ROWS).flat_map(|row| (0..COLS).map(move |col| (row, col))).map(|(row, col)| cell(row, col)).collect()
}

fn file(folder: &TempDir, name: &str, tensors: &[Tensor]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, pth::write(tensors, Style::Plain)).unwrap();
    path
}

fn source(path: &Path, scale: Option<f32>) -> AdapterSource {
    AdapterSource { path: path.to_owned(), scale, initial: None }
}

/// The tiny model in F32, its numbers all whole.
fn tiny(folder: &TempDir) -> Model {
    let path = folder.path().join("model.pth");
    if !path.exists() {
        std::fs::write(&path, pth::write(&checkpoint(&TINY, Format::F32, true), Style::Plain)).unwrap();
    }
    Model::open(path).unwrap()
}

/// Merges an adapter of these tensors into the tiny model.
fn merged(folder: &TempDir, tensors: &[Tensor], scale: Option<f32>) -> Result<(Model, MergedAdapter), LoadError> {
    let mut model = tiny(folder);
    let report = merge(&mut model, &source(&file(folder, "adapter.pth", tensors), scale))?;
    Ok((model, report))
}

/// The model has these numbers in one weight, and all others as they were.
fn assert_changed(model: &Model, shape: &ModelShape, changed: Weight, wanted: &[f32]) {
    for weight in Weight::all(shape) {
        let found = model.tensor(weight).to_f32();
        if weight == changed {
            assert_eq!(found, wanted, "{weight}");
        } else {
            assert_eq!(found, numbers(shape, weight), "{weight}");
        }
    }
}

fn sum(weight: Weight, scale: f32, added: &[f32]) -> Vec<f32> {
    numbers(&TINY, weight).iter().zip(added).map(|(w, x)| w + scale * x).collect()
}

#[test]
fn a_lora_changes_its_matrix_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (model, report) = merged(&folder, &lora(), Some(0.5)).unwrap();
    assert_changed(&model, &TINY, KEY, &sum(KEY, 0.5, &product(1, 2)));
    assert_eq!(model.tensor(KEY).format(), Format::F32);
    assert_eq!(report.to_string(), "LoRA of rank 3, scale 0.5, merged into 1 matrix");
    // Wrapped, in halves of 16 bits, as safetensors: the same.
    let wrapped = lora().into_iter().map(|t| {
        let name = format!("base_model.model.{}.weight", t.name);
        let dims = t.dims.clone();
        Tensor::new(name, Format::BF16, &dims, &small(dims.iter().product(), if t.name.ends_with('A') { 1 } else { 2 }))
    });
    let path = folder.path().join("wrapped.safetensors");
    std::fs::write(&path, safetensors::write(&wrapped.collect::<Vec<_>>())).unwrap();
    let mut again = tiny(&folder);
    merge(&mut again, &source(&path, Some(0.5))).unwrap();
    assert_eq!(again.tensor(KEY).to_f32(), model.tensor(KEY).to_f32());
}

#[test]
fn models_of_all_containers_are_merged_in_their_own_float_format() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = file(&folder, "adapter.pth", &lora());
    let models = [
        (Gguf::of(&TINY).write(), Container::Gguf),
        (safetensors::write(&checkpoint(&TINY, Format::BF16, false)), Container::Safetensors),
        (pth::write(&checkpoint(&TINY, Format::F16, true), Style::Plain), Container::Pth),
    ];
    for (bytes, container) in models {
        let path = folder.path().join("model");
        std::fs::write(&path, bytes).unwrap();
        let mut model = Model::open(&path).unwrap();
        assert_eq!(model.container(), container);
        let format = model.tensor(KEY).format();
        merge(&mut model, &source(&adapter, Some(0.125))).unwrap();
        assert_eq!(model.tensor(KEY).format(), format);
        let rounded = |x: f32| match format {
            Format::F16 => half::f16::from_f32(x).to_f32(),
            Format::BF16 => half::bf16::from_f32(x).to_f32(),
            _ => x,
        };
        let wanted: Vec<f32> = sum(KEY, 0.125, &product(1, 2)).into_iter().map(rounded).collect();
        assert_changed(&model, &TINY, KEY, &wanted);
    }
}

#[test]
fn a_quantised_matrix_is_kept_in_f16() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (container, vocabulary) = (Container::Gguf, None);
    let shape = ModelShape { vocab: 260, ..TINY };
    let options = SynthOptions { shape, seed: 1, container, mix: Mix::Q8_0, hot: false, ffn_zeros: None, vocabulary };
    synth::write(&options, &path, &mut synth::unwatched).unwrap();
    let base = Model::open(&path).unwrap();
    let mut model = base.clone();
    let tensors = [lora(), vec![tensor("blocks.0.ln1.weight", &[64], 3)]].concat();
    let report = merge(&mut model, &source(&file(&folder, "adapter.pth", &tensors), Some(0.25))).unwrap();
    assert_eq!((base.tensor(KEY).format(), model.tensor(KEY).format()), (Format::Q8_0, Format::F16));
    let before = base.tensor(KEY).to_f32();
    let wanted = before.iter().zip(product(1, 2)).map(|(w, x)| half::f16::from_f32(w + 0.25 * x).to_f32());
    assert_eq!(model.tensor(KEY).to_f32(), wanted.collect::<Vec<_>>());
    assert_eq!((report.widened, report.replaced), (1, 1));
    assert_eq!(
        report.to_string(),
        "LoRA of rank 3, scale 0.25, merged into 1 matrix (1 of them kept in F16 instead of quantised), \
        1 tensor replaced"
    );
    let other = Weight::Layer(0, LayerWeight::FfnKey);
    assert_eq!(model.tensor(other).format(), Format::Q8_0);
}

#[test]
fn a_pissa_is_merged_with_its_initial_halves() {
    let folder = tempfile::tempdir().unwrap();
    let adapter = file(&folder, "adapter.pth", &lora());
    let initial = [
        tensor("model.blocks.1.ffn.key.init_lora_A", &[RANK, COLS], 3),
        tensor("model.blocks.1.ffn.key.init_lora_B", &[ROWS, RANK], 4),
    ];
    let initial = file(&folder, "init_pissa.pth", &initial);
    let mut model = tiny(&folder);
    let pissa = AdapterSource { initial: Some(initial), ..source(&adapter, None) };
    let report = merge(&mut model, &pissa).unwrap();
    let added: Vec<f32> = product(1, 2).iter().zip(product(3, 4)).map(|(x, initial)| x - initial).collect();
    assert_changed(&model, &TINY, KEY, &sum(KEY, 1.0, &added));
    assert_eq!(report.to_string(), "PiSSA of rank 3, scale 1, merged into 1 matrix");
}

#[test]
fn a_block_is_added_to_every_stretch_under_each_of_its_names() {
    let folder = tempfile::tempdir().unwrap();
    // 64 columns are no multiple of the rank.
    let block = small(5 * ROWS, 1);
    let added: Vec<f32> = (0..ROWS * COLS).map(|i| block[i % COLS % 5 * ROWS + i / COLS]).collect();
    for name in ["miss", "disha", "bone", "miss_block", "bone_block"] {
        let (model, report) =
            merged(&folder, &[tensor(&format!("blocks.1.ffn.key.{name}"), &[5, ROWS], 1)], None).unwrap();
        assert_changed(&model, &TINY, KEY, &sum(KEY, 1.0, &added));
        assert_eq!(report.to_string(), "MiSS of rank 5, scale 1, merged into 1 matrix");
    }
}

#[test]
fn blocks_are_multiplied_by_columns_or_by_rows() {
    let folder = tempfile::tempdir().unwrap();
    let size = 16;
    let before = numbers(&TINY, KEY);
    for (name, count, by_rows) in [("disha", COLS / size, false), ("miss_block", ROWS / size, true)] {
        let blocks = small(count * size * size, 1);
        let added = |i: usize| {
            let (row, col) = (i / COLS, i % COLS);
            let number = if by_rows { row / size } else { col / size };
            let d = |k: usize| blocks[(number * size + k) * size + col % size];
            (0..size).map(|k| before[row * COLS + col / size * size + k] * d(k)).sum::<f32>() + d(row % size)
        };
        let added: Vec<f32> = (0..ROWS * COLS).map(added).collect();
        let tensors = [tensor(&format!("blocks.1.ffn.key.{name}"), &[count, size, size], 1)];
        let (model, report) = merged(&folder, &tensors, None).unwrap();
        assert_changed(&model, &TINY, KEY, &sum(KEY, 1.0, &added));
        assert_eq!(report.to_string(), "Bat of rank 16, scale 1, merged into 1 matrix");
    }
}

#[test]
fn whole_weights_of_an_adapter_replace_those_of_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let whole = [
        tensor("blocks.0.ln1.weight", &[64], 1),
        tensor("blocks.0.att.x_k", &[1, 1, 64], 2),
        tensor("blocks.0.att.w1", &[64, 5], 3),
        tensor("blocks.0.att.r_k", &[2, 32], 4),
        tensor("head.weight", &[10, 64], 5),
        // Layer 0 has none, whatever checkpoints hold.
        tensor("blocks.0.att.v1", &[64, 7], 6),
    ];
    let (model, report) = merged(&folder, &[lora(), whole.to_vec()].concat(), Some(1.0)).unwrap();
    assert_eq!(report.replaced, 5);
    let mut mixes = numbers(&TINY, Weight::Layer(0, LayerWeight::AttMix));
    mixes[2 * 64..3 * 64].copy_from_slice(&small(64, 2));
    for (weight, wanted) in [
        (Weight::Layer(0, LayerWeight::Ln1Scale), small(64, 1)),
        (Weight::Layer(0, LayerWeight::AttMix), mixes),
        (Weight::Layer(0, LayerWeight::DecayDown), transpose(&small(64 * 5, 3), 5)),
        (Weight::Layer(0, LayerWeight::Bonus), small(64, 4)),
        (Weight::Head, small(640, 5)),
        (KEY, sum(KEY, 1.0, &product(1, 2))),
        (Weight::Layer(1, LayerWeight::AttMix), numbers(&TINY, Weight::Layer(1, LayerWeight::AttMix))),
    ] {
        assert_eq!(model.tensor(weight).to_f32(), wanted, "{weight}");
    }
}

#[test]
fn a_folder_of_peft_says_alpha() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved");
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("adapter_model.safetensors"), safetensors::write(&lora())).unwrap();
    std::fs::write(path.join("adapter_config.json"), r#"{"peft_type": "LORA", "lora_alpha": 6, "r": 3}"#).unwrap();
    for (given, path) in [(None, path.clone()), (None, path.join("adapter_model.safetensors")), (Some(5.0), path)] {
        let mut model = tiny(&folder);
        let report = merge(&mut model, &source(&path, given)).unwrap();
        let scale = given.unwrap_or(2.0);
        assert_eq!(report.scale, scale);
        assert_changed(&model, &TINY, KEY, &sum(KEY, scale, &product(1, 2)));
    }
}

#[test]
fn a_merged_model_has_its_own_fingerprint() {
    let folder = tempfile::tempdir().unwrap();
    let base = tiny(&folder).fingerprint();
    let of = |tensors: &[Tensor], scale| merged(&folder, tensors, Some(scale)).unwrap().0.fingerprint();
    let first = of(&lora(), 1.0);
    assert_eq!(first, of(&lora(), 1.0));
    let mut other = lora();
    // It changes one number that no sample of the matrix has.
    let last = other[0].bytes.len() - 4 * 20;
    other[0].bytes[last] ^= 1;
    let fingerprints = [base, first, of(&lora(), 0.0), of(&lora(), 2.0), of(&other, 1.0)];
    let distinct: std::collections::BTreeSet<_> = fingerprints.into_iter().collect();
    assert_eq!(distinct.len(), fingerprints.len());
    let mut twice = merged(&folder, &lora(), Some(1.0)).unwrap().0;
    merge(&mut twice, &source(&folder.path().join("adapter.pth"), Some(1.0))).unwrap();
    assert_changed(&twice, &TINY, KEY, &sum(KEY, 2.0, &product(1, 2)));
    assert!(!distinct.contains(&twice.fingerprint()));
}
