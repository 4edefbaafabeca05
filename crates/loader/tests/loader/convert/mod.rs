//! Conversions: what comes out is what went in, rounded once; what cannot be written leaves nothing behind.

mod metadata;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use wgoose_graph::{Format, LayerWeight, LoraRanks, ModelShape, Weight};
use wgoose_loader::convert::{ConvertError, ConvertOptions, Converted, MOST_ROUNDING, convert, kept_mix};
use wgoose_loader::synth::{self, SynthOptions};
use wgoose_loader::writer::{Mix, WriteError, unwatched};
use wgoose_loader::{Container, LoadError, Model, ReadAt, TensorFile, blocks};

/// Two layers with rows of whole 256-blocks, four different ranks, a vocabulary with a gap.
fn options(container: Container, mix: Mix) -> SynthOptions {
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 40 };
    let shape = ModelShape {
        layers: 2,
        width: 256,
        ffn: 768,
        head_size: 64,
        vocab: 1101,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let vocabulary = (0..1000_u32).map(|id| if id == 700 { vec![] } else { id.to_le_bytes()[..2].to_vec() }).collect();
    SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: Some(vocabulary) }
}

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn synth(&self, name: &str, options: &SynthOptions) -> Model {
        synth::write(options, &self.path(name), &mut unwatched).unwrap();
        Model::open(self.path(name)).unwrap()
    }

    fn convert(&self, model: &Model, name: &str, container: Container, mix: Mix) -> Result<Converted, ConvertError> {
        convert(model, &to(container, mix), &self.path(name), &mut unwatched)
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.0.path()).unwrap().count()
    }
}

fn to(container: Container, mix: Mix) -> ConvertOptions {
    ConvertOptions {
        container,
        mix,
        chosen: None,
        name: "a goose".into(),
        vocabulary: None,
        set: vec![],
        replace: false,
        check: true,
        most_rounding: MOST_ROUNDING,
    }
}

fn bytes(model: &Model, weight: Weight) -> Vec<u8> {
    let view = model.tensor(weight);
    let mut bytes = vec![0; view.byte_len()];
    view.copy_rows(0..view.rows(), &mut bytes);
    bytes
}

#[test]
fn a_round_trip_through_gguf_gives_an_equal_file() {
    for mix in [Mix::F32, Mix::F16, Mix::BF16] {
        let place = Place::new();
        let source = place.synth("source.st", &options(Container::Safetensors, mix));
        assert_eq!(kept_mix(&source), mix);
        let there = place.convert(&source, "there.gguf", Container::Gguf, mix).unwrap();
        let found = (there.rounding.error, there.checked.unwrap());
        assert_eq!(found, (0.0, Weight::all(source.shape()).count()), "{mix}");
        let there = Model::open(place.path("there.gguf")).unwrap();
        assert_eq!((kept_mix(&there), there.shape()), (mix, source.shape()));
        place.convert(&there, "back.st", Container::Safetensors, mix).unwrap();
        let read = |name| std::fs::read(place.path(name)).unwrap();
        assert!(read("back.st") == read("source.st"), "{mix}");
    }
}

#[test]
fn every_mix_is_encoded_once() {
    let place = Place::new();
    let source = place.synth("source.gguf", &options(Container::Gguf, Mix::F32));
    for mix in Mix::ALL {
        let name = format!("{mix}.gguf");
        place.convert(&source, &name, Container::Gguf, mix).unwrap();
        let copy = Model::open(place.path(&name)).unwrap();
        assert_eq!(copy.vocabulary(), source.vocabulary());
        for weight in Weight::all(source.shape()) {
            let view = copy.tensor(weight);
            assert_eq!(view.format(), mix.in_gguf(weight), "{weight} of {mix}");
            let mut wanted = vec![0; view.byte_len()];
            blocks::encode(view.format(), &source.tensor(weight).to_f32(), &mut wanted);
            assert!(bytes(&copy, weight) == wanted, "{weight} of {mix}");
        }
        // Again in the same mix: not quantised twice.
        place.convert(&copy, &format!("again-{name}"), Container::Gguf, mix).unwrap();
        let again = Model::open(place.path(&format!("again-{name}"))).unwrap();
        assert!(Weight::all(source.shape()).all(|weight| bytes(&again, weight) == bytes(&copy, weight)), "{mix}");
    }
}

