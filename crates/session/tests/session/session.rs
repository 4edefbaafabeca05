//! Sessions: text in, text out, and tokens where text will not do.

use crate::support::{SHAPE, Tiny, on_cpu, tiny, tiny_of};
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_graph::{LayerWeight, ModelShape, Weight};
use wgoose_kernels::{Plan, PlanError};
use wgoose_runtime::{BatchError, Device, RuntimeError, StateData};
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{
    Ending, GenerateOptions, Generated, GenerationEvent, ModelVocabularyError, PlanChoice, PlanStore, Session,
    SessionError,
};
use wgoose_session::{Model, model_class};

const PROMPT: &[u8] = b"A goose";

fn options(max_tokens: usize, temperature: f32, seed: u64) -> GenerateOptions {
    let sampling = SamplerOptions { temperature, seed, ..SamplerOptions::default() };
    GenerateOptions { sampling, max_tokens, ..GenerateOptions::default() }
}

/// Generates to the end; what was generated, and the pieces of text.
fn generate(session: &mut Session, options: &GenerateOptions) -> (Generated, Vec<String>) {
    let mut pieces = Vec::new();
    let generated = session.generate(PROMPT, options, &mut |event| {
        if let GenerationEvent::Text(text) = event {
            pieces.push(text.to_owned());
        }
        ControlFlow::Continue(())
    });
    (generated.unwrap(), pieces)
}

/// Root mean square of the difference over that of what is wanted.
fn deviation(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    let difference: f32 = got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum();
    (difference / want.iter().map(|w| w.powi(2)).sum::<f32>()).sqrt()
}

#[test]
fn a_seed_decides_the_text() {
    let model = tiny(1);
    let text = |seed| generate(&mut on_cpu(&model), &options(24, 1.0, seed));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}

#[test]
fn the_gpu_and_the_cpu_write_equal_texts() {
    let model = tiny(1);
    let options = options(12, 0.0, 0);
    let mut gpu = Session::builder().open(&model.path).unwrap();
    assert_eq!(generate(&mut gpu, &options), generate(&mut on_cpu(&model), &options));
}

