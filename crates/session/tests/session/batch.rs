//! Sequences of a batch are those that are generated alone, whoever joins and leaves beside them.

use crate::support::{SHAPE, Tiny, tiny};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};
use wgoose_session::grammar::{GrammarCompiler, GrammarSource};
use wgoose_session::sampling::{Penalties, SamplerOptions, SamplerOptionsError};
use wgoose_session::tokenizer::Tokenizer;
use wgoose_session::{
    Backend, BatchEvent, BatchRequest, Chat, ChatMessage, ChatOptions, Ending, GenerateOptions, Generated,
    GenerationEvent, NEXT_USER, PrefixOptions, SequenceId, Session, SessionBatch, SessionError, StateData, StateEnd,
    conversation,
};

const PROMPTS: [&[u8]; 3] = [b"A goose", b"x", "The gr\u{fc}ne Gans fliegt".as_bytes()];

/// Settings that differ in all that can.
fn settings() -> Vec<GenerateOptions> {
    let default = GenerateOptions::default;
    let greedy = SamplerOptions { temperature: 0.0, ..SamplerOptions::default() };
    let penalties = Penalties { presence: 0.5, frequency: 0.5, repetition: 1.1, decay: 0.9 };
    let repelled = SamplerOptions { penalties, ..greedy.clone() };
    let typical =
        SamplerOptions { typical: 0.7, top_p: 0.95, min_p: 0.02, seed: 4, penalties, ..SamplerOptions::default() };
    let banned = (0..100).map(|token| (token, f32::NEG_INFINITY)).collect();
    let biased = SamplerOptions { bias: banned, seed: 9, top_k: NonZeroUsize::new(30), ..SamplerOptions::default() };
    let stop_strings = ["e", "\n", "a"].map(str::to_owned).to_vec();
    let compile = |source: &GrammarSource| Some(compiler().compile(source).unwrap());
    let regex = compile(&GrammarSource::Regex("[a-z ]{3,30}!".to_owned()));
    let choice = compile(&GrammarSource::Choice(vec!["goose".to_owned(), "geese".to_owned()]));
    let repelled_in_it = SamplerOptions { penalties, seed: 6, ..SamplerOptions::default() };
    vec![
        GenerateOptions { sampling: greedy, max_tokens: 9, ..default() },
        GenerateOptions { sampling: repelled, max_tokens: 14, ..default() },
        GenerateOptions { sampling: typical, max_tokens: 12, ..default() },
        GenerateOptions { sampling: biased, max_tokens: 1, ..default() },
        GenerateOptions { max_tokens: 40, stop_strings, ..default() },
        GenerateOptions { max_tokens: 40, stop_tokens: (0..20).chain(60..110).collect(), ..default() },
        GenerateOptions { max_tokens: 0, ..default() },
        GenerateOptions { max_tokens: 40, grammar: regex, sampling: repelled_in_it, ..default() },
        GenerateOptions { max_tokens: 3, grammar: choice, ..default() },
    ]
}

/// The compiler of grammars for [`tiny`].
fn compiler() -> &'static GrammarCompiler {
    static COMPILER: LazyLock<GrammarCompiler> = LazyLock::new(|| {
        let vocab = SHAPE.vocab as usize;
        GrammarCompiler::new(Tokenizer::world().truncated(vocab).unwrap(), vocab)
    });
    &COMPILER
}

fn open(model: &Tiny, backend: Backend) -> Session {
    Session::builder().backend(backend).open(&model.path).unwrap()
}

/// The text that a single sequence generates, for every prompt and setting.
type Alone = BTreeMap<(usize, usize), (String, Generated)>;

fn alone(session: &mut Session, prefix: &[u32]) -> Alone {
    let mut all = Alone::new();
    for (p, prompt) in PROMPTS.iter().enumerate() {
        for (s, options) in settings().iter().enumerate() {
            session.reset().unwrap();
            if !prefix.is_empty() {
                session.prefill(prefix).unwrap();
            }
            let mut text = String::new();
            let generated = session.generate(prompt, options, &mut |event| {
                if let GenerationEvent::Text(piece) = event {
                    text.push_str(piece);
                }
                ControlFlow::Continue(())
            });
            all.insert((p, s), (text, generated.unwrap()));
        }
    }
    session.reset().unwrap();
    all
}