#[test]
fn a_checkpoint_of_pytorch_becomes_gguf() {
    let place = Place::new();
    let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../oracle/goldens/tiny.pth");
    let source = Model::open(tiny).unwrap();
    place.convert(&source, "tiny.gguf", Container::Gguf, kept_mix(&source)).unwrap();
    let copy = Model::open(place.path("tiny.gguf")).unwrap();
    for weight in Weight::all(source.shape()) {
        assert_eq!(copy.tensor(weight).to_f32(), source.tensor(weight).to_f32(), "{weight}");
    }
}

#[test]
fn layer_0_gets_the_value_residual_that_llama_cpp_demands() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    place.convert(&source, "copy.gguf", Container::Gguf, Mix::Q8_0).unwrap();
    let copy = TensorFile::open(place.path("copy.gguf")).unwrap();
    for part in 0..3 {
        let read = |adapter| copy.read(&format!("blk.0.time_mix_{adapter}{part}.weight")).unwrap();
        assert_eq!(read('v'), read('a'), "{part}");
    }
    let [down, up] = [LayerWeight::IclrDown, LayerWeight::IclrUp].map(|w| source.tensor(Weight::Layer(0, w)).to_f32());
    assert_eq!(copy.read("blk.0.time_mix_v1.weight").unwrap(), (vec![24, 256], down));
    assert_eq!(copy.read("blk.0.time_mix_v2.weight").unwrap(), (vec![256, 24], up));
}

#[test]
fn a_file_that_is_there_stays_unless_it_is_to_be_replaced() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    std::fs::write(place.path("copy.gguf"), b"precious").unwrap();
    let refused = place.convert(&source, "copy.gguf", Container::Gguf, Mix::F16).unwrap_err();
    assert!(matches!(refused, ConvertError::Write(WriteError::Exists { .. })), "{refused}");
    assert_eq!(std::fs::read(place.path("copy.gguf")).unwrap(), b"precious");
    let replacing = ConvertOptions { replace: true, ..to(Container::Gguf, Mix::F16) };
    convert(&source, &replacing, &place.path("copy.gguf"), &mut unwatched).unwrap();
    assert_eq!(Model::open(place.path("copy.gguf")).unwrap().shape(), source.shape());
    // Over its own source, which stays open.
    convert(&source, &replacing, source.path(), &mut unwatched).unwrap();
    assert_eq!(Model::open(source.path()).unwrap().container(), Container::Gguf);
    assert_eq!(place.files(), 2);
}

#[test]
fn an_impossible_conversion_leaves_no_file() {
    let place = Place::new();
    let mut narrow = options(Container::Safetensors, Mix::F32);
    narrow.shape.width = 64; // rows that are no whole blocks of 256
    let source = place.synth("source.st", &narrow);
    let file = std::fs::read(source.path()).unwrap();
    let at = source.tensor(Weight::Layer(1, LayerWeight::FfnKey)).file_range().unwrap().start;
    std::fs::write(place.path("far.st"), [&file[..at], &7e4_f32.to_le_bytes(), &file[at + 4..]].concat()).unwrap();
    let far = Model::open(place.path("far.st")).unwrap();

    let refused = |model: &Model, container, mix| place.convert(model, "copy", container, mix).unwrap_err();
    for mix in [Mix::F16, Mix::Q4_0] {
        let range = refused(&far, Container::Gguf, mix);
        assert!(range.to_string().starts_with("tensor 'blk.1.channel_mix_key.weight' holds 7e4, which"), "{range}");
    }
    for (value, said) in [(f32::INFINITY, "inf"), (f32::NAN, "NaN")] {
        let path = place.path("none.st");
        std::fs::write(&path, [&file[..at], &value.to_le_bytes(), &file[at + 4..]].concat()).unwrap();
        let none = refused(&Model::open(path).unwrap(), Container::Gguf, Mix::Q8_0);
        assert!(none.to_string().contains(&format!("holds {said}, which Q8_0 cannot")), "{none}");
        std::fs::remove_file(place.path("none.st")).unwrap();
    }
    place.convert(&far, "far.gguf", Container::Gguf, Mix::BF16).unwrap();
    let row_length = refused(&source, Container::Gguf, Mix::Q4_K_M);
    let is_row_length = matches!(&row_length, ConvertError::Write(WriteError::RowLength { format: Format::Q4_K, .. }));
    assert!(is_row_length, "{row_length}");
    let floats = refused(&source, Container::Safetensors, Mix::Q8_0);
    assert!(matches!(floats, ConvertError::Write(WriteError::FloatsOnly(Mix::Q8_0))), "{floats}");
    let pth = refused(&source, Container::Pth, Mix::F16);
    assert!(matches!(pth, ConvertError::Write(WriteError::Container(Container::Pth))), "{pth}");
    let crowded = ConvertOptions { vocabulary: Some(vec![vec![b'x']; 2000]), ..to(Container::Gguf, Mix::F16) };
    let crowded = convert(&source, &crowded, &place.path("copy"), &mut unwatched).unwrap_err();
    assert!(matches!(crowded, ConvertError::Write(WriteError::Vocabulary { tokens: 2000, rows: 1101 })), "{crowded}");
    assert_eq!(place.files(), 3);
}

