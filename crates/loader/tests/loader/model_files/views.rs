//! Properties of a model and its views besides the numbers.

use crate::model_files::support::gguf::{Gguf, Value};
use crate::model_files::support::pth::{self, Style};
use crate::model_files::support::{TINY, checkpoint, named, numbers, open};
use std::collections::HashSet;
use wgoose_graph::{Format, LayerWeight, ModelShape, Weight};
use wgoose_loader::Model;

#[test]
fn rows_agree_with_the_whole() {
    for file in [Gguf::of(&TINY).write(), pth::write(&checkpoint(&TINY, Format::BF16, true), Style::Plain)] {
        let model = open(&file).unwrap();
        for weight in Weight::all(&TINY) {
            let view = model.tensor(weight);
            let mut whole = vec![0; view.byte_len()];
            view.copy_rows(0..view.rows(), &mut whole);
            assert!(view.contiguous().is_none_or(|bytes| bytes == whole));
            let mut one = vec![0; view.row_bytes()];
            let mut row = vec![0.0; view.cols()];
            for i in 0..view.rows() {
                view.copy_rows(i..i + 1, &mut one);
                assert_eq!(one, whole[i * one.len()..][..one.len()], "{weight} row {i}");
                view.row_f32(i, &mut row);
                assert_eq!(row, numbers(&TINY, weight)[i * row.len()..][..row.len()], "{weight} row {i}");
            }
        }
    }
}

#[test]
fn quantised_matrices_keep_their_bytes() {
    let shape = ModelShape { width: 256, ffn: 512, ..TINY };
    let mut file = Gguf::of(&shape);
    for (name, format) in [
        ("token_embd.weight", Format::Q8_0),
        ("output.weight", Format::Q6_K),
        ("blk.0.time_mix_key.weight", Format::Q4_K),
        ("blk.1.time_mix_key.weight", Format::Q5_K),
        ("blk.2.time_mix_key.weight", Format::Q4_0),
        ("blk.2.time_mix_value.weight", Format::BF16),
    ] {
        let tensor = named(&mut file.tensors, name);
        let len = format.bytes(tensor.dims[0], tensor.dims[1]).unwrap();
        tensor.format = format;
        tensor.bytes = (0..len).map(|i| (i * 7) as u8).collect();
    }
    let model = open(&file.write()).unwrap();
    for (weight, format) in [
        (Weight::Embedding, Format::Q8_0),
        (Weight::Head, Format::Q6_K),
        (Weight::Layer(0, LayerWeight::Key), Format::Q4_K),
        (Weight::Layer(1, LayerWeight::Key), Format::Q5_K),
        (Weight::Layer(2, LayerWeight::Key), Format::Q4_0),
        (Weight::Layer(2, LayerWeight::Value), Format::BF16),
    ] {
        let view = model.tensor(weight);
        assert_eq!(view.format(), format);
        let bytes = view.contiguous().unwrap();
        assert_eq!(bytes.len(), view.byte_len());
        assert!(bytes.iter().enumerate().all(|(i, &b)| b == (i * 7) as u8), "{weight}");
    }
}

#[test]
fn offsets_follow_the_file() {
    let file = Gguf::of(&TINY);
    let model = open(&file.write()).unwrap();
    let data = file.header(&file.offsets()).len().next_multiple_of(32);
    let first = Weight::all(&TINY).next().unwrap();
    assert_eq!(model.tensor(first).file_offset(), data);
    let offsets: Vec<_> = Weight::all(&TINY).map(|w| model.tensor(w).file_offset()).collect();
    assert!(offsets.is_sorted());
}

#[test]
fn the_vocabulary_is_unescaped() {
    let vocabulary = open(&Gguf::of(&TINY).write()).unwrap().vocabulary().unwrap();
    let expected: [&[u8]; 10] = [b"", b"\0", b"a", b"\n", b"\xe4\xbd", b"it's", b" the", b"", b"", b""];
    assert_eq!(vocabulary, expected);
}

#[test]
fn fingerprints_tell_contents_apart() {
    let mut file = Gguf::of(&TINY);
    let bytes = file.write();
    let model = open(&bytes).unwrap();
    assert_eq!(model.file_len(), bytes.len());
    assert_eq!(model.fingerprint(), open(&bytes).unwrap().fingerprint(), "the file's name does not count");
    assert_eq!(model.fingerprint().to_string().len(), 32);

    let mut seen = HashSet::from([model.fingerprint()]);
    file.set("general.name", Value::Text("another".into()));
    assert!(seen.insert(open(&file.write()).unwrap().fingerprint()), "a key");
    for weight in [Weight::Embedding, Weight::Layer(1, LayerWeight::LnXBias), Weight::Head] {
        for end in [false, true] {
            let mut bytes = bytes.clone();
            let view = model.tensor(weight);
            bytes[view.file_offset() + if end { view.byte_len() - 1 } else { 0 }] ^= 1;
            assert!(seen.insert(open(&bytes).unwrap().fingerprint()), "a number of {weight}");
        }
    }
}

#[test]
fn hints_change_nothing() {
    let model = open(&Gguf::of(&TINY).write()).unwrap();
    for weight in Weight::all(&TINY) {
        model.will_need(weight);
        let before = model.tensor(weight).to_f32();
        model.release(weight);
        assert_eq!(model.tensor(weight).to_f32(), before);
    }
}

#[test]
#[should_panic(expected = "blocks.0.att.v1 is no weight of a model")]
fn the_first_layer_has_no_value_residual() {
    open(&Gguf::of(&TINY).write()).unwrap().tensor(Weight::Layer(0, LayerWeight::ValueDown));
}

#[test]
fn models_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Model>();
}