#[derive(Clone, Debug)]
enum Move {
    Join(usize, usize),
    Steps(usize),
    Leave(prop::sample::Index),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        3 => (0..PROMPTS.len(), 0..settings().len()).prop_map(|(prompt, setting)| Move::Join(prompt, setting)),
        3 => (1usize..6).prop_map(Move::Steps),
        1 => any::<prop::sample::Index>().prop_map(Move::Leave),
    ];
    prop::collection::vec(one, 1..30)
}

/// Plays moves on a batch; every sequence must be as it is alone.
fn play(batch: &mut SessionBatch, tokenizer: &Tokenizer, alone: &Alone, moves: &[Move]) {
    let mut going: BTreeMap<SequenceId, ((usize, usize), String)> = BTreeMap::new();
    let take = |going: &mut BTreeMap<SequenceId, ((usize, usize), String)>, events: Vec<BatchEvent>| {
        for event in events {
            match event {
                BatchEvent::Admitted(id, known) => assert!(going.contains_key(&id) && known == 0),
                BatchEvent::State(id, _) => panic!("{id} did not ask for its state"),
                BatchEvent::Logprobs(id, _) => panic!("{id} did not ask for log-probabilities"),
                BatchEvent::Failed(id, why) => panic!("{id}: {why}"),
                BatchEvent::Text(id, text) => {
                    assert!(!text.is_empty());
                    going.get_mut(&id).unwrap().1.push_str(&text);
                }
                BatchEvent::Ended(id, generated) => {
                    let (what, text) = going.remove(&id).unwrap();
                    assert_eq!((text, generated), alone[&what], "{what:?}");
                }
            }
        }
    };
    let mut most = 0;
    for step in moves {
        most = most.max(batch.sequences().count());
        match step {
            Move::Join(prompt, setting) => {
                let room = batch.room();
                match batch.join(PROMPTS[*prompt], &settings()[*setting]) {
                    Ok(id) => assert!(room > 0 && going.insert(id, ((*prompt, *setting), String::new())).is_none()),
                    Err(SessionError::NoRoom(capacity)) => assert!(room == 0 && capacity == batch.capacity()),
                    Err(why) => panic!("{why}"),
                }
            }
            Move::Steps(steps) => {
                let before: Vec<SequenceId> = batch.sequences().collect();
                let events = batch.steps(NonZeroUsize::new(*steps).unwrap()).unwrap();
                take(&mut going, events);
                assert!(batch.sequences().all(|id| before.contains(&id)));
            }
            Move::Leave(index) => {
                let Some(id) = batch.sequences().nth(index.index(batch.sequences().count().max(1))) else { continue };
                let (what, mut text) = going.remove(&id).unwrap();
                let (rest, generated) = batch.leave(id).unwrap();
                text.push_str(&rest);
                let (_, want) = &alone[&what];
                assert_eq!(generated.ending, Ending::Caller);
                assert_eq!(generated.tokens, want.tokens[..generated.tokens.len()]);
                // All that its tokens say; of a character that was cut, a mark is left.
                let said = tokenizer.decode(&generated.tokens).unwrap();
                assert_eq!(text, String::from_utf8_lossy(&said));
                assert!(matches!(batch.leave(id), Err(SessionError::NoSequence(_))));
            }
        }
        assert_eq!(batch.sequences().count() + batch.room(), batch.capacity());
    }
    while !batch.is_idle() {
        let events = batch.step().unwrap();
        take(&mut going, events);
    }
    assert!(going.is_empty(), "{going:?} never ended");
    assert_eq!(batch.room(), batch.capacity());
}