/// A disk that fails past a byte.
#[derive(Debug)]
struct Faulty {
    file: std::fs::File,
    good: u64,
}

impl ReadAt for Faulty {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match offset + out.len() as u64 <= self.good {
            true => ReadAt::read_exact_at(&self.file, out, offset),
            false => Err(io::Error::other("a bad sector")),
        }
    }
}

#[test]
fn a_source_that_cannot_be_read_leaves_nothing_behind() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    let good = source.file_len() as u64 / 2;
    let faulty = Faulty { file: std::fs::File::open(source.path()).unwrap(), good };
    let source = source.with_reader(Arc::new(faulty));
    let error = place.convert(&source, "copy.gguf", Container::Gguf, Mix::Q4_K_M).unwrap_err();
    assert!(matches!(error, ConvertError::Load(LoadError::Read { .. })), "{error}");
    assert_eq!(place.files(), 1);
}

#[test]
fn a_source_that_changes_meanwhile_is_noticed() {
    let place = Place::new();
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F16));
    let path = source.path().to_owned();
    let unchecked = ConvertOptions { check: false, ..to(Container::Gguf, Mix::F16) };
    let mut touch = |done: u64, total: u64| {
        if done == total {
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        }
        ControlFlow::Continue(())
    };
    let error = convert(&source, &unchecked, &place.path("copy.gguf"), &mut touch).unwrap_err();
    assert!(matches!(error, ConvertError::Load(LoadError::Rewritten { .. })), "{error}");
    assert_eq!(place.files(), 1);
}

