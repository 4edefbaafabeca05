//! A session whose state is stored as f16: what leaves it is f32, and comes back as it was.

use crate::support::{SHAPE, Tiny, tiny};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_graph::{Level, State};
use wgoose_kernels::{Plan, Precision, StateFormat};
use wgoose_runtime::{Device, StateData};
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{
    CancelToken, EmbedOptions, GenerateOptions, Pooling, PrefixOptions, Session, SessionBuilder, state_file,
};

fn builder(format: StateFormat) -> SessionBuilder {
    Session::builder().state_format(Some(format))
}

fn open(model: &Tiny, format: StateFormat) -> Session {
    builder(format).open(&model.path).unwrap()
}

fn text(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i * 31 + seed * 17 + i * i) % SHAPE.vocab).collect()
}

/// Root mean square of the difference over that of what is wanted.
fn deviation(got: &[f32], want: &[f32]) -> f32 {
    let squares = |of: &mut dyn Iterator<Item = f32>| of.map(|x| x * x).sum::<f32>();
    assert_eq!(got.len(), want.len());
    (squares(&mut got.iter().zip(want).map(|(a, b)| a - b)) / squares(&mut want.iter().copied())).sqrt()
}

fn wkv(state: &StateData) -> Vec<f32> {
    let of_wkv = state.0.iter().filter(|(tensor, _)| matches!(tensor, State::Wkv(_)));
    of_wkv.flat_map(|(_, values)| values.clone()).collect()
}

#[test]
fn a_state_in_f16_survives_a_file_bit_for_bit() {
    let model = tiny(1);
    let path = model.folder.path().join("state.safetensors");
    let mut before = open(&model, StateFormat::F16);
    before.prefill(&text(1, 20)).unwrap();
    let saved = before.state().unwrap();
    let fingerprint = before.model().fingerprint().to_string();
    state_file::save(&path, &saved, &SHAPE, &fingerprint).unwrap();
    let loaded = state_file::load(&path, &SHAPE, &fingerprint).unwrap();
    let want = before.prefill(&text(2, 5)).unwrap();

    let mut after = open(&model, StateFormat::F16);
    after.set_state(&loaded).unwrap();
    assert!(after.state().unwrap() == saved);
    assert!(after.prefill(&text(2, 5)).unwrap() == want, "f16 goes on bit for bit");
    let mut whole = open(&model, StateFormat::F32);
    whole.set_state(&loaded).unwrap();
    assert!(whole.state().unwrap() == saved);
    // Both start from the same values: this pass has rounded nothing yet.
    assert!(deviation(&whole.prefill(&text(2, 5)).unwrap(), &want) < 1e-5, "f32 goes on from there");
    assert!(whole.state().unwrap() != after.state().unwrap());
}

#[test]
fn the_builder_overrides_the_plan_and_the_precision_both() {
    let model = tiny(1);
    let device = Device::open(None).unwrap();
    let path = model.folder.path().join("plan.ron");
    let default = Plan::default_for(device.fingerprint().clone(), SHAPE, device.limits());
    Plan { state: StateFormat::F16, ..default }.save(&path).unwrap();
    let read = |builder: SessionBuilder| {
        let mut session = builder.open(&model.path).unwrap();
        session.prefill(&text(3, 20)).unwrap();
        session.prefill(&text(4, 20)).unwrap();
        session.state().unwrap()
    };
    let planned = || Session::builder().plan(path.clone().into());
    let half = read(planned());
    assert!(wkv(&half).iter().all(|x| x.to_bits() & 0x1fff == 0 || x.abs() < 6.2e-5), "f16 values");
    assert!(read(builder(StateFormat::F16)) == half);
    let whole = read(builder(StateFormat::F32));
    assert!(whole != half && deviation(&wkv(&half), &wkv(&whole)) < 1e-3);
    assert!(read(planned().state_format(Some(StateFormat::F32))) == whole);
    let exact = read(Session::builder().precision(Some(Precision::F32)));
    assert!(read(planned().precision(Some(Precision::F32))) == exact);
    assert!(read(planned().state_format(Some(StateFormat::F16)).precision(Some(Precision::F32))) == exact);
}

#[test]
fn embeddings_of_states_do_not_depend_on_company() {
    let model = tiny(1);
    let texts: Vec<Vec<u32>> = [3, 40, 1, 90, 17].into_iter().zip(1..).map(|(len, seed)| text(seed, len)).collect();
    let mut half = builder(StateFormat::F16).chunk(Some(32)).open(&model.path).unwrap();
    let mut whole = builder(StateFormat::F32).chunk(Some(32)).open(&model.path).unwrap();
    for pooling in [Pooling::State, Pooling::Mean] {
        for prefix in [vec![], text(9, 5)] {
            let options = EmbedOptions { level: Level::Layer(1), pooling, prefix, ..EmbedOptions::default() };
            let alone: Vec<_> = texts.iter().map(|text| half.embed(text, &options).unwrap()).collect();
            let together = half.embed_batch(&texts, &options, &CancelToken::default()).unwrap();
            assert!(together == alone, "{options:?}");
            for (got, want) in
                together.iter().zip(whole.embed_batch(&texts, &options, &CancelToken::default()).unwrap())
            {
                assert!(deviation(got, &want) < 2e-3, "{options:?}: {:e}", deviation(got, &want));
            }
        }
    }
}

/// Passes end at the same tokens, whatever is known already: the state is rounded at the same places.
#[test]
fn a_prefix_that_was_read_before_changes_no_bit() {
    const LONG: &[u8] =
        b"Geese fly in the shape of a V, and change places at its head. They know where they are going.";
    let model = tiny(1);
    let plain = builder(StateFormat::F16).chunk(Some(16));
    let every = PrefixOptions { every: NonZeroUsize::new(20), ..PrefixOptions::default() };
    let mut cached = plain.clone().prefix_cache(Some(every)).open(&model.path).unwrap();
    let generated = |session: &mut Session, prompt: &[u8]| {
        let sampling = SamplerOptions { temperature: 1.0, seed: 3, ..SamplerOptions::default() };
        let options = GenerateOptions { sampling, max_tokens: 5, ..GenerateOptions::default() };
        let tokens = session.generate(prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap().tokens;
        (tokens, session.state().unwrap())
    };
    for cut in [90, 70, 33, 90, 65] {
        let prompt = [&LONG[..cut], b"?"].concat();
        cached.reset().unwrap();
        let want = generated(&mut plain.clone().open(&model.path).unwrap(), &prompt);
        assert!(generated(&mut cached, &prompt) == want, "{cut} bytes");
    }
    assert!(cached.prefix_stats().is_some_and(|stats| stats.hits >= 3));
    let mut fork = cached.fork().unwrap();
    fork.set_state(&cached.state().unwrap()).unwrap();
    assert!(fork.decode(7).unwrap() == cached.decode(7).unwrap());
}
