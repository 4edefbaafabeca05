//! Synthetic files: what is written is what was drawn, and a failure leaves nothing behind.

use crate::synth::options;
use std::ops::ControlFlow;
use std::path::Path;
use wgoose_graph::{Format, LayerWeight, LoraRanks, ModelShape, Weight, WeightClass};
use wgoose_loader::blocks::encode;
use wgoose_loader::synth::{self, Mix, SynthError, SynthOptions};
use wgoose_loader::writer::WriteError;
use wgoose_loader::{Container, Model};

fn write(options: &SynthOptions, path: &Path) -> Result<synth::SynthReport, SynthError> {
    synth::write(options, path, &mut synth::unwatched)
}

/// A model of a page or two, with rows of whole 256-blocks, pieces that end inside tensors and an odd vocabulary.
fn small(layers: u32) -> ModelShape {
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 40 };
    ModelShape {
        layers,
        width: 256,
        ffn: 768,
        head_size: 64,
        vocab: 1101,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    }
}

#[test]
fn every_file_holds_the_drawn_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    for container in [Container::Gguf, Container::Safetensors] {
        for mix in Mix::ALL.into_iter().filter(|mix| container == Container::Gguf || !mix.is_quantised()) {
            for layers in [1, 3] {
                let options = SynthOptions { shape: small(layers), container, ..options(mix) };
                let report = write(&options, &path).unwrap();
                let model = Model::open(&path).unwrap();
                assert_eq!((model.container(), *model.shape()), (container, expected_shape(&options)), "{mix}");
                assert_eq!(report.bytes, std::fs::metadata(&path).unwrap().len());
                for weight in Weight::all(&options.shape) {
                    check(&options, &model, weight);
                }
            }
        }
    }
}

/// One layer has no value residual; only GGUF states its rank then.
fn expected_shape(options: &SynthOptions) -> ModelShape {
    let mut shape = options.shape;
    if shape.layers == 1 && options.container == Container::Safetensors {
        shape.ranks.value = shape.ranks.iclr;
    }
    shape
}

fn check(options: &SynthOptions, model: &Model, weight: Weight) {
    let view = model.tensor(weight);
    let format = match options.container {
        Container::Gguf => options.mix.in_gguf(weight),
        _ => options.mix.matrix(),
    };
    assert_eq!(view.format(), format, "{weight} of {}", options.mix);
    let [rows, _] = weight.shape(&options.shape);
    let drawn = synth::weight(options, weight, 0..rows);
    let mut expected = vec![0; view.byte_len()];
    encode(format, &drawn, &mut expected);
    let mut found = vec![0; view.byte_len()];
    view.copy_rows(0..view.rows(), &mut found);
    assert!(found == expected, "{weight} of {} differs", options.mix);
    if weight.class() == WeightClass::Vector && options.container == Container::Gguf {
        assert_eq!(view.to_f32(), drawn);
    }
}

#[test]
fn bytes_depend_on_the_options_and_not_on_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let bytes = |options: &SynthOptions, threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| write(options, &path)).unwrap();
        std::fs::read(&path).unwrap()
    };
    let one = SynthOptions { shape: small(2), ..options(Mix::Q4_K_M) };
    let two = SynthOptions { seed: 2, ..one.clone() };
    let (reference, other) = (bytes(&one, 1), bytes(&two, 1));
    assert!(bytes(&one, 3) == reference);
    assert_eq!(reference.len(), other.len());
    let equal = reference.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!(equal < reference.len() / 10, "{equal} of {} bytes do not depend on the seed", reference.len());
}

#[test]
fn rows_can_be_drawn_on_their_own() {
    let options = SynthOptions { hot: true, ..options(Mix::F32) };
    let weight = Weight::Layer(1, LayerWeight::FfnValue);
    let all = synth::weight(&options, weight, 0..128);
    assert_eq!(synth::weight(&options, weight, 5..7), all[5 * 512..7 * 512]);
}

#[test]
fn the_vocabulary_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let tokens: Vec<Vec<u8>> = (0..300_u32).map(|id| (0..id % 7).map(|i| (id * 31 + i * 47) as u8).collect()).collect();
    let mut options = SynthOptions { vocabulary: Some(tokens.clone()), ..options(Mix::F16) };
    write(&options, &path).unwrap();
    let read = Model::open(&path).unwrap().vocabulary().unwrap();
    assert_eq!(read[1..300], tokens[1..]);
    assert!(read[0].is_empty() && read[300..].iter().all(Vec::is_empty) && read.len() == 320);

    options.vocabulary = None;
    write(&options, &path).unwrap();
    let read = Model::open(&path).unwrap().vocabulary().unwrap();
    assert!((0..=255).all(|byte| read[1 + usize::from(byte)] == [byte]));
}

#[test]
fn progress_runs_from_the_header_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = Vec::new();
    let mut progress = |done, total| {
        calls.push((done, total));
        ControlFlow::Continue(())
    };
    let report = synth::write(&options(Mix::F16), &folder.path().join("model.gguf"), &mut progress).unwrap();
    assert!(calls.is_sorted() && calls.iter().all(|(_, total)| *total == report.bytes), "{calls:?}");
    assert_eq!(calls.last(), Some(&(report.bytes, report.bytes)));
}

#[test]
fn impossible_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let refused = |options: SynthOptions| write(&options, &path).unwrap_err();

    let row_length = refused(options(Mix::Q4_K_M));
    assert!(matches!(row_length, SynthError::Write(WriteError::RowLength { cols: 128, format: Format::Q4_K, .. })));
    assert!(row_length.to_string().contains("'token_embd.weight'"), "{row_length}");
    let safetensors = SynthOptions { container: Container::Safetensors, ..options(Mix::Q8_0) };
    assert!(matches!(refused(safetensors), SynthError::Write(WriteError::FloatsOnly(Mix::Q8_0))));
    let pth = SynthOptions { container: Container::Pth, ..options(Mix::F16) };
    assert!(matches!(refused(pth), SynthError::Write(WriteError::Container(Container::Pth))));
    let hot = SynthOptions { hot: true, ..options(Mix::Q8_0) };
    assert!(matches!(refused(hot), SynthError::HotQuantised(Mix::Q8_0)));
    let crowded = SynthOptions { vocabulary: Some(vec![vec![b'x']; 321]), ..options(Mix::F16) };
    assert!(matches!(refused(crowded), SynthError::Write(WriteError::Vocabulary { tokens: 321, rows: 320 })));
    let mut headless = options(Mix::F16);
    headless.shape.width = 100;
    assert!(matches!(refused(headless), SynthError::Write(WriteError::Shape(_))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no/such/folder/model.gguf");
    let error = write(&options(Mix::F16), &missing).unwrap_err();
    assert!(error.to_string().contains("no/such/folder/model.gguf"), "{error}");

    // A folder stands where the file should go: everything is written, the last step fails.
    let taken = folder.path().join("model.gguf");
    std::fs::create_dir(&taken).unwrap();
    assert!(matches!(write(&options(Mix::F16), &taken), Err(SynthError::Write(WriteError::Io { .. }))));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}