/// On the device tokens are chosen ahead of the text: repeatable, ended and broken off like on the CPU.
#[test]
fn the_gpu_runs_ahead_and_leaves_no_trace() {
    let model = tiny(1);
    let open = || Session::builder().open(&model.path).unwrap();
    let mut session = open();
    let (all, pieces) = generate(&mut session, &options(60, 1.0, 3));
    assert_eq!(all.tokens.len(), pieces.len() - 1);
    assert_eq!(generate(&mut open(), &options(60, 1.0, 3)).0, all);
    assert_ne!(generate(&mut open(), &options(60, 1.0, 4)).0, all);
    for stop_after in [1, 5, all.tokens.len()] {
        let mut seen = Vec::new();
        session.reset().unwrap();
        let generated = session.generate(PROMPT, &options(60, 1.0, 3), &mut |event| {
            if let GenerationEvent::Text(text) = event {
                seen.push(text.to_owned());
            }
            if seen.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(generated.unwrap().tokens, all.tokens[..stop_after]);
        assert_eq!(seen, pieces[..stop_after]);
        let mut reading = open();
        let prompt = reading.tokenizer().unwrap().encode(PROMPT);
        reading.prefill(&prompt).unwrap();
        for token in &all.tokens[..stop_after - 1] {
            reading.decode(*token).unwrap();
        }
        assert!(session.state().unwrap() == reading.state().unwrap(), "stopped after {stop_after}");
    }
    let ends = |seed| {
        session.reset().unwrap();
        let (generated, _) = generate(&mut session, &options(200, 3.0, seed));
        assert!(!generated.tokens.contains(&0));
        generated.tokens.len() < 200
    };
    assert!((0..8).any(ends), "hot sampling comes across every token");
}

#[test]
fn pieces_together_are_the_decoded_tokens() {
    let model = tiny(2);
    for seed in 0..4 {
        let mut session = on_cpu(&model);
        let (generated, pieces) = generate(&mut session, &options(40, 1.0, seed));
        let bytes = session.tokenizer().unwrap().decode(&generated.tokens).unwrap();
        assert_eq!(pieces.concat(), String::from_utf8_lossy(&bytes));
        assert_eq!(generated.prompt_tokens, session.tokenizer().unwrap().encode(PROMPT).len());
    }
}

#[test]
fn the_end_of_text_ends_a_generation() {
    let model = tiny(1);
    let ends = |seed| {
        let (generated, _) = generate(&mut on_cpu(&model), &options(200, 3.0, seed));
        assert!(!generated.tokens.contains(&0));
        generated.tokens.len() < 200
    };
    assert!((0..8).any(ends), "hot sampling comes across every token");
}

#[test]
fn a_break_stops_at_once() {
    let model = tiny(1);
    let mut session = on_cpu(&model);
    let (all, pieces) = generate(&mut session, &options(24, 1.0, 3));
    for stop_after in [1, 5] {
        let mut seen = Vec::new();
        session.reset().unwrap();
        let generated = session.generate(PROMPT, &options(24, 1.0, 3), &mut |event| {
            if let GenerationEvent::Text(text) = event {
                seen.push(text.to_owned());
            }
            if seen.len() == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(generated.unwrap().tokens, all.tokens[..stop_after]);
        assert_eq!(seen, pieces[..stop_after]);
    }
}

#[test]
fn a_generation_of_zero_tokens_prefills_the_prompt() {
    let model = tiny(1);
    let (mut generating, mut reading) = (on_cpu(&model), on_cpu(&model));
    let (generated, pieces) = generate(&mut generating, &options(0, 1.0, 0));
    assert_eq!((generated.tokens, pieces.concat()), (vec![], String::new()));
    let prompt = reading.tokenizer().unwrap().encode(PROMPT);
    reading.prefill(&prompt).unwrap();
    assert!(generating.state().unwrap() == reading.state().unwrap());
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_read() {
    let model = tiny(1);
    let mut session = on_cpu(&model);
    let mut refused = |prompt: &[u8], sampling: SamplerOptions| {
        let options = GenerateOptions { sampling, max_tokens: 1, ..GenerateOptions::default() };
        session.generate(prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    let default = SamplerOptions::default;
    assert!(matches!(refused(b"", default()), SessionError::EmptyPrompt));
    for bad in [SamplerOptions { temperature: f32::NAN, ..default() }, SamplerOptions { top_p: 1.5, ..default() }] {
        let error = refused(PROMPT, SamplerOptions { top_k: NonZeroUsize::new(3), ..bad });
        assert!(matches!(error, SessionError::SamplerOptions(_)), "{error}");
    }
    for bad in [&[][..], &[SHAPE.vocab][..]] {
        let error = session.prefill(bad).unwrap_err();
        let SessionError::Runtime(RuntimeError::Batch(error)) = error else { panic!("{error}") };
        assert!(matches!(error, BatchError::Empty(0) | BatchError::Token { .. }), "{error}");
    }
    assert_eq!(session.state().unwrap(), StateData::zero(&SHAPE));
}

#[test]
fn logits_prefill_and_decode_agree() {
    let model = tiny(1);
    let mut session = on_cpu(&model);
    let vocab = SHAPE.vocab as usize;
    let every = session.logits(&[5, 6, 7]).unwrap();
    assert_eq!(every.len(), 3 * vocab);
    session.reset().unwrap();
    assert_eq!(session.decode(5).unwrap(), every[..vocab]);
    assert!(deviation(&session.prefill(&[6, 7]).unwrap(), &every[2 * vocab..]) < 1e-6);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn prefill_in_parts_agrees_with_prefill_of_the_whole(
        tokens in prop::collection::vec(0..SHAPE.vocab, 2..40),
        cut in any::<prop::sample::Index>(),
        chunk in 1u32..20,
    ) {
        let model = tiny(1);
        let open = |chunk| Session::builder().backend(wgoose_session::Backend::Cpu).chunk(chunk).open(&model.path).unwrap();
        let (mut whole, mut parts) = (open(None), open(Some(chunk)));
        let (first, second) = tokens.split_at(1 + cut.index(tokens.len() - 1));
        let want = whole.prefill(&tokens).unwrap();
        parts.prefill(first).unwrap();
        prop_assert!(deviation(&parts.prefill(second).unwrap(), &want) < 1e-6);
        for ((piece, got), (_, want)) in parts.state().unwrap().0.iter().zip(&whole.state().unwrap().0) {
            prop_assert!(deviation(got, want) < 1e-6, "{}", piece);
        }
    }
}

#[test]
fn text_of_a_model_with_nan_is_refused_with_the_op_that_makes_it() {
    let model = tiny(1);
    let key = Weight::Layer(1, LayerWeight::FfnKey);
    let range = Model::open(&model.path).unwrap().tensor(key).file_range().unwrap();
    let mut bytes = std::fs::read(&model.path).unwrap();
    bytes[range.start..range.start + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
    std::fs::write(&model.path, bytes).unwrap();
    for mut session in [on_cpu(&model), Session::builder().open(&model.path).unwrap()] {
        let refused = session.generate(PROMPT, &options(3, 0.0, 0), &mut |_| ControlFlow::Continue(()));
        let why = refused.unwrap_err().to_string();
        assert!(why.contains("computes NaN: 'ffn.key") && why.contains(" of layer 1 is the first op"), "{why}");
    }
}

#[test]
fn a_model_of_bytes_reads_text() {
    let model = tiny_of(ModelShape { vocab: 256, ..SHAPE }, 1, None);
    let mut session = on_cpu(&model);
    let mut text = String::new();
    session
        .generate(PROMPT, &options(5, 0.0, 0), &mut |event| {
            if let GenerationEvent::Text(piece) = event {
                text += piece;
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let mut by_ids = on_cpu(&model);
    let ids: Vec<u32> = PROMPT.iter().copied().map(u32::from).collect();
    let best = wgoose_runtime::logits::best(&by_ids.prefill(&ids).unwrap()) as u8;
    assert!(text.starts_with(&String::from_utf8_lossy(&[best])[..]) || !best.is_ascii(), "{text:?}, {best}");
}

#[test]
fn a_model_without_all_bytes_takes_token_ids_only() {
    let model = tiny_of(ModelShape { vocab: 100, ..SHAPE }, 1, None);
    let mut session = on_cpu(&model);
    let error = session.generate(PROMPT, &options(1, 1.0, 0), &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, SessionError::Vocabulary(ModelVocabularyError::Incomplete(_))), "{error}");
    assert!(error.to_string().contains("token ids"), "{error}");
    assert_eq!(session.prefill(&[1, 2, 3]).unwrap().len(), 100);
}

/// Opens with a plan that was changed.
fn open_with(model: &Tiny, foreign: bool, change: impl Fn(&mut Plan)) -> Result<Session, SessionError> {
    let device = Device::open(None).unwrap();
    let mut plan = Plan::default_for(device.fingerprint().clone(), SHAPE, device.limits());
    change(&mut plan);
    let path = model.folder.path().join("plan.ron");
    plan.save(&path).unwrap();
    Session::builder().plan(path.into()).allow_foreign_plan(foreign).open(&model.path)
}

#[test]
fn plans_are_checked() {
    let model = tiny(1);
    let abroad = |plan: &mut Plan| plan.device.driver = "another driver".into();
    let bigger = |plan: &mut Plan| plan.model.vocab += 1;
    assert!(open_with(&model, false, |_| {}).is_ok());
    let refused = |result: Result<Session, SessionError>| match result {
        Err(SessionError::Plan(PlanError::InFile { path, error })) if path.ends_with("plan.ron") => *error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the plan was accepted"),
    };
    assert!(matches!(refused(open_with(&model, false, abroad)), PlanError::Device { what: "driver", .. }));
    assert!(matches!(refused(open_with(&model, true, bigger)), PlanError::Model { .. }));
    let mut session = open_with(&model, true, abroad).unwrap();
    assert_eq!(session.prefill(&[1]).unwrap().len(), SHAPE.vocab as usize);
}

#[test]
fn a_long_prompt_can_be_broken_off_between_passes() {
    let model = tiny(1);
    let prompt = vec![b'a'; 70];
    for cache in [None, Some(wgoose_session::PrefixOptions::default())] {
        let open = || {
            let builder = Session::builder().backend(wgoose_session::Backend::Cpu).chunk(Some(16)).prefix_cache(cache);
            builder.open(&model.path).unwrap()
        };
        let mut session = open();
        let mut told = Vec::new();
        let generated = session.generate(&prompt, &options(5, 0.0, 0), &mut |event| {
            let GenerationEvent::Prefill { done, of } = event else { panic!("{event:?}") };
            told.push((done, of));
            if done == 32 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let generated = generated.unwrap();
        assert_eq!(told, [(16, 70), (32, 70)]);
        assert_eq!((generated.ending, generated.prompt_tokens, generated.tokens), (Ending::Caller, 32, vec![]));
        let mut want = open();
        let tokens = want.tokenizer().unwrap().encode(&prompt);
        want.prefill(&tokens[..32]).unwrap();
        assert!(session.state().unwrap() == want.state().unwrap());
        // What is left of it goes on from there.
        assert!(session.prefill(&tokens[32..]).unwrap() == want.prefill(&tokens[32..]).unwrap());
    }
}

#[test]
fn forks_go_their_own_ways() {
    let model = tiny(1);
    for mut session in [on_cpu(&model), Session::builder().open(&model.path).unwrap()] {
        session.prefill(&[1, 2, 3]).unwrap();
        let mut fork = session.fork().unwrap();
        assert!(fork.decode(4).unwrap() == session.decode(4).unwrap());
        let before = fork.state().unwrap();
        session.prefill(&[5, 6]).unwrap();
        assert!(fork.state().unwrap() == before);
        drop(session);
        fork.prefill(&[7]).unwrap();
    }
}

#[test]
fn a_plan_is_found_only_where_it_is_asked_for() {
    let model = tiny(1);
    let store = PlanStore::at(model.folder.path().join("store"));
    let device = Device::open(None).unwrap();
    let mut plan = Plan::default_for(device.fingerprint().clone(), SHAPE, device.limits());
    plan.prefill_chunk = 5;
    let class = model_class(&Model::open(&model.path).unwrap());
    store.file(&class, &plan).unwrap();
    let open = |choice| {
        let builder = Session::builder().plan_store(Some(store.clone()));
        builder.plan(choice).open(&model.path).unwrap()
    };
    let mut found = open(PlanChoice::Find);
    assert_eq!(found.chunk(), 5);
    assert!(found.plan().unwrap().to_string().contains("(store)"));
    assert_eq!(found.fork().unwrap().plan(), found.plan());
    let mut default = Session::builder().plan_store(Some(store.clone())).open(&model.path).unwrap();
    assert_ne!(default.chunk(), 5, "a program that says nothing of plans depends on no file");
    assert_eq!(open(PlanChoice::Default).chunk(), default.chunk());
    let text: Vec<u32> = (1..14).collect();
    assert!(deviation(&found.prefill(&text).unwrap(), &default.prefill(&text).unwrap()) < 1e-4);
    assert!(on_cpu(&model).plan().is_none());

    // Fusions that nobody guessed: the graphs are made again.
    plan.fusions.decode.clear();
    plan.device.driver = "old".into();
    plan.save(&store.path(&store.names().unwrap()[0])).unwrap();
    let mut stale = open(PlanChoice::Find);
    assert!(stale.plan().unwrap().to_string().contains("stale: "));
    assert_eq!(stale.decode(1).unwrap().len(), SHAPE.vocab as usize);
}
