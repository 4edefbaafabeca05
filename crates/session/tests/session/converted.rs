//! A converted model says what its source says, within the rounding of its formats.

use std::path::{Path, PathBuf};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::convert::{ConvertOptions, MOST_ROUNDING, convert};
use wgoose_loader::synth::{self, SynthOptions};
use wgoose_loader::writer::{Mix, unwatched};
use wgoose_loader::{Container, Model};
use wgoose_session::{Backend, Session};

const TOKENS: [u32; 12] = [0, 72, 101, 109, 109, 112, 33, 257, 299, 5, 5, 81];

/// The logits after [`TOKENS`], on the CPU.
pub(crate) fn logits(path: &Path) -> Vec<f32> {
    Session::builder().backend(Backend::Cpu).open(path).unwrap().logits(&TOKENS).unwrap()
}

/// A GGUF file made of a model.
pub(crate) fn converted(source: &Path, mix: Mix) -> PathBuf {
    let path = source.with_extension(format!("{mix}.gguf"));
    let options = ConvertOptions {
        container: Container::Gguf,
        mix,
        chosen: None,
        name: "converted".into(),
        vocabulary: None,
        set: vec![],
        replace: false,
        check: true,
        most_rounding: MOST_ROUNDING,
    };
    convert(&Model::open(source).unwrap(), &options, &path, &mut unwatched).unwrap();
    path
}

/// Root mean square of the difference over that of what is wanted.
fn deviation(got: &[f32], want: &[f32]) -> f64 {
    let difference: f64 = got.iter().zip(want).map(|(g, w)| f64::from(g - w).powi(2)).sum();
    let size: f64 = want.iter().map(|w| f64::from(*w).powi(2)).sum();
    (difference / size).sqrt()
}

#[test]
fn a_converted_model_has_the_logits_of_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source.st");
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 };
    let shape = ModelShape {
        layers: 2,
        width: 256,
        ffn: 512,
        head_size: 64,
        vocab: 300,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let container = Container::Safetensors;
    let options =
        SynthOptions { shape, seed: 5, container, mix: Mix::F32, hot: false, ffn_zeros: None, vocabulary: None };
    synth::write(&options, &source, &mut unwatched).unwrap();
    let wanted = logits(&source);
    assert_eq!(logits(&converted(&source, Mix::F32)), wanted);
    // Random weights make the most of rounding: several times the error of one tensor.
    for (mix, least, most) in [
        (Mix::F16, 1e-5, 2e-3),
        (Mix::BF16, 1e-4, 2e-2),
        (Mix::Q8_0, 1e-3, 4e-2),
        (Mix::Q6_K, 5e-3, 1e-1),
        (Mix::Q5_K_M, 1e-2, 2e-1),
        (Mix::Q4_K_M, 2e-2, 4e-1),
        (Mix::Q4_0, 2e-2, 5e-1),
    ] {
        let off = deviation(&logits(&converted(&source, mix)), &wanted);
        assert!((least..most).contains(&off), "{mix}: off by {off:.1e}");
    }
    let short = converted(&source.with_extension("F16.gguf"), Mix::Q8_0);
    let direct = logits(&source.with_extension("Q8_0.gguf"));
    assert!(deviation(&logits(&short), &direct) < 1e-2, "through F16");
}

#[test]
fn a_checkpoint_of_pytorch_has_the_logits_of_its_gguf() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("tiny.pth");
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens/tiny.pth");
    std::fs::copy(tiny, &source).unwrap();
    let tokens = TOKENS.map(|token| token % 257);
    let logits = |path: &Path| Session::builder().backend(Backend::Cpu).open(path).unwrap().logits(&tokens).unwrap();
    assert_eq!(logits(&converted(&source, Mix::BF16)), logits(&source));
}
