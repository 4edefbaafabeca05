//! The prefix cache saves reading and changes nothing; states of sequences never meet.

use crate::support::{SHAPE, Tiny, on_cpu, tiny};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_runtime::StateData;
use wgoose_session::sampling::SamplerOptions;
use wgoose_session::{Backend, CancelToken, EmbedOptions, GenerateOptions, PrefixOptions, Session, SessionBuilder};

fn generate(session: &mut Session, prompt: &[u8], max_tokens: usize) -> Vec<u32> {
    let sampling = SamplerOptions { temperature: 1.0, seed: 3, ..SamplerOptions::default() };
    let options = GenerateOptions { sampling, max_tokens, ..GenerateOptions::default() };
    session.generate(prompt, &options, &mut |_| ControlFlow::Continue(())).unwrap().tokens
}

fn backends() -> [SessionBuilder; 2] {
    [Session::builder(), Session::builder().backend(Backend::Cpu)].map(|b| b.chunk(Some(16)))
}

fn cached(builder: &SessionBuilder, every: usize) -> SessionBuilder {
    builder.clone().prefix_cache(Some(PrefixOptions { every: NonZeroUsize::new(every), ..PrefixOptions::default() }))
}

const LONG: &[u8] = b"Geese fly in the shape of a V, and change places at its head. They know where they are going.";

#[test]
fn a_known_prompt_is_not_prefilled_again() {
    let model = tiny(1);
    for builder in backends() {
        let mut plain = builder.clone().open(&model.path).unwrap();
        let want = (generate(&mut plain, LONG, 9), plain.state().unwrap());
        let mut session = cached(&builder, 0).open(&model.path).unwrap();
        for _ in 0..3 {
            session.reset().unwrap();
            assert!((generate(&mut session, LONG, 9), session.state().unwrap()) == want);
        }
        let stats = session.prefix_stats().unwrap();
        assert_eq!(
            (stats.hits, stats.misses, stats.tokens_saved),
            (2, 1, 2 * session.tokenizer().unwrap().encode(LONG).len() as u64)
        );
    }
}

/// Snapshots within prompts: any prompt with a common beginning starts from them, with the bits of a fresh reading.
#[test]
fn common_beginnings_change_no_bit() {
    let model = tiny(1);
    for builder in backends() {
        let mut session = cached(&builder, 20).open(&model.path).unwrap();
        for cut in [90, 70, 33, 64, 90, 32, 31, 65] {
            let prompt = [&LONG[..cut], b"?"].concat();
            let mut plain = builder.clone().open(&model.path).unwrap();
            let want = (generate(&mut plain, &prompt, 5), plain.state().unwrap());
            session.reset().unwrap();
            assert!((generate(&mut session, &prompt, 5), session.state().unwrap()) == want, "{cut} bytes");
        }
        let stats = session.prefix_stats().unwrap();
        // 20 tokens are rounded up to two passes of 16.
        assert_eq!((stats.misses, stats.hits), (2, 6), "{stats:?}");
        let twice = session.tokenizer().unwrap().encode(&[&LONG[..90], b"?"].concat()).len() as u64;
        assert_eq!((stats.tokens_saved - twice) % 32, 0, "all but one hit are at snapshots within: {stats:?}");
    }
}

/// Each turn gives the whole conversation: only what is new is read.
#[test]
fn a_conversation_is_prefilled_once() {
    let mut compared = 0;
    for seed in 0..6 {
        let model = tiny(seed);
        for builder in backends() {
            let mut session = cached(&builder, 0).open(&model.path).unwrap();
            let tokenizer = session.tokenizer().unwrap().clone();
            let answer = generate(&mut session, LONG, 6);
            let second = [LONG, &tokenizer.decode(&answer).unwrap(), b"?"].concat();
            let read = [tokenizer.encode(LONG), answer.clone()].concat();
            if answer.len() < 6 || !tokenizer.encode(&second).starts_with(&read) {
                // The answer ended, or as text it is other tokens: another turn would not begin alike.
                continue;
            }
            session.reset().unwrap();
            let next = (generate(&mut session, &second, 6), session.state().unwrap());
            let stats = session.prefix_stats().unwrap();
            assert_eq!((stats.hits, stats.tokens_saved), (1, read.len() as u64 - 1));

            let mut going_on = builder.open(&model.path).unwrap();
            generate(&mut going_on, LONG, 6);
            let unread = [&tokenizer.decode(&answer[5..]).unwrap()[..], b"?"].concat();
            assert!((generate(&mut going_on, &unread, 6), going_on.state().unwrap()) == next);
            compared += 1;
        }
    }
    assert!(compared > 0, "no answer is the same tokens as text");
}

