//! Tokens chosen on the device, steps ahead of the caller: the same text and the same states as step by step.

use crate::model::world::{SHAPE, all, default_plan, device, gpu, model, tokens};
use std::ops::ControlFlow;
use std::sync::Arc;
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{
    BatchError, Continuation, DecodeError, Device, DeviceOptions, Engine, GpuExecutor, Outputs, Residency,
    RuntimeError, Sampling, Sequence, Start, StateData,
};

const GREEDY: Sampling = Sampling::GREEDY;

fn continuation(slot: usize, sampling: Sampling, max_tokens: u32) -> Continuation<'static> {
    Continuation::new(slot, sampling, max_tokens)
}

fn argmax(logits: &[f32]) -> u32 {
    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|x| *x == best).unwrap() as u32
}

/// Reads a prompt of its own into each of the first slots; the logits after each.
fn read_prompts(engine: &mut Engine, slots: usize) -> Vec<f32> {
    let prompts: Vec<Vec<u32>> = (0..slots).map(|slot| tokens(slot as u32 + 1, 7 + slot)).collect();
    let last = |(slot, tokens): (usize, &'_ Vec<u32>)| (slot, tokens.clone());
    let prompts: Vec<(usize, Vec<u32>)> = prompts.iter().enumerate().map(last).collect();
    let sequences: Vec<Sequence<'_>> =
        prompts.iter().map(|(slot, tokens)| Sequence { slot: *slot, tokens, outputs: Outputs::Last }).collect();
    engine.forward(&sequences).unwrap().concat()
}

fn states(engine: &mut Engine, slots: usize) -> Vec<StateData> {
    (0..slots).map(|slot| engine.state(slot).unwrap()).collect()
}

/// Decodes until it is over or `stop_after` rounds were seen; the tokens of each sequence, and how many steps were
/// repeated.
fn decode(
    engine: &mut Engine,
    start: Start<'_>,
    sequences: &[Continuation<'_>],
    in_flight: usize,
    stop_after: usize,
) -> (Vec<Vec<u32>>, u64) {
    let mut texts = vec![Vec::new(); sequences.len()];
    let mut rounds = 0;
    let report = engine.decode(start, sequences, in_flight, &mut |chosen| {
        texts.iter_mut().zip(chosen).for_each(|(text, chosen)| text.extend(chosen.map(|chosen| chosen.token)));
        rounds += 1;
        if rounds == stop_after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let report = report.unwrap();
    assert_eq!(report.rounds, rounds as u64);
    (texts, report.repeated)
}

/// Lets each of the first slots read a text of its own but for the last token, a token a pass, always all in a batch:
/// those whose text is over read on in slots behind.
fn read_one_by_one(engine: &mut Engine, texts: &[Vec<u32>]) {
    let slots = texts.len();
    for i in 0..texts.iter().map(Vec::len).max().unwrap_or(0) - 1 {
        let read = |slot: usize| match texts[slot].get(i).filter(|_| i + 1 < texts[slot].len()) {
            Some(token) => (slot, [*token]),
            None => (slots + slot, [0]),
        };
        let reads: Vec<(usize, [u32; 1])> = (0..slots).map(read).collect();
        engine.forward(&reads.iter().map(|(slot, token)| all(*slot, token)).collect::<Vec<_>>()).unwrap();
    }
}

#[test]
fn greedy_decode_follows_the_logits() {
    let (device, model) = (device(), model(Mix::Q8_0));
    for slots in [1, 3] {
        let mut engine = gpu(&device, &model, slots);
        let vocab = SHAPE.vocab as usize;
        // Step by step, on logits read back.
        let mut logits = read_prompts(&mut engine, slots);
        let start = logits.clone();
        let before = states(&mut engine, slots);
        let mut want = vec![Vec::new(); slots];
        for _ in 0..64 {
            let next: Vec<[u32; 1]> = logits.chunks(vocab).map(|row| [argmax(row)]).collect();
            want.iter_mut().zip(&next).for_each(|(text, id)| text.push(id[0]));
            let reads: Vec<Sequence<'_>> = next.iter().enumerate().map(|(slot, id)| all(slot, id)).collect();
            if want[0].len() < 64 {
                logits = engine.forward(&reads).unwrap().concat();
            }
        }
        let after = states(&mut engine, slots);
        for in_flight in [1, 2, 5] {
            before.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
            let sequences: Vec<_> = (0..slots).map(|slot| continuation(slot, GREEDY, 64)).collect();
            let (texts, repeated) = decode(&mut engine, Start::Logits(&start), &sequences, in_flight, usize::MAX);
            assert_eq!(texts, want, "{slots} sequences, {in_flight} in flight");
            assert_eq!(repeated, 0);
            assert!(states(&mut engine, slots) == after, "{slots} sequences, {in_flight} in flight");
        }
        // From a token instead, the first that was chosen.
        before.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
        let first: Vec<u32> = want.iter().map(|text| text[0]).collect();
        let sequences: Vec<_> = (0..slots).map(|slot| continuation(slot, GREEDY, 63)).collect();
        let (texts, _) = decode(&mut engine, Start::Tokens(&first), &sequences, 3, usize::MAX);
        assert!(texts.iter().zip(&want).all(|(got, want)| got == &want[1..]));
        assert!(states(&mut engine, slots) == after, "from tokens");
    }
}

/// A prompt whose last logits stay on the device is continued as one whose logits came back, whatever ran in between.
#[test]
fn logits_kept_on_the_device_begin_an_equal_text() {
    let (device, model) = (device(), model(Mix::F16));
    let prompts = [tokens(5, 1), tokens(6, 9), tokens(7, 40)];
    let mut engine = gpu(&device, &model, 2).with_chunk(16);
    let sequences = [continuation(0, Sampling { seed: 9, ..Sampling::default() }, 20)];
    for prompt in &prompts {
        engine.reset(0..2).unwrap();
        let start = engine.forward(&[Sequence { slot: 0, tokens: prompt, outputs: Outputs::Last }]).unwrap().concat();
        let (want, _) = decode(&mut engine, Start::Logits(&start), &sequences, 3, usize::MAX);
        let state = engine.state(0).unwrap();
        engine.reset(0..2).unwrap();
        assert_eq!(engine.read(0, prompt, &mut |_| ControlFlow::Continue(())).unwrap(), prompt.len());
        engine.forward(&[all(1, &[1, 2, 3])]).unwrap();
        let (got, _) = decode(&mut engine, Start::Kept, &sequences, 3, usize::MAX);
        assert_eq!(got, want, "{} tokens", prompt.len());
        assert!(engine.state(0).unwrap() == state);
    }
    // One that was not read to its end has no last logits; neither has another sequence.
    let refused = |engine: &mut Engine, slot| {
        let sequences = [continuation(slot, GREEDY, 1)];
        let refused = engine.decode(Start::Kept, &sequences, 3, &mut |_| panic!("a token")).unwrap_err();
        assert!(matches!(refused, RuntimeError::Decode(DecodeError::NotKept)), "{refused}");
    };
    refused(&mut engine, 1);
    assert_eq!(engine.read(0, &prompts[2], &mut |_| ControlFlow::Break(())).unwrap(), 16);
    refused(&mut engine, 0);
}

/// However a text ends, the state is that after all its tokens but the last, bit for bit.
#[test]
fn steps_that_ran_ahead_leave_no_trace_in_the_state() {
    let (device, model) = (device(), model(Mix::F16));
    let slots = 3;
    let mut engine = gpu(&device, &model, 2 * slots);
    let start = read_prompts(&mut engine, slots);
    let before = states(&mut engine, slots);
    let hot = |slot: usize| Sampling { stream: slot as u32, seed: 5, ..Sampling::default() };
    let sequences: Vec<_> = (0..slots).map(|slot| continuation(slot, hot(slot), 80)).collect();
    let (texts, _) = decode(&mut engine, Start::Logits(&start), &sequences, 3, usize::MAX);
    assert_eq!(texts.iter().map(Vec::len).collect::<Vec<_>>(), [80; 3]);
    assert_ne!(texts[0], texts[1]);
    // The second sequence ends at a token of its text, the third at a number; the caller breaks here and there: at
    // first, within and at the ends of stretches.
    let stops = [SHAPE.vocab + 7, texts[1][44]];
    let second = texts[1].iter().position(|id| *id == stops[1]).unwrap() + 1;
    let sequences = [
        continuation(0, hot(0), 80),
        Continuation { stops: &stops, ..continuation(1, hot(1), 80) },
        continuation(2, hot(2), 39),
    ];
    let mut repeated_any = 0;
    for (in_flight, stop_after) in
        [(3, usize::MAX), (1, 20), (2, 1), (3, 2), (3, 31), (3, 32), (2, 33), (5, 40), (3, 70), (3, 79), (3, 80)]
    {
        before.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
        let (got, repeated) = decode(&mut engine, Start::Logits(&start), &sequences, in_flight, stop_after);
        let ends = [80, second, 39].map(|end: usize| end.min(stop_after));
        let want: Vec<Vec<u32>> = (0..slots).map(|i| texts[i][..ends[i]].to_vec()).collect();
        assert_eq!(got, want, "{in_flight} in flight, broken after {stop_after}");
        let got = states(&mut engine, slots);
        before.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
        read_one_by_one(&mut engine, &want);
        assert!(got == states(&mut engine, slots), "{in_flight} in flight, broken after {stop_after}");
        repeated_any += repeated;
    }
    assert!(repeated_any > 0, "no break had anything to take back");
}

/// States that are taken back return to the sequences that they are of, wherever these lie and in whatever order.
#[test]
fn scattered_sequences_get_their_own_states_back() {
    let (device, model) = (device(), model(Mix::F16));
    let slots = 6;
    let mut engine = gpu(&device, &model, slots);
    let start = read_prompts(&mut engine, slots);
    let before = states(&mut engine, slots);
    for order in [vec![4, 0, 5, 1], vec![2, 1, 0], vec![5, 3, 1]] {
        let rows = order.iter().flat_map(|slot| start.chunks(SHAPE.vocab as usize).nth(*slot).unwrap());
        let logits: Vec<f32> = rows.copied().collect();
        let sequences: Vec<_> = order.iter().map(|slot| continuation(*slot, GREEDY, 60)).collect();
        // One step in flight: nothing is taken back.
        let ended = [(1, 0), (4, 1)].map(|(in_flight, least)| {
            before.iter().enumerate().for_each(|(slot, state)| engine.set_state(slot, state).unwrap());
            let (texts, repeated) = decode(&mut engine, Start::Logits(&logits), &sequences, in_flight, 37);
            assert!(repeated >= least, "{order:?}, {in_flight} in flight");
            (texts, states(&mut engine, slots))
        });
        assert!(ended[0] == ended[1], "{order:?}");
    }
}

#[test]
fn impossible_decodes_are_refused_and_change_no_state() {
    let mut engine = gpu(&device(), &model(Mix::F16), 2);
    let start = read_prompts(&mut engine, 2);
    let before = states(&mut engine, 2);
    let mut refused = |start: Start<'_>, sequences: &[Continuation<'_>]| {
        engine.decode(start, sequences, 3, &mut |_| panic!("a round was run")).unwrap_err()
    };
    let one = [continuation(0, GREEDY, 4)];
    assert!(matches!(refused(Start::Tokens(&[]), &[]), RuntimeError::Decode(DecodeError::NoSequences)));
    for bad in [Start::Tokens(&[1, 2]), Start::Logits(&start)] {
        assert!(matches!(refused(bad, &one), RuntimeError::Decode(DecodeError::Start { .. })));
    }
    let vocab = [SHAPE.vocab];
    assert!(matches!(refused(Start::Tokens(&vocab), &one), RuntimeError::Batch(BatchError::Token { .. })));
    let twice = [one[0], one[0]];
    assert!(matches!(refused(Start::Logits(&start), &twice), RuntimeError::Batch(BatchError::SharedSlot(0, 1))));
    let beyond = [continuation(2, GREEDY, 4)];
    assert!(matches!(refused(Start::Tokens(&[1]), &beyond), RuntimeError::Batch(BatchError::Slot { slot: 2, .. })));
    let cold = [continuation(0, Sampling { temperature: -1.0, ..GREEDY }, 4)];
    assert!(matches!(refused(Start::Tokens(&[1]), &cold), RuntimeError::Decode(DecodeError::Setting { .. })));
    assert!(states(&mut engine, 2) == before);
    // Nothing asked for, nothing done.
    let nothing = engine.decode(Start::Tokens(&[1]), &[continuation(0, GREEDY, 0)], 3, &mut |_| panic!("a round"));
    assert_eq!(nothing.unwrap().rounds, 0);
    assert!(states(&mut engine, 2) == before);
}

#[test]
fn broken_logits_spoil_the_sequences() {
    let mut engine = gpu(&device(), &model(Mix::F16), 1);
    let logits = vec![f32::NAN; SHAPE.vocab as usize];
    let result = engine.decode(Start::Logits(&logits), &[continuation(0, GREEDY, 4)], 3, &mut |_| panic!("a token"));
    assert!(matches!(result, Err(RuntimeError::Decode(DecodeError::NoToken { sequence: 0, .. }))));
    assert!(matches!(engine.state(0), Err(RuntimeError::Batch(BatchError::Invalidated { slot: 0, .. }))));
    engine.set_state(0, &StateData::zero(&SHAPE)).unwrap();
    assert_eq!(decode(&mut engine, Start::Tokens(&[1]), &[continuation(0, GREEDY, 4)], 3, 9).0[0].len(), 4);
}

#[test]
fn weights_that_take_turns_are_not_decoded_with() {
    let (device, model) = (device(), model(Mix::F16));
    let engine = |budget: u64| {
        let plan = default_plan(&device, &model);
        let mut executor = GpuExecutor::new(Arc::clone(&device), Arc::clone(&model), plan, catalogue::embedded(), 1)?;
        executor.set_residency(Residency::Budget(budget))?;
        Ok::<Engine, RuntimeError>(Engine::new(Box::new(executor), 16))
    };
    let Err(RuntimeError::BudgetTooSmall { need, .. }) = engine(1) else { panic!("a budget of one byte was enough") };
    let mut turns = engine(need).unwrap();
    assert!(!turns.can_decode());
    let refused = turns.decode(Start::Tokens(&[1]), &[continuation(0, GREEDY, 4)], 3, &mut |_| panic!("a round"));
    assert!(matches!(refused, Err(RuntimeError::Decode(DecodeError::Unsupported))));
    // Where everything fits there is no copy of the state, and no step is run ahead.
    let mut fits = engine(1 << 30).unwrap();
    let (texts, repeated) = decode(&mut fits, Start::Tokens(&[1]), &[continuation(0, GREEDY, 9)], 3, 5);
    assert_eq!((texts[0].len(), repeated), (5, 0));
    let got = fits.state(0).unwrap();
    fits.set_state(0, &StateData::zero(&SHAPE)).unwrap();
    read_one_by_one_from(&mut fits, 1, &texts[0]);
    assert!(got == fits.state(0).unwrap());
}

#[test]
fn a_device_without_room_for_a_spare_state_refuses_decode() {
    let model = model(Mix::F16);
    let tight = Device::open_limited(&DeviceOptions::default(), &|l| l.storage_binding = 1 << 16).unwrap();
    let mut engine = gpu(&tight, &model, 1).with_chunk(8);
    assert!(!engine.can_decode());
    engine.forward(&[all(0, &[1])]).unwrap();
    let refused = engine.decode(Start::Tokens(&[1]), &[continuation(0, GREEDY, 4)], 3, &mut |_| panic!("a round"));
    assert!(matches!(refused, Err(RuntimeError::Decode(DecodeError::Unsupported))));
}

/// As [`read_one_by_one`], for one sequence that began with a token.
fn read_one_by_one_from(engine: &mut Engine, first: u32, text: &[u32]) {
    for token in std::iter::once(&first).chain(&text[..text.len() - 1]) {
        engine.forward(&[all(0, &[*token])]).unwrap();
    }
}
