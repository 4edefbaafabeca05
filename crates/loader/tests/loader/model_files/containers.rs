//! One model in all containers, orientations and formats gives the same numbers.

use crate::model_files::support::gguf::Gguf;
use crate::model_files::support::pth::{self, Style, Zip};
use crate::model_files::support::{TINY, Tensor, checkpoint, is_adapter, numbers, open, safetensors, transpose};
use wgoose_graph::{Format, LayerWeight, LoraRanks, ModelShape, Weight};
use wgoose_loader::{Container, Model};

pub(crate) fn assert_holds(model: &Model, container: Container, shape: &ModelShape) {
    assert_eq!(model.container(), container);
    assert_eq!(model.shape(), shape);
    for weight in Weight::all(shape) {
        let view = model.tensor(weight);
        assert_eq!([view.rows() as u32, view.cols() as u32], weight.shape(shape), "{weight}");
        assert_eq!(view.to_f32(), numbers(shape, weight), "{weight} in {container}");
    }
}

#[test]
fn gguf() {
    let mut file = Gguf::of(&TINY);
    assert_holds(&open(&file.write()).unwrap(), Container::Gguf, &TINY);
    file.version = 2;
    assert_holds(&open(&file.write()).unwrap(), Container::Gguf, &TINY);
    file.alignment = 256;
    file.set("general.alignment", crate::model_files::support::gguf::Value::U32(256));
    assert_holds(&open(&file.write()).unwrap(), Container::Gguf, &TINY);
}

#[test]
fn metadata_of_a_file_is_kept() {
    use crate::model_files::support::gguf::Value;
    let mut file = Gguf::of(&TINY);
    let text = |text: &str| Value::Text(text.to_owned());
    file.set("general.name", text("a goose"));
    file.set("general.author", text(&"long ".repeat(100)));
    file.set("general.file_type", Value::U32(15));
    // Of another kind than it should be: no reason to refuse a model.
    file.set("general.license", Value::U32(1));
    let model = open(&file.write()).unwrap();
    let about = model.about();
    assert_eq!((about.name.as_deref(), about.licence.as_deref()), (Some("a goose"), None));
    assert_eq!((about.author.as_ref().unwrap().len(), about.quantisation), (200, Some("Q4_K_M")));
}

#[test]
fn gguf_without_the_optional_keys() {
    let mut file = Gguf::of(&TINY);
    file.keys.retain(|(key, _)| key == "general.architecture" || key == "rwkv7.wkv.head_size");
    let model = open(&file.write()).unwrap();
    assert_holds(&model, Container::Gguf, &TINY);
    assert_eq!(model.vocabulary(), None);
}

#[test]
fn safetensors_in_both_orientations() {
    for format in [Format::F32, Format::F16, Format::BF16] {
        for in_out in [false, true] {
            let file = safetensors::write(&checkpoint(&TINY, format, in_out));
            assert_holds(&open(&file).unwrap(), Container::Safetensors, &TINY);
        }
    }
}

#[test]
fn pth_in_every_style() {
    for format in [Format::F32, Format::F16, Format::BF16] {
        for style in [
            Style::Plain,
            Style::Parameters,
            Style::OneStorage,
            Style::Protocol5,
            Style::ParametersWithAttributes,
            Style::TensorsWithAttributes,
            Style::UntypedStorages,
        ] {
            let file = pth::write(&checkpoint(&TINY, format, true), style);
            assert_holds(&open(&file).unwrap(), Container::Pth, &TINY);
        }
    }
}

#[test]
fn pth_with_adapters_as_matrices() {
    let file = pth::write(&checkpoint(&TINY, Format::BF16, false), Style::Plain);
    assert_holds(&open(&file).unwrap(), Container::Pth, &TINY);
}

#[test]
fn pth_with_transposed_strides() {
    // Every matrix is saved as `tensor.t()` of its transpose: same numbers, other order in memory.
    let turn = |t: Tensor| match t.dims[..] {
        [rows, cols] => {
            let bytes = crate::model_files::support::encode(t.format, &transpose(&decode(&t), cols));
            (Tensor { bytes, ..t }, vec![1, rows])
        }
        _ => {
            let strides = pth::row_major(&t.dims);
            (t, strides)
        }
    };
    for in_out in [false, true] {
        let views: Vec<_> = checkpoint(&TINY, Format::F32, in_out).into_iter().map(turn).collect();
        let file = pth::write_views(&views, Style::Plain);
        assert_holds(&open(&file).unwrap(), Container::Pth, &TINY);
    }
}

