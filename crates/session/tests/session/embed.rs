//! Embeddings: what they are by definition, alone, together, behind a prefix, within a budget, from a cache.

use crate::support::{SHAPE, Tiny, on_cpu, tiny};
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wgoose_graph::State;
use wgoose_loader::Model;
use wgoose_runtime::{BatchError, Engine, Outputs, Residency, RuntimeError, Sequence, StateData};
use wgoose_session::{
    Backend, CancelToken, EmbedOptions, EmbeddingCacheOptions, Level, Pooling, PrefixOptions, Session, SessionBuilder,
    SessionError,
};

fn text(seed: u32, len: usize) -> Vec<u32> {
    (1..=len as u32).map(|i| ((i + seed * 7919).wrapping_mul(2_654_435_761) >> 8) % SHAPE.vocab).collect()
}

fn texts() -> Vec<Vec<u32>> {
    (0..).zip([7, 1, 40, 3, 12, 90, 2]).map(|(seed, len)| text(seed, len)).collect()
}

fn on_gpu(model: &Tiny) -> Session {
    Session::builder().open(&model.path).unwrap()
}

fn options(level: Level, pooling: Pooling) -> EmbedOptions {
    EmbedOptions { level, pooling, normalise: false, ..EmbedOptions::default() }
}

/// The call ends between two passes, and leaves nothing behind.
#[test]
fn a_cancelled_call_ends_between_passes() {
    let model = tiny(3);
    for backend in [Backend::Cpu, Backend::Gpu] {
        let mut session = Session::builder().backend(backend).chunk(Some(16)).open(&model.path).unwrap();
        let state = session.state().unwrap();
        for pooling in [Pooling::Mean, Pooling::Last, Pooling::State] {
            let options = options(Level::Final, pooling);
            let whole = session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap();
            for looks in [0, 1, 4] {
                let left = AtomicUsize::new(looks);
                let cancel = CancelToken::polling(move || {
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
                });
                let ended = session.embed_batch(&texts(), &options, &cancel).unwrap_err();
                assert!(matches!(ended, SessionError::Runtime(RuntimeError::Cancelled)), "{ended}");
            }
            assert!(session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap() == whole);
        }
        assert!(session.state().unwrap() == state);
    }
}

fn length(row: &[f32]) -> f64 {
    row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt()
}

/// From hidden rows that the reference engine gives, and its state.
fn by_definition(model: &Tiny, prefix: &[u32], tokens: &[u32], level: Level, pooling: Pooling) -> Vec<f32> {
    let mut engine = Engine::cpu(Arc::new(Model::open(&model.path).unwrap()), 1).unwrap();
    if !prefix.is_empty() {
        engine
            .hidden(
                &[Sequence { slot: 0, tokens: prefix, outputs: Outputs::None }],
                Level::Final,
                &CancelToken::default(),
            )
            .unwrap();
    }
    let rows = engine
        .hidden(&[Sequence { slot: 0, tokens, outputs: Outputs::All }], level, &CancelToken::default())
        .unwrap()
        .remove(0);
    let width = SHAPE.width as usize;
    match pooling {
        Pooling::Every => rows,
        Pooling::Last => rows[rows.len() - width..].to_vec(),
        Pooling::Mean => (0..width)
            .map(|c| {
                (rows.iter().skip(c).step_by(width).map(|x| f64::from(*x)).sum::<f64>() / tokens.len() as f64) as f32
            })
            .collect(),
        Pooling::State => engine.state_tensor(0, State::Wkv(level.depth(&SHAPE) - 1)).unwrap(),
        Pooling::Head(head) => panic!("{head}: the model has no heads"),
    }
}

