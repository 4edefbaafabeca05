//! Passes follow one another without waiting for the host, and give what passes that wait give, to the bit.

use crate::model::world::{SHAPE, cpu, default_plan, device, forget, gpu, model, tokens};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use wgoose_graph::{Level, State};
use wgoose_loader::synth::Mix;
use wgoose_plans::catalogue;
use wgoose_runtime::{
    Batch, BatchError, CancelToken, Engine, Executor, GpuExecutor, Outputs, Residency, RuntimeError, Sequence,
};

fn executor(slots: usize) -> GpuExecutor {
    let (device, model) = (device(), model(Mix::F16));
    let plan = default_plan(&device, &model);
    GpuExecutor::new(device, model, plan, catalogue::embedded(), slots).unwrap()
}

/// Passes over a text, eight tokens each, of which the last row is wanted.
fn passes(count: usize) -> Vec<Batch> {
    let pack =
        |tokens: &[u32]| Batch::pack(&[Sequence { slot: 0, tokens, outputs: Outputs::Last }], SHAPE.vocab, 1).unwrap();
    tokens(3, 8 * count).chunks(8).map(pack).collect()
}

fn states() -> Vec<(usize, State)> {
    State::all(&SHAPE).map(|tensor| (0, tensor)).collect()
}

#[test]
fn passes_are_submitted_before_results_are_there() {
    let (mut waiting, mut ahead) = (executor(1), executor(1));
    let want: Vec<Vec<f32>> = passes(9).iter().map(|batch| waiting.run(batch).unwrap()).collect();
    let (drawn, got, fewest) = (Cell::new(0), RefCell::new(Vec::new()), Cell::new(usize::MAX));
    let mut batches = passes(9).into_iter().inspect(|_| drawn.set(drawn.get() + 1));
    let read = ahead.run_each(&mut batches, &states(), &mut |result| {
        let before = got.borrow().len();
        if drawn.get() < 9 {
            fewest.set(fewest.get().min(drawn.get() - before));
        }
        got.borrow_mut().push(result);
    });
    assert!(fewest.get() > 1, "at most {} passes were in flight", fewest.get());
    assert!(*got.borrow() == want);
    let state: Vec<_> = waiting.state(0).unwrap().0.into_iter().map(|(_, data)| data).collect();
    assert!(read.unwrap() == state);
}

#[test]
fn the_number_of_submissions_changes_no_bit() {
    let results = [0, 1, 2, 3, 1000].map(|submissions| {
        let mut executor = executor(1);
        NonZeroUsize::new(submissions).into_iter().for_each(|submissions| executor.submit_in(submissions));
        let results: Vec<Vec<f32>> = passes(3).iter().map(|batch| executor.run(batch).unwrap()).collect();
        (results, executor.state(0).unwrap())
    });
    assert!(results.iter().all(|other| *other == results[0]));
}

#[test]
fn a_single_call_equals_a_call_per_pass() {
    let engine = RefCell::new(gpu(&device(), &model(Mix::F16), 3));
    let outputs = prop::sample::select(vec![Outputs::None, Outputs::Last, Outputs::All]);
    // Every chunk has steps of its own to compile.
    let chunks = prop::sample::select(vec![5usize, 16]);
    let strategy = (prop::collection::vec((1usize..60, outputs), 1..4), chunks, any::<bool>());
    let config = Config { cases: 8, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&strategy, |(texts, chunk, hidden)| {
        let engine = &mut *engine.borrow_mut();
        let own = std::mem::replace(engine, cpu(&model(Mix::F16), 1));
        *engine = own.with_chunk(chunk);
        let texts: Vec<_> =
            (0..).zip(texts).map(|(slot, (n, outputs))| (slot, tokens(slot as u32, n), outputs)).collect();
        let mut read = |each: usize| {
            engine.reset(0..3).unwrap();
            let mut rows = vec![Vec::new(); 3];
            for (slot, text, outputs) in &texts {
                for (i, tokens) in text.chunks(each).enumerate() {
                    let is_last = (i + 1) * each >= text.len();
                    let outputs = if *outputs == Outputs::Last && !is_last { Outputs::None } else { *outputs };
                    let piece = [Sequence { slot: *slot, tokens, outputs }];
                    let now = if hidden {
                        engine.hidden(&piece, Level::Final, &CancelToken::default())
                    } else {
                        engine.forward(&piece)
                    };
                    rows[*slot].extend(now.unwrap().remove(0));
                }
            }
            (rows, [0, 1, 2].map(|slot| engine.state(slot).unwrap()))
        };
        prop_assert!(read(usize::MAX) == read(chunk));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn states_after_a_text_equal_the_state_of_its_prefill() {
    let text = tokens(5, 50);
    let mut roomy = gpu(&device(), &model(Mix::F16), 2).with_chunk(16);
    let mut streaming = executor(2);
    let Err(RuntimeError::BudgetTooSmall { need, .. }) = executor(2).set_residency(Residency::Budget(1)) else {
        panic!("one byte was enough")
    };
    streaming.set_residency(Residency::Budget(need)).unwrap();
    let reference = cpu(&model(Mix::F16), 2).with_chunk(16);
    for engine in [&mut roomy, &mut Engine::new(Box::new(streaming), 16), &mut { reference }] {
        forget(engine, 1);
        engine.forward(&[Sequence { slot: 1, tokens: &text, outputs: Outputs::None }]).unwrap();
        let want = engine.state(1).unwrap();
        forget(engine, 1);
        let got = engine.state_after(1, &text).unwrap();
        assert!(got == want && engine.state(1).unwrap() == want);
        assert!(engine.state(0).unwrap().is_zero());
    }
    let refused = |tokens: &[u32], engine: &mut Engine| match engine.state_after(0, tokens).unwrap_err() {
        RuntimeError::Batch(why) => why,
        other => panic!("{other}"),
    };
    assert_eq!(refused(&[], &mut roomy), BatchError::Empty(0));
    assert!(matches!(refused(&[SHAPE.vocab], &mut roomy), BatchError::Token { .. }));
}

#[test]
fn prefill_stops_between_passes_and_reports_its_place() {
    let text = tokens(6, 50);
    let whole = Sequence { slot: 0, tokens: &text, outputs: Outputs::Last };
    let mut engine = gpu(&device(), &model(Mix::F16), 1).with_chunk(8);
    let all = engine.forward(&[whole]).unwrap().remove(0);
    forget(&mut engine, 0);
    assert!(engine.forward_part(whole, &mut |_| ControlFlow::Continue(())).unwrap() == (all, 50));
    forget(&mut engine, 0);
    let mut told = Vec::new();
    let part = engine.forward_part(whole, &mut |tokens| {
        told.push(tokens);
        if tokens < 16 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert!(part.unwrap() == (vec![], 16) && told == [8, 16]);
    let stopped = engine.state(0).unwrap();
    forget(&mut engine, 0);
    engine.forward(&[Sequence { tokens: &text[..16], ..whole }]).unwrap();
    assert!(engine.state(0).unwrap() == stopped);
}
