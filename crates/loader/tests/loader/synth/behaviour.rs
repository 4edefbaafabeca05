//! A synthetic model behaves like a model.

use crate::synth::forward::Model;
use crate::synth::options;
use rayon::prelude::*;
use std::collections::HashSet;
use wgoose_graph::Weight;
use wgoose_loader::synth::{Mix, SynthOptions};

fn tokens(count: u32, vocab: u32) -> impl Iterator<Item = u32> {
    (1..=count).map(move |i| (i.wrapping_mul(2_654_435_761) >> 8) % vocab)
}

fn deviation(x: &[f64]) -> f64 {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt()
}

/// The best token and how far it stands above the next.
fn best(logits: &[f64]) -> (u32, f64) {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    (order[0] as u32, logits[order[0]] - logits[order[1]])
}

fn difference(got: &[Vec<f64>], reference: &[Vec<f64>]) -> f64 {
    let (got, reference) = (got.concat(), reference.concat());
    let error: f64 = got.iter().zip(&reference).map(|(a, b)| (a - b).powi(2)).sum();
    (error / reference.iter().map(|x| x * x).sum::<f64>()).sqrt()
}

#[test]
fn logits_stay_sane_over_thousands_of_tokens() {
    let options = options(Mix::F16);
    let mut model = Model::new(&options, false);
    let mut margins = Vec::new();
    let mut favourites = HashSet::new();
    for (t, token) in tokens(2200, options.shape.vocab).enumerate() {
        let logits = model.step(token);
        let spread = deviation(&logits);
        assert!((2.0..5.0).contains(&spread), "spread {spread} after {t} tokens");
        let (token, margin) = best(&logits);
        favourites.insert(token);
        margins.push(margin);
    }
    margins.sort_by(f64::total_cmp);
    let median = margins[margins.len() / 2];
    assert!(median > 0.3, "median margin {median}");
    assert!(favourites.len() > 100, "only {} tokens are ever the best", favourites.len());
}

#[test]
fn greedy_text_does_not_run_in_circles() {
    let options = options(Mix::F16);
    let mut model = Model::new(&options, false);
    let mut text = vec![1];
    for t in 0..400 {
        let (next, _) = best(&model.step(text[t]));
        text.push(next);
    }
    let distinct: HashSet<&u32> = text[200..].iter().collect();
    assert!(distinct.len() > 20, "only {} distinct tokens", distinct.len());
}

/// Zeroing any one tensor changes the logits far more than rounding to f16 does (about 1e-3).
#[test]
fn every_tensor_matters() {
    let options = options(Mix::F16);
    let model = Model::new(&options, false);
    let run = |mut model: Model| -> Vec<Vec<f64>> {
        let tokens: Vec<u32> = tokens(24, options.shape.vocab).collect();
        // The first position is ill-conditioned: whatever is lost there does not count.
        tokens.into_iter().map(|token| model.step(token)).skip(1).collect()
    };
    let reference = run(model.clone());
    let weights: Vec<Weight> = Weight::all(&options.shape).collect();
    let lost: Vec<f64> = weights
        .par_iter()
        .map(|weight| {
            let mut crippled = model.clone();
            crippled.weights.get_mut(weight).unwrap().fill(0.0);
            difference(&run(crippled), &reference)
        })
        .collect();
    for (weight, difference) in weights.iter().zip(lost) {
        assert!(difference > 1e-2, "without {weight} the logits change by {difference} only");
    }
}

#[test]
fn a_hot_model_has_equal_logits_near_the_limit_of_f16() {
    let options = options(Mix::F32);
    let hot = SynthOptions { hot: true, ..options.clone() };
    let (mut cool, mut hot) = (Model::new(&options, true), Model::new(&hot, true));
    for token in tokens(600, options.shape.vocab) {
        let difference = difference(&[hot.step(token)], &[cool.step(token)]);
        assert!(difference < 1e-9, "{difference}");
    }
    assert!((24_000.0..60_000.0).contains(&hot.peak), "squares peak at {}", hot.peak);
}

#[test]
fn zeros_of_the_channel_mix_are_as_many_as_asked_for() {
    let share = |ffn_zeros: Option<f32>| {
        let options = SynthOptions { ffn_zeros, ..options(Mix::F16) };
        let mut model = Model::new(&options, false);
        tokens(200, options.shape.vocab).for_each(|token| drop(model.step(token)));
        model.squares.1 as f64 / model.squares.0 as f64
    };
    assert!((share(None) - 0.5).abs() < 0.03, "{}", share(None));
    for zeros in [0.5, 0.75, 0.88, 0.95] {
        let got = share(Some(zeros));
        assert!((got - f64::from(zeros)).abs() < 0.04, "{got} instead of {zeros}");
    }
    let options = SynthOptions { ffn_zeros: Some(1.0), ..options(Mix::F16) };
    let refused =
        wgoose_loader::synth::write(&options, std::path::Path::new("never.gguf"), &mut wgoose_loader::synth::unwatched);
    assert!(matches!(refused, Err(wgoose_loader::synth::SynthError::Zeros(_))), "{refused:?}");
}