/// Blocks of Q4_0 are as long as those of IQ4_NL, so that a file of one becomes one of the other by its types.
#[test]
fn formats_that_no_kernel_reads_are_converted() {
    let place = Place::new();
    let model = place.synth("q4_0.gguf", &options(Container::Gguf, Mix::Q4_0));
    let mut file = std::fs::read(place.path("q4_0.gguf")).unwrap();
    let weight = Weight::Layer(1, LayerWeight::FfnKey);
    let name = b"blk.1.channel_mix_key.weight";
    let at = file.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4 + 16;
    assert_eq!(file[at], 2);
    file[at] = 20;
    std::fs::write(place.path("iq4_nl.gguf"), &file).unwrap();

    let refused = Model::open(place.path("iq4_nl.gguf")).unwrap_err().to_string();
    assert!(
        refused.contains("'blk.1.channel_mix_key.weight' is stored as IQ4_NL") && refused.contains("wgoose convert")
    );
    let source = Model::open_source(place.path("iq4_nl.gguf")).unwrap();
    assert!(place.convert(&source, "f32.gguf", Container::Gguf, Mix::F32).unwrap().checked.is_some());
    let converted = Model::open(place.path("f32.gguf")).unwrap();
    let mut numbers = vec![0.0; 768 * 256];
    blocks::SourceFormat::IQ4_NL.decode(&bytes(&model, weight), &mut numbers);
    let wanted: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    assert!(bytes(&converted, weight) == wanted && numbers.iter().any(|x| *x != 0.0));
    // Those of the others are what they were.
    let other = Weight::Layer(0, LayerWeight::FfnKey);
    blocks::decode(Format::Q4_0, &bytes(&model, other), &mut numbers);
    assert!(bytes(&converted, other) == numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
}

/// A model whose matrix has every number multiplied.
fn scaled(place: &Place, weight: Weight, factor: f32) -> Model {
    let source = place.synth("source.st", &options(Container::Safetensors, Mix::F32));
    let range = source.tensor(weight).file_range().unwrap();
    let mut file = std::fs::read(place.path("source.st")).unwrap();
    for number in file[range].as_chunks_mut::<4>().0 {
        *number = (f32::from_le_bytes(*number) * factor).to_le_bytes();
    }
    std::fs::write(place.path("scaled.st"), file).unwrap();
    Model::open(place.path("scaled.st")).unwrap()
}

#[test]
fn numbers_too_small_for_a_format_are_refused_by_name() {
    let place = Place::new();
    let weight = Weight::Layer(1, LayerWeight::FfnKey);
    let source = scaled(&place, weight, 1e-6);
    for mix in [Mix::F16, Mix::Q8_0, Mix::Q4_0, Mix::Q4_K_M, Mix::Q5_K_M, Mix::Q6_K] {
        let error = place.convert(&source, "small.gguf", Container::Gguf, mix).unwrap_err();
        assert!(matches!(error, ConvertError::Rounding { weight: w, .. } if w == weight), "{mix}: {error}");
        assert!(!place.path("small.gguf").exists(), "{mix}");
    }
    for mix in [Mix::F32, Mix::BF16] {
        let path = format!("{mix}.gguf");
        assert!(place.convert(&source, &path, Container::Gguf, mix).unwrap().rounding.error < 0.01, "{mix}");
    }
    let path = place.path("allowed.gguf");
    let allowed = ConvertOptions { most_rounding: 1.0, ..to(Container::Gguf, Mix::Q8_0) };
    assert_eq!(convert(&source, &allowed, &path, &mut unwatched).unwrap().rounding.worst, weight);
}

#[test]
fn large_numbers_are_held_as_far_as_the_format_reaches() {
    let place = Place::new();
    let weight = Weight::Layer(1, LayerWeight::FfnKey);
    let source = scaled(&place, weight, 1e6);
    let rounding = place.convert(&source, "large.gguf", Container::Gguf, Mix::Q8_0).unwrap().rounding;
    assert!(rounding.error < 0.01, "{rounding:?}");
    let error = place.convert(&source, "larger.gguf", Container::Gguf, Mix::F16).unwrap_err();
    assert!(matches!(error, ConvertError::Range { format: Format::F16, .. }), "{error}");
    let source = scaled(&place, weight, 1e9);
    let error = place.convert(&source, "largest.gguf", Container::Gguf, Mix::Q8_0).unwrap_err();
    assert!(matches!(error, ConvertError::Range { format: Format::Q8_0, .. }), "{error}");
}

#[test]
fn a_break_leaves_nothing() {
    let place = Place::new();
    let source = place.synth("source.gguf", &options(Container::Gguf, Mix::F16));
    let path = place.path("copy.gguf");
    let mut shown = Vec::new();
    let whole = convert(&source, &to(Container::Gguf, Mix::Q8_0), &path, &mut |done, total| {
        shown.push((done, total));
        ControlFlow::Continue(())
    });
    let bytes = whole.unwrap().written.bytes;
    // Written, then read back.
    assert!(shown.contains(&(bytes, bytes)) && shown.len() > Weight::all(source.shape()).count(), "{shown:?}");
    std::fs::remove_file(&path).unwrap();
    for at in [0, bytes] {
        let stopped = convert(&source, &to(Container::Gguf, Mix::Q8_0), &path, &mut |done, _| match done >= at {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
        assert!(matches!(stopped, Err(ConvertError::Write(WriteError::Stopped))), "{stopped:?}");
        assert_eq!(place.files(), 1);
    }
}