#[test]
fn prefixes_after_another_state_are_not_shared() {
    let model = tiny(1);
    let file = model.folder.path().join("state");
    let mut elsewhere = on_cpu(&model);
    elsewhere.prefill(&[4, 5, 6]).unwrap();
    elsewhere.save_state(&file).unwrap();
    let other = elsewhere.state().unwrap();
    for builder in backends() {
        let mut session = cached(&builder, 0).open(&model.path).unwrap();
        let fresh = generate(&mut session, LONG, 9);
        session.set_state(&other).unwrap();
        let after = (generate(&mut session, LONG, 9), session.state().unwrap());
        assert!(after.0 != fresh);
        let mut plain = builder.open(&model.path).unwrap();
        plain.set_state(&other).unwrap();
        assert!((generate(&mut plain, LONG, 9), plain.state().unwrap()) == after);
        assert_eq!(session.prefix_stats().unwrap().hits, 0);
        session.load_state(&file).unwrap();
        generate(&mut session, LONG, 9);
        assert_eq!(session.prefix_stats().unwrap().hits, 1, "the same state is the same beginning");
        // Tokens that were read some other way count.
        session.reset().unwrap();
        session.decode(u32::from(LONG[0]) + 1).unwrap();
        generate(&mut session, &LONG[1..], 9);
        assert_eq!(session.prefix_stats().unwrap().hits, 2);
    }
}

#[test]
fn a_budget_is_kept() {
    let model = tiny(1);
    let state: u64 = StateData::zero(&SHAPE).0.iter().map(|(_, data)| 4 * data.len() as u64).sum();
    let budget = 3 * state;
    let options = PrefixOptions { budget, every: NonZeroUsize::new(1) };
    let mut session = backends()[1].clone().prefix_cache(Some(options)).open(&model.path).unwrap();
    generate(&mut session, LONG, 3);
    let stats = session.prefix_stats().unwrap();
    assert!(stats.states == 2 && stats.evicted >= 4 && stats.bytes <= budget, "{stats:?}");
}

/// An act on one sequence.
#[derive(Clone, Debug)]
enum Do {
    /// Letters of the sequence's own, so that it starts from what it has read itself: others may have cut it elsewhere.
    Generate(Vec<u8>, usize),
    Read(Vec<u32>),
    Embed(Vec<Vec<u32>>),
    Reset,
    Fork,
    Restore,
}

fn steps() -> impl Strategy<Value = Do> {
    let tokens = || prop::collection::vec(0..SHAPE.vocab, 1..30);
    // Few letters, so that prompts of one sequence begin alike.
    let prompt = prop::collection::vec(0u8..2, 1..40);
    prop_oneof![
        4 => (prompt, 0usize..5).prop_map(|(prompt, most)| Do::Generate(prompt, most)),
        2 => tokens().prop_map(Do::Read),
        2 => prop::collection::vec(tokens(), 1..4).prop_map(Do::Embed),
        1 => Just(Do::Reset),
        1 => Just(Do::Fork),
        1 => Just(Do::Restore),
    ]
}

/// Does it; returns all that can be seen of it.
fn act(who: usize, session: &mut Session, saved: &mut Option<StateData>, step: &Do) -> (Vec<f32>, StateData) {
    let seen = match step {
        Do::Generate(letters, most) => {
            let prompt: Vec<u8> = letters.iter().map(|letter| b'a' + 2 * who as u8 + letter).collect();
            generate(session, &prompt, *most).into_iter().map(|t| t as f32).collect()
        }
        Do::Read(tokens) => session.prefill(tokens).unwrap(),
        Do::Embed(texts) => {
            session.embed_batch(texts, &EmbedOptions::default(), &CancelToken::default()).unwrap().concat()
        }
        Do::Reset => {
            session.reset().unwrap();
            Vec::new()
        }
        Do::Fork => {
            *session = session.fork().unwrap();
            Vec::new()
        }
        Do::Restore => {
            let now = session.state().unwrap();
            session.set_state(saved.as_ref().unwrap_or(&now)).unwrap();
            *saved = Some(now);
            Vec::new()
        }
    };
    (seen, session.state().unwrap())
}

/// Three sequences on one set of weights and one cache, their steps interleaved, against each of them alone.
fn sequences_never_meet(builder: &SessionBuilder, model: &Tiny, cases: u32) {
    let strategy = prop::collection::vec((0usize..3, steps()), 1..14);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |steps| {
        let open = || cached(builder, 16).open(&model.path).unwrap();
        let mut first = open();
        let mut together = [first.fork().unwrap(), first.fork().unwrap(), first];
        let mut alone = [open(), open(), open()];
        let mut saved: [[Option<StateData>; 2]; 3] = Default::default();
        for (i, (who, step)) in steps.iter().enumerate() {
            let [a, b] = &mut saved[*who];
            let got = act(*who, &mut together[*who], a, step);
            prop_assert!(got == act(*who, &mut alone[*who], b, step), "step {}: {:?} of sequence {}", i, step, who);
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn sequences_never_meet_on_the_cpu() {
    sequences_never_meet(&backends()[1], &tiny(1), 16);
}

#[test]
fn sequences_never_meet_on_the_gpu() {
    sequences_never_meet(&backends()[0], &tiny(1), 4);
}