#[test]
fn a_batch_on_the_cpu_equals_single_sequences() {
    let model = tiny(3);
    let mut session = open(&model, Backend::Cpu);
    let alone = alone(&mut session, &[]);
    assert!(alone.values().any(|(_, g)| matches!(g.ending, Ending::StopString(_))));
    assert!(alone.values().any(|(_, g)| matches!(g.ending, Ending::StopToken(_))));
    let tokenizer = session.tokenizer().unwrap().clone();
    let batch = RefCell::new(session.batch(3).unwrap());
    proptest!(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() }, |(moves in moves())| {
        play(&mut batch.borrow_mut(), &tokenizer, &alone, &moves);
    });
}

#[test]
fn a_batch_on_the_gpu_equals_single_sequences() {
    let model = tiny(3);
    let mut session = open(&model, Backend::Gpu);
    let alone = alone(&mut session, &[]);
    // More than fit the smallest buckets of a plan.
    let tokenizer = session.tokenizer().unwrap().clone();
    let batch = RefCell::new(session.batch(6).unwrap());
    assert_eq!(batch.borrow().capacity(), 6);
    proptest!(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() }, |(moves in moves())| {
        play(&mut batch.borrow_mut(), &tokenizer, &alone, &moves);
    });
}

#[test]
fn sequences_begin_with_the_state_of_the_session() {
    let model = tiny(3);
    for backend in [Backend::Cpu, Backend::Gpu] {
        let mut session = open(&model, backend);
        let prefix = [70, 80, 90];
        let alone = alone(&mut session, &prefix);
        session.prefill(&prefix).unwrap();
        let mut batch = session.batch(2).unwrap();
        // The session goes its own way.
        session.prefill(&[5, 6]).unwrap();
        play(
            &mut batch,
            session.tokenizer().unwrap(),
            &alone,
            &[Move::Join(0, 0), Move::Join(1, 1), Move::Steps(3), Move::Steps(90), Move::Join(2, 4)],
        );
    }
}

#[test]
fn a_refused_sequence_takes_no_slot() {
    let model = tiny(3);
    let mut batch = open(&model, Backend::Cpu).batch(1).unwrap();
    let ban = |tokens: std::ops::Range<u32>| {
        let bias = tokens.map(|token| (token, f32::NEG_INFINITY)).collect();
        GenerateOptions { sampling: SamplerOptions { bias, ..SamplerOptions::default() }, ..GenerateOptions::default() }
    };
    assert!(matches!(batch.join(b"", &GenerateOptions::default()), Err(SessionError::EmptyPrompt)));
    let error = batch.join(b"a", &ban(0..SHAPE.vocab + 1)).unwrap_err();
    assert!(
        matches!(error, SessionError::SamplerOptions(SamplerOptionsError::BiasToken { token: 320, .. })),
        "{error}"
    );
    let error = batch.join(b"a", &ban(0..SHAPE.vocab)).unwrap_err();
    assert!(error.to_string().contains("ruled out"), "{error}");
    assert_eq!(batch.room(), 1);
    batch.join(b"a", &GenerateOptions::default()).unwrap();
    assert!(matches!(batch.join(b"a", &GenerateOptions::default()), Err(SessionError::NoRoom(1))));
}

/// The state and the result of a request.
fn returned(batch: &mut SessionBatch, request: BatchRequest) -> (StateData, Generated) {
    batch.join_request(request).unwrap();
    let mut state = None;
    loop {
        for event in batch.step().unwrap() {
            match event {
                BatchEvent::State(_, at_end) => state = Some(Arc::unwrap_or_clone(at_end)),
                BatchEvent::Ended(_, generated) => return (state.unwrap(), generated),
                _ => {}
            }
        }
    }
}

/// The CPU reference rounds the state after each pass, and a chat has other passes than a batch.
fn assert_near(a: &StateData, b: &StateData) {
    for ((tensor, a), (_, b)) in a.0.iter().zip(&b.0) {
        let largest = a.iter().zip(b).map(|(a, b)| (a - b).abs() / (1.0 + b.abs())).fold(0.0, f32::max);
        assert!(largest < 0.01, "{tensor} differs by {largest}");
    }
}