#[test]
fn every_kind_of_embedding_equals_its_definition() {
    let model = tiny(1);
    let mut session = on_cpu(&model);
    for level in [Level::Final, Level::Layer(0), Level::Layer(1)] {
        for pooling in [Pooling::Last, Pooling::Mean, Pooling::Every, Pooling::State] {
            for prefix in [vec![], text(9, 5)] {
                let options = EmbedOptions { prefix: prefix.clone(), ..options(level, pooling) };
                let (tokens, what) = (text(3, 11), format!("{options:?}"));
                let got = session.embed(&tokens, &options).unwrap();
                let want = by_definition(&model, &prefix, &tokens, level, pooling);
                assert_eq!(got.len(), want.len(), "{what}");
                let off: Vec<f32> = got.iter().zip(&want).map(|(g, w)| g - w).collect();
                assert!(length(&off) <= 1e-6 * length(&want), "{what}");
                let normal = session.embed(&tokens, &EmbedOptions { normalise: true, ..options }).unwrap();
                let row = if pooling == Pooling::Every { SHAPE.width as usize } else { normal.len() };
                for (normal, plain) in normal.chunks(row).zip(got.chunks(row)) {
                    assert!((length(normal) - 1.0).abs() < 1e-6, "{what}");
                    let scaled: Vec<f32> =
                        normal.iter().zip(plain).map(|(n, p)| (f64::from(*n) * length(plain)) as f32 - p).collect();
                    assert!(length(&scaled) < 1e-6 * length(plain), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_batch_of_embeddings_has_the_bits_of_single_calls() {
    let model = tiny(1);
    let texts = texts();
    for mut session in [on_gpu(&model), on_cpu(&model)] {
        for (i, pooling) in [Pooling::Last, Pooling::Mean, Pooling::Every, Pooling::State].into_iter().enumerate() {
            for (j, level) in [Level::Final, Level::Layer(0)].into_iter().enumerate() {
                // Each pooling and each level has a prefix once and none once.
                let prefix = if (i + j) % 2 == 0 { vec![] } else { text(9, 5) };
                let options = EmbedOptions { prefix, ..options(level, pooling) };
                let alone: Vec<_> = texts.iter().map(|t| session.embed(t, &options).unwrap()).collect();
                assert!(
                    session.embed_batch(&texts, &options, &CancelToken::default()).unwrap() == alone,
                    "{options:?}"
                );
                for budget in [1, 50] {
                    let budgeted = EmbedOptions { token_budget: NonZeroUsize::new(budget), ..options.clone() };
                    assert!(
                        session.embed_batch(&texts, &budgeted, &CancelToken::default()).unwrap() == alone,
                        "{budgeted:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn embeddings_do_not_depend_on_the_state_of_the_session() {
    let model = tiny(1);
    // Within a memory budget there is one state only: it must come back.
    let builders: [fn() -> SessionBuilder; 3] = [
        || Session::builder().backend(wgoose_session::Backend::Cpu),
        Session::builder,
        || Session::builder().residency(Residency::Budget(1 << 30)),
    ];
    for builder in builders {
        let mut session = builder().open(&model.path).unwrap();
        let fresh = session.embed_batch(&texts(), &EmbedOptions::default(), &CancelToken::default()).unwrap();
        assert_eq!(session.state().unwrap(), StateData::zero(&SHAPE));
        session.prefill(&text(5, 20)).unwrap();
        let before = session.state().unwrap();
        for options in [EmbedOptions::default(), options(Level::Layer(0), Pooling::State)] {
            let embedded = session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap();
            assert!(options.level != Level::Final || embedded == fresh);
            assert!(session.state().unwrap() == before);
        }
        let mut other = builder().open(&model.path).unwrap();
        other.prefill(&text(5, 20)).unwrap();
        assert!(session.decode(7).unwrap() == other.decode(7).unwrap());
    }
}

#[test]
fn invalid_texts_and_options_are_refused_by_name() {
    let model = tiny(1);
    let mut session = on_cpu(&model);
    let mut refused =
        |texts: &[&[u32]], options: &EmbedOptions| match session.embed_batch(texts, options, &CancelToken::default()) {
            Err(SessionError::Runtime(RuntimeError::Batch(why))) => why,
            other => panic!("{other:?}"),
        };
    let default = EmbedOptions::default();
    assert_eq!(refused(&[&[1], &[]], &default), BatchError::Empty(1));
    let token = BatchError::Token { sequence: 1, position: 2, token: 320, vocab: 320 };
    assert_eq!(refused(&[&[1], &[2, 3, 320]], &default), token);
    let layer = EmbedOptions { level: Level::Layer(2), ..default.clone() };
    assert_eq!(refused(&[&[1]], &layer), BatchError::Layer { layer: 2, layers: 2 });
    let nowhere = EmbedOptions { level: Level::Layer(u32::MAX), ..default.clone() };
    assert!(matches!(refused(&[&[1]], &nowhere), BatchError::Layer { layers: 2, .. }));
    let prefix = EmbedOptions { prefix: vec![400], ..default };
    assert!(matches!(refused(&[&[1]], &prefix), BatchError::Token { token: 400, .. }));
    assert_eq!(
        session.embed_batch(&[] as &[&[u32]], &EmbedOptions::default(), &CancelToken::default()).unwrap(),
        Vec::<Vec<f32>>::new()
    );
}

#[test]
fn a_common_prefix_is_prefilled_once() {
    let model = tiny(1);
    let options = EmbedOptions { prefix: text(9, 30), ..EmbedOptions::default() };
    for builder in [Session::builder(), Session::builder().backend(wgoose_session::Backend::Cpu)] {
        let plain = builder
            .clone()
            .open(&model.path)
            .unwrap()
            .embed_batch(&texts(), &options, &CancelToken::default())
            .unwrap();
        let mut session = builder.prefix_cache(Some(PrefixOptions::default())).open(&model.path).unwrap();
        for _ in 0..3 {
            assert!(session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap() == plain);
        }
        let stats = session.prefix_stats().unwrap();
        assert_eq!((stats.hits, stats.misses, stats.tokens_saved, stats.states), (2, 1, 60, 1));
    }
}

fn cached(model: &Tiny, budget: u64, store: Option<std::path::PathBuf>) -> Result<Session, SessionError> {
    let options = EmbeddingCacheOptions { budget, store };
    Session::builder().backend(wgoose_session::Backend::Cpu).embedding_cache(Some(options)).open(&model.path)
}

#[test]
fn embeddings_are_found_again() {
    let model = tiny(1);
    let mut session = cached(&model, 1 << 20, None).unwrap();
    let options = EmbedOptions::default();
    let first = session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap();
    // Some known, some not, in another order.
    let mut mixed = texts();
    mixed.insert(2, text(77, 5));
    let again = session.embed_batch(&mixed, &options, &CancelToken::default()).unwrap();
    assert!(again[..2] == first[..2] && again[3..] == first[2..]);
    let stats = session.embedding_stats().unwrap();
    assert_eq!((stats.hits, stats.store_hits, stats.misses, stats.entries), (7, 0, 8, 8));
    // Anything that makes another embedding is another key.
    let others = [
        EmbedOptions { pooling: Pooling::Last, ..options.clone() },
        EmbedOptions { normalise: false, ..options.clone() },
        EmbedOptions { level: Level::Layer(0), ..options.clone() },
        EmbedOptions { prefix: vec![5], ..options.clone() },
    ];
    for other in others {
        assert!(session.embed(&texts()[0], &other).unwrap() != first[0], "{other:?}");
    }
    let same = EmbedOptions { token_budget: NonZeroUsize::new(5), ..options };
    assert!(session.embed(&texts()[0], &same).unwrap() == first[0]);
    let stats = session.embedding_stats().unwrap();
    assert_eq!((stats.hits, stats.misses), (8, 12));
}

#[test]
fn a_file_outlives_the_session_and_names_the_model() {
    let (model, other) = (tiny(1), tiny(2));
    let path = model.folder.path().join("embeddings");
    let options = EmbedOptions::default();
    let mut session = cached(&model, 1 << 20, Some(path.clone())).unwrap();
    let first = session.embed_batch(&texts(), &options, &CancelToken::default()).unwrap();
    assert!(matches!(cached(&model, 0, Some(path.clone())), Err(SessionError::Store(_))), "it is in use");
    drop(session);
    // No room in memory: all comes from the file.
    let mut later = cached(&model, 0, Some(path.clone())).unwrap();
    assert!(later.embed_batch(&texts(), &options, &CancelToken::default()).unwrap() == first);
    let stats = later.embedding_stats().unwrap();
    assert_eq!((stats.hits, stats.store_hits, stats.misses, stats.entries, stats.bytes), (0, 7, 0, 0, 0));
    drop(later);
    let mut stranger = cached(&other, 0, Some(path)).unwrap();
    assert!(stranger.embed_batch(&texts(), &options, &CancelToken::default()).unwrap() != first);
    assert_eq!(stranger.embedding_stats().unwrap().misses, 7);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_batches_equal_single_calls(
        texts in prop::collection::vec(prop::collection::vec(0..SHAPE.vocab, 1..50), 1..20),
        chunk in 1u32..40,
        mean in any::<bool>(),
    ) {
        let model = tiny(1);
        let mut session = Session::builder().chunk(Some(chunk)).open(&model.path).unwrap();
        let options = options(Level::Final, if mean { Pooling::Mean } else { Pooling::Last });
        let together = session.embed_batch(&texts, &options, &CancelToken::default()).unwrap();
        for (text, want) in texts.iter().zip(&together) {
            prop_assert!(session.embed(text, &options).unwrap() == *want);
        }
    }
}
