//! However a text is cut into calls and passes, it is the same text.

use crate::model::numbers::{Result, Tolerance, assert_agree, disagreement};
use crate::model::world::{SHAPE, cpu, device, forget, gpu, model, read, tokens};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use wgoose_loader::synth::Mix;
use wgoose_runtime::{Engine, Outputs, Sequence};

/// Most tokens of a text.
const LONGEST: usize = 70;

/// Calls of these lengths, in passes of at most `chunk` tokens.
fn cuts() -> impl Strategy<Value = (Vec<usize>, usize)> {
    (prop::collection::vec(1usize..LONGEST, 1..5), 1usize..65)
}

/// Reads the beginning of `text` in calls of the given lengths.
fn in_calls(engine: &mut Engine, text: &[u32], lengths: &[usize]) -> Result {
    forget(engine, 0);
    let mut rest = text;
    let mut logits = Vec::new();
    for length in lengths {
        let (now, later) = rest.split_at(rest.len().min(*length));
        if !now.is_empty() {
            logits.extend(read(engine, now));
        }
        rest = later;
    }
    (logits, engine.state(0).unwrap())
}

/// Compares random cuts with one token a call.
fn any_cut_agrees(mut engine: Engine, cases: u32, tolerance: Tolerance) {
    let text = tokens(1, LONGEST);
    // What the engine gives after each token, and its state then.
    forget(&mut engine, 0);
    let one_by_one: Vec<Result> =
        text.iter().map(|token| (read(&mut engine, &[*token]), engine.state(0).unwrap())).collect();
    let engine = Cell::new(Some(engine));
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let result = runner.run(&cuts(), |(lengths, chunk)| {
        let mut chunked = engine.take().unwrap().with_chunk(chunk);
        let got = in_calls(&mut chunked, &text, &lengths);
        engine.set(Some(chunked));
        let read = &one_by_one[..got.0.len() / SHAPE.vocab as usize];
        let want = (read.iter().flat_map(|(logits, _)| logits.clone()).collect(), read.last().unwrap().1.clone());
        prop_assert_eq!(disagreement(SHAPE.vocab, &got, &want, tolerance), None);
        Ok(())
    });
    result.unwrap();
}

#[test]
fn any_cut_of_a_text_agrees_on_the_cpu() {
    // Not bit for bit: the reference keeps the WKV state in double precision within a pass.
    any_cut_agrees(cpu(&model(Mix::F16), 1), 16, Tolerance::REFERENCE_SPLIT);
}

#[test]
fn any_cut_of_a_text_agrees_on_the_gpu() {
    any_cut_agrees(gpu(&device(), &model(Mix::F16), 1), 24, Tolerance::ROUNDING);
}

#[test]
fn quantised_on_the_gpu() {
    any_cut_agrees(gpu(&device(), &model(Mix::Q4_K_M), 1), 8, Tolerance::ROUNDING);
}

#[test]
fn the_last_logits_are_the_last_of_all() {
    let mut engine = gpu(&device(), &model(Mix::F16), 1).with_chunk(16);
    let tokens = tokens(2, 40);
    let all = read(&mut engine, &tokens);
    let state = engine.state(0).unwrap();
    forget(&mut engine, 0);
    let last = engine.forward(&[Sequence { slot: 0, tokens: &tokens, outputs: Outputs::Last }]).unwrap().remove(0);
    let tail = all[all.len() - SHAPE.vocab as usize..].to_vec();
    assert_agree("last", SHAPE.vocab, &(last, engine.state(0).unwrap()), &(tail, state), Tolerance::ROUNDING);
}