#[test]
fn a_returned_state_contains_the_whole_text() {
    let model = tiny(3);
    let mut session = open(&model, Backend::Cpu);
    let tokenizer = session.tokenizer().unwrap().clone();
    let mut batch = session.batch(2).unwrap();
    let mut options = settings()[0].clone();
    let prompt = tokenizer.encode(b"A goose");
    let request = BatchRequest::new(prompt.clone(), options.clone());
    let (state, generated) = returned(&mut batch, BatchRequest { returned: Some(StateEnd::Text), ..request });
    session.prefill(&[prompt, generated.tokens].concat()).unwrap();
    assert_near(&state, &session.state().unwrap());

    // In a chat the state ends where the next message begins, as a saved chat does.
    session.reset().unwrap();
    let mut chat = Chat::new(session, ChatOptions { generate: options.clone(), ..ChatOptions::default() });
    chat.say("Honk?", &mut |_| ControlFlow::Continue(())).unwrap();
    chat.save(tempfile::tempdir().unwrap().path().join("chat.st")).unwrap();
    options.stop_strings.push(NEXT_USER.to_owned());
    let prompt = tokenizer.encode(conversation(&[ChatMessage::User("Honk?")], false).as_bytes());
    let request = BatchRequest::new(prompt, options);
    let (state, _) =
        returned(&mut batch, BatchRequest { returned: Some(StateEnd::NextMessage(NEXT_USER.into())), ..request });
    assert_near(&state, &chat.into_session().state().unwrap());
}

/// The device continues a sequence whose end only a stop string tells, beside the others: the states that are
/// returned and cached are those of the end all the same.
#[test]
fn a_stop_string_within_a_run_of_steps_leaves_the_state_of_the_end() {
    let model = tiny(3);
    let cache = Some(PrefixOptions::default());
    let mut session = Session::builder().prefix_cache(cache).open(&model.path).unwrap();
    let tokenizer = session.tokenizer().unwrap().clone();
    let prompt = tokenizer.encode(b"A goose");
    let long = GenerateOptions { max_tokens: 90, stop_tokens: Vec::new(), ..GenerateOptions::default() };
    let mut text = String::new();
    let seeded = |seed| SamplerOptions { seed, ..SamplerOptions::default() };
    let free = GenerateOptions { sampling: seeded(5), ..long.clone() };
    session
        .generate_after(&prompt, &free, &mut |event| {
            if let GenerationEvent::Text(piece) = event {
                text.push_str(piece);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    session.reset().unwrap();
    let mut batch = session.batch(2).unwrap();
    for at in [10, 25, 40] {
        // The text has what it has there; it may have it before.
        let stop: String = text.chars().skip(at).take(3).collect();
        let options = GenerateOptions { stop_strings: vec![stop], ..free.clone() };
        let mut request = BatchRequest::new(prompt.clone(), options);
        (request.returned, request.keep) = (Some(StateEnd::Text), true);
        batch.join_request(BatchRequest::new(vec![7], long.clone())).unwrap();
        let id = batch.join_request(request).unwrap();
        let (mut state, mut ended) = (None, None);
        while !batch.is_idle() {
            let most = NonZeroUsize::new(64).unwrap();
            batch
                .turn(most, &mut |event| match event {
                    BatchEvent::State(of, at_end) if of == id => state = Some(at_end),
                    BatchEvent::Ended(of, generated) if of == id => ended = Some(generated),
                    _ => {}
                })
                .unwrap();
        }
        let (state, generated) = (state.unwrap(), ended.unwrap());
        assert!(matches!(generated.ending, Ending::StopString(0)), "{:?}", generated.ending);
        let read = [&prompt[..], generated.read()].concat();
        session.reset().unwrap();
        session.prefill(&read).unwrap();
        assert_near(&state, &session.state().unwrap());
        // A prompt that continues the cached tokens gives the state of all its tokens.
        let mut cached = BatchRequest::new([&read[..], &[9]].concat(), free.clone());
        cached.returned = Some(StateEnd::Text);
        let (state, generated) = returned(&mut batch, cached);
        session.reset().unwrap();
        session.prefill(&[&read[..], &[9], &generated.tokens].concat()).unwrap();
        assert_near(&state, &session.state().unwrap());
    }
}
