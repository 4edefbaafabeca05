//! Evaluation: bits per byte of known models, divergence of known pairs, and pieces that change nothing.

use crate::support::{SHAPE, Tiny, on_cpu, tiny, tiny_of};
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::path::Path;
use wgoose_graph::Weight;
use wgoose_loader::Model;
use wgoose_session::eval::{EvalError, EvalOptions, Evaluation, evaluate};
use wgoose_session::{Backend, Session};

const TEXT: &[u8] = "The goose flies over the house; der Gänserich fliegt hinterher. ".as_bytes();

fn eval(model: &mut Session, reference: Option<&mut Session>, options: &EvalOptions) -> Evaluation {
    evaluate(model, reference, &mut &TEXT[..], options, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn context(tokens: usize) -> EvalOptions {
    EvalOptions { context: NonZeroUsize::new(tokens), limit: None }
}

fn in_chunks(model: &Tiny, chunk: u32) -> Session {
    Session::builder().backend(Backend::Cpu).chunk(Some(chunk)).open(&model.path).unwrap()
}

/// Overwrites a weight of the file.
fn overwrite(path: &Path, weight: Weight, byte: u8) {
    let range = Model::open(path).unwrap().tensor(weight).file_range().unwrap();
    let mut file = std::fs::read(path).unwrap();
    file[range].fill(byte);
    std::fs::write(path, file).unwrap();
}

/// Counts, and numbers that rounding may change: a pass keeps more digits of the state than lie between passes.
fn results(evaluation: &Evaluation) -> (Vec<u64>, Vec<f64>) {
    let (score, (reference, divergence)) = (&evaluation.score, evaluation.reference.as_ref().unwrap());
    let mut counts = vec![score.tokens, score.bytes, reference.tokens, reference.bytes];
    let mut numbers = vec![score.nats, reference.nats, divergence.kl_99()];
    for stretch in divergence.stretches().iter().chain([divergence.all()]) {
        counts.extend([stretch.first, stretch.tokens]);
        numbers.extend([stretch.mean_kl(), stretch.max_kl, stretch.agreement(), stretch.rms()]);
    }
    (counts, numbers)
}

#[test]
fn an_interrupted_evaluation_scores_the_beginning() {
    let model = tiny(1);
    let mut model = in_chunks(&model, 10);
    let (begun, mut pieces) = (EvalOptions::default(), 0);
    let part = evaluate(&mut model, None, &mut &TEXT[..], &begun, &mut |_| {
        pieces += 1;
        if pieces == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let limit = EvalOptions { limit: NonZeroU64::new(20), ..EvalOptions::default() };
    let (part, whole) = (part.unwrap().score, eval(&mut model, None, &limit).score);
    assert_eq!((part.tokens, part.bytes, part.nats), (20, whole.bytes, whole.nats));
}

#[test]
fn uniform_logits_take_the_logarithm_of_the_vocabulary() {
    let model = tiny(1);
    overwrite(&model.path, Weight::Head, 0);
    let path = model.folder.path().join("text");
    std::fs::write(&path, TEXT).unwrap();
    let mut done = Vec::new();
    let mut text = std::fs::File::open(&path).unwrap();
    let mut model = in_chunks(&model, 10);
    let evaluation = evaluate(&mut model, None, &mut text, &EvalOptions::default(), &mut |score| {
        done.push(score.bytes);
        ControlFlow::Continue(())
    })
    .unwrap();
    let score = evaluation.score;
    assert!(done.is_sorted() && done.len() as u64 == score.tokens.div_ceil(10), "{done:?}");
    assert_eq!(done.last(), Some(&score.bytes));
    assert!((score.bits_per_token() - f64::from(SHAPE.vocab).log2()).abs() < 1e-12, "{score:?}");
    assert!((score.perplexity() - f64::from(SHAPE.vocab)).abs() < 1e-9);
    assert_eq!(score.bytes, TEXT.len() as u64);
}

#[test]
fn a_model_is_not_far_from_itself() {
    let model = tiny(2);
    let evaluation = eval(&mut on_cpu(&model), Some(&mut on_cpu(&model)), &EvalOptions::default());
    let (reference, divergence) = evaluation.reference.unwrap();
    let all = divergence.all();
    assert_eq!((all.mean_kl(), all.max_kl, divergence.kl_99()), (0.0, 0.0, 0.0));
    assert_eq!((all.agreement(), all.rms(), all.tokens), (1.0, 0.0, evaluation.score.tokens));
    assert_eq!(reference.nats, evaluation.score.nats);
}

#[test]
fn a_different_model_diverges_far() {
    let evaluation = eval(&mut on_cpu(&tiny(2)), Some(&mut on_cpu(&tiny(3))), &EvalOptions::default());
    let (reference, divergence) = evaluation.reference.unwrap();
    assert!(divergence.all().mean_kl() > 1.0 && divergence.all().agreement() < 0.2, "{divergence:?}");
    assert_ne!(reference.nats, evaluation.score.nats);
    let tokens: u64 = divergence.stretches().iter().map(|s| s.tokens).sum();
    assert_eq!(tokens, evaluation.score.tokens);
}

#[test]
fn chunks_change_nothing() {
    let (model, other) = (tiny(2), tiny(3));
    for options in [EvalOptions::default(), context(7)] {
        let whole = eval(&mut on_cpu(&model), Some(&mut on_cpu(&other)), &options);
        for (ours, theirs) in [(1, 64), (3, 5), (50, 2)] {
            let pieces = eval(&mut in_chunks(&model, ours), Some(&mut in_chunks(&other, theirs)), &options);
            let ((counts, numbers), (whole_counts, whole_numbers)) = (results(&pieces), results(&whole));
            assert_eq!(counts, whole_counts, "chunks of {ours} and {theirs}");
            for (a, b) in numbers.iter().zip(&whole_numbers) {
                assert!((a - b).abs() <= 1e-6 * b.abs(), "chunks of {ours} and {theirs}: {a} {b}");
            }
        }
        let alone = eval(&mut on_cpu(&model), None, &options);
        assert_eq!(alone.score.nats, whole.score.nats);
    }
}

/// Sum of negative log-probabilities by the definition: each token after end-of-text and those before it.
fn by_definition(session: &mut Session, windows: &[&[u32]]) -> f64 {
    let vocab = SHAPE.vocab as usize;
    let mut nats = 0.0;
    for window in windows {
        for (i, token) in window.iter().enumerate() {
            session.reset().unwrap();
            let row = session.prefill(&[&[0], &window[..i]].concat()).unwrap();
            let sum: f64 = row.iter().map(|x| f64::from(*x).exp()).sum();
            nats -= (f64::from(row[*token as usize]).exp() / sum).ln();
            assert_eq!(row.len(), vocab);
        }
    }
    nats
}

#[test]
fn every_token_is_scored_by_the_tokens_before_it() {
    let model = tiny(4);
    let mut session = on_cpu(&model);
    let tokens = session.tokenizer().unwrap().encode(TEXT);
    for (options, windows) in [
        (EvalOptions::default(), vec![&tokens[..]]),
        (context(10), tokens.chunks(10).collect()),
        (EvalOptions { limit: NonZeroU64::new(13), ..context(5) }, tokens[..13].chunks(5).collect()),
    ] {
        // What was read before does not matter.
        session.prefill(&[7, 8, 9]).unwrap();
        let score = eval(&mut session, None, &options).score;
        let wanted = by_definition(&mut session, &windows);
        assert!((score.nats - wanted).abs() < 1e-6 * wanted, "{} {wanted}", score.nats);
        assert_eq!(score.tokens, windows.iter().map(|w| w.len() as u64).sum::<u64>());
    }
}

#[test]
fn positions_begin_anew_with_the_context() {
    let (model, other) = (tiny(2), tiny(3));
    let evaluation = eval(&mut on_cpu(&model), Some(&mut on_cpu(&other)), &context(4));
    let (_, divergence) = evaluation.reference.unwrap();
    let counts: Vec<u64> = divergence.stretches().iter().map(|s| s.tokens).collect();
    let windows = evaluation.score.tokens.div_ceil(4);
    assert_eq!(counts, [windows, evaluation.score.tokens - windows]);
}

#[test]
fn impossible_evaluations_are_refused() {
    let model = tiny(1);
    let refused = |model: &mut Session, other: Option<&mut Session>, text: &[u8]| {
        evaluate(model, other, &mut &text[..], &EvalOptions::default(), &mut |_| ControlFlow::Continue(())).unwrap_err()
    };
    assert!(matches!(refused(&mut on_cpu(&model), None, b""), EvalError::Empty));
    let mut shape = SHAPE;
    shape.vocab = 300;
    let smaller = tiny_of(shape, 1, None);
    let rows = refused(&mut on_cpu(&model), Some(&mut on_cpu(&smaller)), b"a");
    assert!(matches!(rows, EvalError::Rows { ours: 320, theirs: 300 }), "{rows}");
    // Without a list of tokens, ids past the bytes are padding.
    let bytes_only = tiny_of(SHAPE, 1, None);
    let vocabulary = refused(&mut on_cpu(&model), Some(&mut on_cpu(&bytes_only)), b"a");
    assert!(matches!(vocabulary, EvalError::Vocabulary { token: 257 }), "{vocabulary}");
    overwrite(&model.path, Weight::Head, 0xff);
    let numbers = refused(&mut on_cpu(&model), None, b"a");
    assert!(numbers.to_string().contains("model's logits before token 0"), "{numbers}");
}
