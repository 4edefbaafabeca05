//! Tuned initial states (a .pth is read like any other file of tensors: the loader tests that); states saved and restored by sessions.

use crate::support::{SHAPE, on_cpu, tiny, tiny_of};
use safetensors::{Dtype, tensor::TensorView};
use std::path::Path;
use wgoose_graph::{Format, ModelShape, State};
use wgoose_loader::blocks;
use wgoose_runtime::StateData;
use wgoose_session::{Session, SessionError, initial_state};

const HEADS: usize = 2;
const N: usize = 64;

/// S[layer][head][value][key], nothing symmetric about it.
fn tuned(layer: usize, head: usize, value: usize, key: usize) -> f32 {
    // Exact in bf16, so that both kinds of file hold the same.
    ((layer * 31 + head * 17 + value * 7 + key * 3) % 61) as f32 / 64.0 - 0.375 * f32::from(u8::from(value > key))
}

fn matrices(layer: usize) -> Vec<f32> {
    let heads = (0..HEADS).flat_map(|h| (0..N).flat_map(move |v| (0..N).map(move |k| (h, v, k))));
    heads.map(|(h, v, k)| tuned(layer, h, v, k)).collect()
}

fn save_safetensors(path: &Path, layers: usize, dims: &[usize]) {
    save_as(path, layers, dims, Dtype::F32, Format::F32);
}

fn save_as(path: &Path, layers: usize, dims: &[usize], dtype: Dtype, format: Format) {
    let bytes = |numbers: &[f32]| {
        let mut bytes = vec![0; numbers.len() * format.block_bytes()];
        blocks::encode(format, numbers, &mut bytes);
        bytes
    };
    let raw: Vec<(String, Vec<u8>)> =
        (0..layers).map(|i| (format!("blocks.{i}.att.time_state"), bytes(&matrices(i)))).collect();
    let views = raw.iter().map(|(name, raw)| (name, TensorView::new(dtype, dims.to_vec(), raw).unwrap()));
    std::fs::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

/// The recurrence, `S' = S diag(decay) - (S kk)(kk a)^T + v k^T`, sends each row of S (a value) through one and the same
/// transition of its columns (the keys), and adds a constant. Both are read off the model with states that have a single
/// one in them; a loaded state must then go where its rows go, and not where its columns would.
#[test]
fn values_are_rows_and_keys_are_columns() {
    let model = tiny(1);
    let path = model.folder.path().join("tuned.safetensors");
    save_safetensors(&path, 2, &[HEADS, N, N]);
    let mut session = on_cpu(&model);
    // Layer 0 of the first token: its inputs do not depend on any state.
    let mut after = |state: Option<&StateData>| {
        session.reset().unwrap();
        if let Some(state) = state {
            session.set_state(state).unwrap();
        }
        session.decode(7).unwrap();
        let read = session.state().unwrap().0.into_iter();
        read.filter(|(piece, _)| *piece == State::Wkv(0)).map(|(_, data)| data).next().unwrap()
    };
    let with = |cells: &dyn Fn(usize, usize) -> f32| {
        let mut state = StateData::zero(&SHAPE);
        for (piece, data) in &mut state.0 {
            if *piece == State::Wkv(0) {
                data.iter_mut().enumerate().for_each(|(i, x)| *x = cells(i / N % N, i % N));
            }
        }
        state
    };
    let zero = after(None);
    // Row 0 of values alone, with one key set: what becomes of it are a column of decay and a row of -kk (kk a).
    let mut transition = vec![vec![0.0f64; N]; N];
    for key in 0..N {
        let one = after(Some(&with(&|v, k| f32::from(u8::from(v == 0 && k == key)))));
        for to in 0..N {
            transition[key][to] = f64::from(one[to]) - f64::from(zero[to]);
        }
    }
    let loaded = initial_state::load(&path, &SHAPE).unwrap();
    is_tuned(&loaded);
    let got = after(Some(&loaded));
    // Every row of values goes through the same transition of keys.
    let mut off = 0.0f64;
    let mut off_transposed = 0.0f64;
    for value in 0..N {
        for to in 0..N {
            let through = |cell: &dyn Fn(usize) -> f32| -> f64 {
                (0..N).map(|key| f64::from(cell(key)) * transition[key][to]).sum::<f64>()
                    + f64::from(zero[value * N + to])
            };
            let got = f64::from(got[value * N + to]);
            off += (got - through(&|key| tuned(0, 0, value, key))).powi(2);
            off_transposed += (got - through(&|key| tuned(0, 0, key, value))).powi(2);
        }
    }
    assert!(off.sqrt() < 1e-3, "off by {off}");
    assert!(off_transposed.sqrt() > 1.0, "the test does not see the orientation");
}

/// The loaded state: matrices as they lie in the file, shifts of zero.
fn is_tuned(state: &StateData) {
    for (piece, data) in &state.0 {
        match piece {
            State::Wkv(layer) => assert_eq!(*data, matrices(*layer as usize)),
            _ => assert!(data.iter().all(|x| *x == 0.0)),
        }
    }
}

#[test]
fn every_float_format_holds_a_state() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tuned.st");
    for (dtype, format) in [(Dtype::F32, Format::F32), (Dtype::F16, Format::F16), (Dtype::BF16, Format::BF16)] {
        save_as(&path, 2, &[HEADS, N, N], dtype, format);
        is_tuned(&initial_state::load(&path, &SHAPE).unwrap());
    }
}