#[test]
fn pth_with_views_of_larger_tensors() {
    // Every matrix is a slice of a wider one, as of an embedding that was cut to size.
    const GAP: usize = 3;
    let widen = |t: Tensor| match t.dims[..] {
        [_, cols] => {
            let size = t.format.block_bytes();
            let rows = t.bytes.chunks(cols * size);
            let bytes = rows.flat_map(|row| [row, &vec![0xff; GAP * size][..]].concat()).collect();
            (Tensor { bytes, ..t }, vec![cols + GAP, 1])
        }
        _ => {
            let strides = pth::row_major(&t.dims);
            (t, strides)
        }
    };
    for in_out in [false, true] {
        let views: Vec<_> = checkpoint(&TINY, Format::BF16, in_out).into_iter().map(widen).collect();
        let file = pth::write_views(&views, Style::Plain);
        assert_holds(&open(&file).unwrap(), Container::Pth, &TINY);
    }
}

fn decode(t: &Tensor) -> Vec<f32> {
    t.bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn pth_in_zip64() {
    let tensors = checkpoint(&TINY, Format::F16, true);
    let mut program = pth::Program::begin();
    let mut entries = vec![("data.pkl".to_owned(), Vec::new())];
    for (i, t) in tensors.iter().enumerate() {
        program.tensor(t, &i.to_string(), 0, &pth::row_major(&t.dims));
        entries.push((format!("data/{i}"), t.bytes.clone()));
    }
    entries[0].1 = program.end();
    let file = pth::zip(&entries, Zip { zip64: true, ..Zip::default() });
    assert_holds(&open(&file).unwrap(), Container::Pth, &TINY);
}

/// Adapters as wide as the model say nothing about the file's orientation: another one does, or the convention.
#[test]
fn square_adapters() {
    let c = TINY.width;
    let some = ModelShape { ranks: LoraRanks { decay: c, iclr: c, value: c, gate: 8 }, ..TINY };
    let all = ModelShape { ranks: LoraRanks { decay: c, iclr: c, value: c, gate: c }, ..TINY };
    for in_out in [false, true] {
        let file = safetensors::write(&checkpoint(&some, Format::F16, in_out));
        assert_holds(&open(&file).unwrap(), Container::Safetensors, &some);
        let file = pth::write(&checkpoint(&some, Format::F16, in_out), Style::Plain);
        assert_holds(&open(&file).unwrap(), Container::Pth, &some);
    }
    assert_holds(
        &open(&safetensors::write(&checkpoint(&all, Format::F16, false))).unwrap(),
        Container::Safetensors,
        &all,
    );
    assert_holds(&open(&pth::write(&checkpoint(&all, Format::F16, true), Style::Plain)).unwrap(), Container::Pth, &all);
    assert_holds(&open(&Gguf::of(&all).write()).unwrap(), Container::Gguf, &all);
}

#[test]
fn adapters_of_rank_1_are_read() {
    let shape = ModelShape { ranks: LoraRanks { decay: 1, iclr: 1, value: 1, gate: 1 }, ..TINY };
    let mut gguf = Gguf::of(&shape);
    for t in gguf.tensors.iter_mut().filter(|t| t.dims == [1, 64]) {
        t.dims.remove(0); // ggml drops trailing sizes of 1, leading ones here
    }
    assert_holds(&open(&gguf.write()).unwrap(), Container::Gguf, &shape);
    let file = pth::write(&checkpoint(&shape, Format::F16, true), Style::Plain);
    assert_holds(&open(&file).unwrap(), Container::Pth, &shape);
}

#[test]
fn a_single_layer_has_no_value_residual() {
    let shape = ModelShape { layers: 1, ..TINY };
    assert_eq!(open(&Gguf::of(&shape).write()).unwrap().shape(), &shape);
    let file = pth::write(&checkpoint(&shape, Format::F16, true), Style::Plain);
    assert_eq!(open(&file).unwrap().shape().ranks.value, shape.ranks.iclr);
}

#[test]
fn pieces_are_handed_out_where_the_file_has_them() {
    let gguf = open(&Gguf::of(&TINY).write()).unwrap();
    assert!(Weight::all(&TINY).all(|w| gguf.tensor(w).contiguous().is_some()));
    let pth = open(&pth::write(&checkpoint(&TINY, Format::F16, true), Style::Plain)).unwrap();
    for weight in Weight::all(&TINY) {
        let apart = matches!(weight, Weight::Layer(_, w) if is_adapter(w) || w == LayerWeight::AttMix);
        assert_eq!(pth.tensor(weight).contiguous().is_none(), apart, "{weight}");
    }
}
