//! State files: what is written is what is read, and nothing else is taken for a state.

use crate::support::{SHAPE, on_cpu, tiny};
use proptest::prelude::*;
use safetensors::{Dtype, tensor::TensorView};
use std::path::Path;
use wgoose_graph::{ModelShape, State};
use wgoose_runtime::StateData;
use wgoose_session::{SessionError, state_file};

const MODEL: &str = "00112233445566778899aabbccddeeff";

/// A state whose every float differs.
fn state(shape: &ModelShape) -> StateData {
    let mut next = 0.0;
    let mut tensor = |state: State| {
        let floats = std::iter::repeat_with(|| {
            next += 0.25;
            next
        });
        (state, floats.take(state.len(shape)).collect())
    };
    StateData(State::all(shape).map(&mut tensor).collect())
}

fn saved(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("state.safetensors");
    state_file::save(&path, &state(&SHAPE), &SHAPE, MODEL).unwrap();
    path
}

/// The reason for which a file is refused, which must name the file and fit one line.
fn refused(path: &Path) -> String {
    match state_file::load(path, &SHAPE, MODEL) {
        Err(error @ SessionError::StateFile { .. }) => {
            let text = error.to_string();
            assert!(text.contains(&path.display().to_string()) && !text.contains('\n'), "{text}");
            text
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("{} was accepted", path.display()),
    }
}

#[test]
fn the_text_of_a_chat_is_pairs_or_the_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chat.st");
    let write = |chat: &str| {
        let bytes = std::fs::read(saved(folder.path())).unwrap();
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let pairs = [("wgoose.model", MODEL), ("wgoose.chat", chat)].map(|(key, text)| (key.into(), text.into()));
        let file = safetensors::serialize(tensors.tensors(), Some(pairs.into())).unwrap();
        std::fs::write(&path, file).unwrap();
    };
    write(r#"[["a goose", "Honk."]]"#);
    assert_eq!(state_file::load(&path, &SHAPE, MODEL).unwrap(), state(&SHAPE));
    for wrong in ["", "goose", r#"["a"]"#, r#"[["a"]]"#, r#"[["a", "b", "c"]]"#, r#"{"a": "b"}"#] {
        write(wrong);
        assert!(refused(&path).contains("the text of its chat: "), "{wrong}");
    }
}

#[test]
fn a_session_continues_after_a_restart() {
    let model = tiny(1);
    let path = model.folder.path().join("state.safetensors");
    let mut before = on_cpu(&model);
    before.prefill(&[1, 2, 3]).unwrap();
    let fingerprint = before.model().fingerprint().to_string();
    state_file::save(&path, &before.state().unwrap(), before.model().shape(), &fingerprint).unwrap();

    let mut after = on_cpu(&model);
    let state = state_file::load(&path, after.model().shape(), &after.model().fingerprint().to_string()).unwrap();
    after.set_state(&state).unwrap();
    assert_eq!(after.prefill(&[4, 5]).unwrap(), before.prefill(&[4, 5]).unwrap());
    assert!(after.state().unwrap() == before.state().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_float_survives(bits in prop::collection::vec(any::<u32>(), 64), layers in 1u32..3, heads in 1u32..3) {
        let shape = ModelShape { layers, width: 64 * heads, ..SHAPE };
        let mut bits = bits.into_iter().cycle();
        let tensor = |state: State| {
            (state, bits.by_ref().take(state.len(&shape)).map(f32::from_bits).collect::<Vec<_>>())
        };
        let state = StateData(State::all(&shape).map(tensor).collect());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        state_file::save(&path, &state, &shape, MODEL).unwrap();
        let back = state_file::load(&path, &shape, MODEL).unwrap();
        for ((tensor, want), (other, got)) in state.0.iter().zip(&back.0) {
            prop_assert_eq!(tensor, other);
            // As bits: NaN does not equal itself.
            prop_assert!(want.iter().map(|x| x.to_bits()).eq(got.iter().map(|x| x.to_bits())));
        }
        prop_assert_eq!(state.0.len(), back.0.len());
    }

    #[test]
    fn damage_is_an_error_or_harmless(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = saved(folder.path());
        let mut file = std::fs::read(&path).unwrap();
        // Most bytes are floats, which may be anything; the header is where damage matters.
        let header = 8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
        if cut {
            file.truncate(at.index(file.len()));
        } else {
            file[at.index(header)] = byte;
        }
        std::fs::write(&path, file).unwrap();
        if cut {
            refused(&path);
        } else if let Ok(state) = state_file::load(&path, &SHAPE, MODEL) {
            prop_assert!(state.check(&SHAPE).is_ok());
        }
    }
}

#[test]
fn states_of_other_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path());
    let other = "ffeeddccbbaa99887766554433221100";
    let error = state_file::load(&path, &SHAPE, other).unwrap_err().to_string();
    assert!(error.contains(MODEL) && error.contains(other), "{error}");
    // As another program may write it, without the model's fingerprint: the sizes decide.
    let (wider, deeper) = (ModelShape { width: 192, ..SHAPE }, ModelShape { layers: 3, ..SHAPE });
    for (shape, named) in [(wider, "blocks.0."), (deeper, "blocks.2.")] {
        let error = state_file::load(&path, &shape, MODEL).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_state_need_not_say_which_model_it_is_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let state = state(&SHAPE);
    let write = |dtype: Dtype, missing: Option<State>| {
        let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = state
            .0
            .iter()
            .filter(|(tensor, _)| Some(*tensor) != missing)
            .map(|(tensor, data)| {
                let shape = match tensor {
                    State::Wkv(_) => vec![2, 64, 64],
                    _ => vec![128],
                };
                (tensor.to_string(), shape, data.iter().flat_map(|x| x.to_le_bytes()).collect())
            })
            .collect();
        let views =
            tensors.iter().map(|(name, shape, raw)| (name, TensorView::new(dtype, shape.clone(), raw).unwrap()));
        std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    };
    write(Dtype::F32, None);
    assert_eq!(state_file::load(&path, &SHAPE, MODEL).unwrap(), state);
    write(Dtype::F32, Some(State::Wkv(1)));
    assert!(refused(&path).contains("blocks.1.wkv"));
    write(Dtype::I32, None);
    assert!(refused(&path).contains("I32"));
}

#[test]
fn a_file_without_a_state_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    refused(&path);
    refused(folder.path());
    for content in [&b""[..], b"goose", b"\xff\xff\xff\xff\xff\xff\xff\xff{}", b"\x02\0\0\0\0\0\0\0{}"] {
        std::fs::write(&path, content).unwrap();
        refused(&path);
    }
}

#[test]
fn saving_replaces_the_file_or_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = saved(folder.path());
    let zero = StateData::zero(&SHAPE);
    state_file::save(&path, &zero, &SHAPE, MODEL).unwrap();
    assert_eq!(state_file::load(&path, &SHAPE, MODEL).unwrap(), zero);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    let nowhere = folder.path().join("missing/state.safetensors");
    let error = state_file::save(&nowhere, &zero, &SHAPE, MODEL).unwrap_err();
    assert!(matches!(error, SessionError::StateFile { .. }), "{error}");
}
