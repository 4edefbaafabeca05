//! Log-probabilities of generated tokens against the logits, alone and in a batch.

use crate::support::tiny;
use std::ops::ControlFlow;
use wgoose_runtime::Logprob;
use wgoose_session::sampling::{Penalties, SamplerOptions, TokenLogprobs};
use wgoose_session::{Backend, BatchEvent, BatchRequest, GenerateOptions, GenerationEvent, Session};

const PROMPT: [u32; 4] = [7, 66, 3, 21];

/// Tokens are moved by all that can, but the log-probabilities are not.
fn options(logprobs: Option<u8>) -> GenerateOptions {
    let penalties = Penalties { presence: 1.0, repetition: 1.3, ..Penalties::NONE };
    let sampling = SamplerOptions { penalties, bias: vec![(9, 3.0)], seed: 3, ..SamplerOptions::default() };
    GenerateOptions { sampling, max_tokens: 12, stop_tokens: Vec::new(), logprobs, ..GenerateOptions::default() }
}

fn exact(logits: &[f32], token: u32) -> f64 {
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    f64::from(logits[token as usize]) - sum.ln()
}

/// Holds log-probabilities against the logits of single passes.
fn check(session: &mut Session, tokens: &[u32], listed: &[TokenLogprobs], most: usize) {
    session.reset().unwrap();
    let mut logits = session.prefill(&PROMPT).unwrap();
    assert_eq!(tokens.len(), listed.len());
    for (token, listed) in tokens.iter().zip(listed) {
        assert_eq!(listed.chosen.token, *token);
        let mut order: Vec<u32> = (0..logits.len() as u32).collect();
        order.sort_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)));
        assert_eq!(listed.likeliest.iter().map(|other| other.token).collect::<Vec<_>>(), order[..most]);
        for Logprob { token, logprob } in listed.likeliest.iter().chain([&listed.chosen]) {
            assert!((f64::from(*logprob) - exact(&logits, *token)).abs() < 1e-4, "{token}: {logprob}");
        }
        logits = session.decode(*token).unwrap();
    }
}

#[test]
fn logprobs_are_those_of_the_logits() {
    for backend in [Backend::Cpu, Backend::Gpu] {
        let mut session = Session::builder().backend(backend).open(&tiny(5).path).unwrap();
        for most in [0u8, 4, 20] {
            session.reset().unwrap();
            let (mut listed, mut order) = (Vec::new(), String::new());
            let generated = session.generate_after(&PROMPT, &options(Some(most)), &mut |event| {
                match event {
                    GenerationEvent::Logprobs(logprobs) => {
                        listed.push(logprobs.clone());
                        order.push('l');
                    }
                    GenerationEvent::Text(_) => order.push('t'),
                    GenerationEvent::Prefill { .. } => {}
                }
                ControlFlow::Continue(())
            });
            let tokens = generated.unwrap().tokens;
            // With each token, before its text; at the end comes the rest of the text.
            assert_eq!(order, "lt".repeat(12) + "t");
            check(&mut session, &tokens, &listed, most.into());
            // In a batch, beside a sequence without them, they are the same.
            session.reset().unwrap();
            let mut batch = session.batch(2).unwrap();
            batch.join_request(BatchRequest::new(vec![5], options(None))).unwrap();
            let id = batch.join_request(BatchRequest::new(PROMPT.to_vec(), options(Some(most)))).unwrap();
            let (mut same, mut text) = (Vec::new(), Vec::new());
            while !batch.is_idle() {
                for event in batch.step().unwrap() {
                    match event {
                        BatchEvent::Logprobs(of, logprobs) => {
                            assert_eq!(of, id);
                            same.push(logprobs);
                        }
                        BatchEvent::Ended(of, generated) if of == id => text = generated.tokens,
                        _ => {}
                    }
                }
            }
            assert_eq!(text, tokens);
            check(&mut session, &text, &same, most.into());
        }
    }
}
