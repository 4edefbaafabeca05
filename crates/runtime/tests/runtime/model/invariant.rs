//! A batch-invariant plan computes identical bits for a sequence at every batch size, at every position in the batch, and
//! however its tokens are split into passes.

use crate::model::world::{SHAPE, default_plan, device, model, planned, tokens};
use std::ops::ControlFlow;
use wgoose_graph::Level;
use wgoose_loader::synth::Mix;
use wgoose_runtime::{CancelToken, Continuation, Engine, Outputs, Penalties, Sampling, Sequence, Start, StateData};

/// Sequences there are.
const TEXTS: usize = 12;

/// Random schedules of each model; the variable `WGOOSE_INVARIANT_SCHEDULES` changes the number.
const SCHEDULES: u64 = 25;

/// The results of a sequence.
#[derive(Clone, PartialEq)]
struct Outcome {
    /// Bits of the logits after its last token.
    logits: Vec<u32>,
    state: StateData,
    /// Tokens that are chosen next, and the state after them.
    chosen: Vec<u32>,
    after: StateData,
}

/// Each text alone in one pass, and then in random batches, pieces and slots.
#[test]
fn a_sequence_has_the_same_bits_in_every_batch() {
    let schedules = std::env::var("WGOOSE_INVARIANT_SCHEDULES").map_or(SCHEDULES, |n| n.parse().unwrap());
    let device = device();
    for mix in [Mix::F16, Mix::Q4_K_M] {
        let model = model(mix);
        let plan = default_plan(&device, &model).batch_invariant();
        let mut engine = planned(&device, &model, plan, TEXTS).unwrap();
        let texts: Vec<Vec<u32>> = (0..TEXTS).map(|i| tokens(i as u32 + 1, 1 + i * i % 23)).collect();
        let alone: Vec<Outcome> = texts
            .iter()
            .enumerate()
            .map(|(i, text)| {
                let logits = engine.forward(&[last(0, text)]).unwrap().remove(0);
                let outcome = outcomes(&mut engine, &[(i, 0)], &[logits]).remove(0);
                reset(&mut engine);
                outcome
            })
            .collect();
        for seed in 0..schedules {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut places: Vec<(usize, usize)> = (0..TEXTS).zip(shuffled(&mut rng)).collect();
            rng.shuffle(&mut places);
            places.truncate(1 + rng.usize(..TEXTS));
            let logits = read_in_pieces(&mut engine, &texts, &places, &mut rng);
            for ((text, slot), got) in places.iter().zip(outcomes(&mut engine, &places, &logits)) {
                assert!(got == alone[*text], "{mix:?}, seed {seed}: text {text} in slot {slot} of {places:?}");
            }
            reset(&mut engine);
        }
    }
}

/// Embeddings are made of hidden states.
#[test]
fn hidden_states_have_the_same_bits_in_every_batch() {
    let (device, model) = (device(), model(Mix::F16));
    let plan = default_plan(&device, &model).batch_invariant();
    let mut engine = planned(&device, &model, plan, 4).unwrap();
    let texts = [tokens(1, 9), tokens(2, 1), tokens(3, 30), tokens(4, 3)];
    let never = CancelToken::default();
    let mut alone = Vec::new();
    for text in &texts {
        alone.extend(engine.hidden(&[last(0, text)], Level::Final, &never).unwrap());
        reset(&mut engine);
    }
    let sequences: Vec<Sequence<'_>> = texts.iter().enumerate().map(|(i, text)| last(3 - i, text)).collect();
    let together = engine.hidden(&sequences, Level::Final, &never).unwrap();
    assert!(together.iter().map(|rows| bits(rows)).eq(alone.iter().map(|rows| bits(rows))));
}

/// The tests above can fail: the default plan has other kernels for one row than for many.
#[test]
fn the_default_plan_varies_with_the_batch() {
    let (device, model) = (device(), model(Mix::F16));
    let mut engine = planned(&device, &model, default_plan(&device, &model), 4).unwrap();
    let text = tokens(1, 20);
    let whole = engine.forward(&[last(0, &text)]).unwrap().remove(0);
    reset(&mut engine);
    let mut pieces = Vec::new();
    for token in &text {
        pieces = engine.forward(&[last(0, std::slice::from_ref(token))]).unwrap().remove(0);
    }
    assert_ne!(bits(&whole), bits(&pieces));
}

fn last(slot: usize, tokens: &[u32]) -> Sequence<'_> {
    Sequence { slot, tokens, outputs: Outputs::Last }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn reset(engine: &mut Engine) {
    engine.reset(0..engine.slots()).unwrap();
}

/// The slots in a random order.
fn shuffled(rng: &mut fastrand::Rng) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..TEXTS).collect();
    rng.shuffle(&mut slots);
    slots
}

/// Reads the texts in passes that have pieces of some of them, which join and end at different times; the logits after
/// each.
fn read_in_pieces(
    engine: &mut Engine,
    texts: &[Vec<u32>],
    places: &[(usize, usize)],
    rng: &mut fastrand::Rng,
) -> Vec<Vec<f32>> {
    let mut read = vec![0; places.len()];
    let mut logits = vec![Vec::new(); places.len()];
    while read.iter().zip(places).any(|(read, (text, _))| *read < texts[*text].len()) {
        let mut batch = Vec::new();
        for (i, (text, slot)) in places.iter().enumerate() {
            let left = texts[*text].len() - read[i];
            if left > 0 && rng.bool() {
                let piece = 1 + rng.usize(..left);
                batch.push((i, last(*slot, &texts[*text][read[i]..read[i] + piece])));
                read[i] += piece;
            }
        }
        rng.shuffle(&mut batch);
        if batch.is_empty() {
            continue;
        }
        let (which, sequences): (Vec<usize>, Vec<Sequence<'_>>) = batch.into_iter().unzip();
        for (i, got) in which.into_iter().zip(engine.forward(&sequences).unwrap()) {
            logits[i] = got;
        }
    }
    logits
}

/// The states of sequences, the tokens that they choose next in one batch, and the states after those.
fn outcomes(engine: &mut Engine, places: &[(usize, usize)], logits: &[Vec<f32>]) -> Vec<Outcome> {
    let states: Vec<StateData> = places.iter().map(|(_, slot)| engine.state(*slot).unwrap()).collect();
    let penalties = Penalties { presence: 0.5, frequency: 0.1, decay: 0.9, ..Penalties::default() };
    let sampling = |text: usize| Sampling { penalties, seed: 3, stream: text as u32, ..Sampling::default() };
    let sequences: Vec<Continuation<'_>> =
        places.iter().map(|(text, slot)| Continuation::new(*slot, sampling(*text), 5)).collect();
    let mut chosen = vec![Vec::new(); places.len()];
    let start = logits.concat();
    assert_eq!(start.len(), places.len() * SHAPE.vocab as usize);
    engine
        .decode(Start::Logits(&start), &sequences, 3, &mut |step| {
            chosen.iter_mut().zip(step).for_each(|(text, chosen)| text.extend(chosen.map(|chosen| chosen.token)));
            ControlFlow::Continue(())
        })
        .unwrap();
    let after = places.iter().map(|(_, slot)| engine.state(*slot).unwrap());
    let each = states.into_iter().zip(logits).zip(chosen).zip(after);
    each.map(|(((state, logits), chosen), after)| Outcome { logits: bits(logits), state, chosen, after }).collect()
}