#[test]
fn sessions_load_either_kind() {
    let model = tiny(1);
    let folder = model.folder.path();
    let (tuned, own) = (folder.join("tuned.st"), folder.join("own.st"));
    save_safetensors(&tuned, 2, &[HEADS, N, N]);
    for mut session in [on_cpu(&model), Session::builder().open(&model.path).unwrap()] {
        session.load_state(&tuned).unwrap();
        is_tuned(&session.state().unwrap());
        session.prefill(&[1, 2, 3]).unwrap();
        session.save_state(&own).unwrap();
        let want = (session.state().unwrap(), session.decode(9).unwrap());
        session.reset().unwrap();
        session.load_state(&own).unwrap();
        assert!((session.state().unwrap(), session.decode(9).unwrap()) == want);
    }
}

#[test]
fn a_misfit_state_is_refused_and_changes_nothing() {
    let (model, other) = (tiny(1), tiny(2));
    let folder = model.folder.path();
    let (tuned, own) = (folder.join("tuned.st"), folder.join("own.st"));
    let mut session = on_cpu(&model);
    session.prefill(&[1, 2, 3]).unwrap();
    session.save_state(&own).unwrap();
    let before = session.state().unwrap();

    let error = on_cpu(&other).load_state(&own).unwrap_err();
    let SessionError::OtherModel { theirs, ours, .. } = &error else { panic!("{error}") };
    assert_eq!(*theirs, session.model().fingerprint().to_string());
    assert_eq!(*ours, on_cpu(&other).model().fingerprint().to_string());

    let mut refused = |says: &str| {
        let error = session.load_state(&tuned).unwrap_err();
        assert!(matches!(error, SessionError::StateFile { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(session.state().unwrap() == before);
    };
    refused("No such file");
    save_safetensors(&tuned, 3, &[HEADS, N, N]);
    refused("3 layers, this model has 2");
    save_safetensors(&tuned, 2, &[HEADS * N, N]);
    refused("[128, 64]");
    save_safetensors(&tuned, 2, &[N, HEADS, N]);
    refused("(heads, value, key)");
    std::fs::write(&tuned, b"a goose").unwrap();
    refused("tuned.st");
    let numbers: Vec<u8> = vec![0; 16];
    let weights = TensorView::new(Dtype::F32, vec![4], &numbers).unwrap();
    std::fs::write(&tuned, safetensors::serialize([("lora.weight", weights)], None).unwrap()).unwrap();
    refused(
        "it holds no state: neither 'blocks.0.wkv', as saved by wgoose, nor 'blocks.0.att.time_state' of a tuned one",
    );
    let state: Vec<u8> = vec![0; HEADS * N * N * 4];
    let state = TensorView::new(Dtype::F32, vec![HEADS, N, N], &state).unwrap();
    let shift = TensorView::new(Dtype::F32, vec![4], &numbers).unwrap();
    let names = ["blocks.0.att.time_state", "blocks.1.att.time_state", "blocks.0.att.time_shift_state"];
    let tensors = names.into_iter().zip([state.clone(), state, shift]);
    std::fs::write(&tuned, safetensors::serialize(tensors, None).unwrap()).unwrap();
    refused("it has 'blocks.0.att.time_shift_state', which would be lost");
    let deeper = ModelShape { layers: 3, ..SHAPE };
    save_safetensors(&tuned, 2, &[HEADS, N, N]);
    let error = on_cpu(&tiny_of(deeper, 1, None)).load_state(&tuned).unwrap_err();
    assert!(error.to_string().contains("2 layers, this model has 3"), "{error}");
}
