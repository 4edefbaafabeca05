//! Samplers keep to their options, follow the model's probabilities, and repeat themselves.

use proptest::prelude::*;
use std::num::NonZeroUsize;
use wgoose_runtime::{Continuation, Device, Sampling, kernel_bench};
use wgoose_session::sampling::{Penalties, SampleError, Sampler, SamplerOptions, SamplerOptionsError, greedy};

fn sampler(temperature: f32, top_p: f32, top_k: usize, seed: u64) -> Sampler {
    let top_k = NonZeroUsize::new(top_k);
    Sampler::new(SamplerOptions { temperature, top_p, top_k, seed, ..SamplerOptions::default() }).unwrap()
}

/// The definition, with a full sort: (token, its probability) for every token kept, the likeliest first; beside it the
/// probability mass, before temperature and renormalisation, of all likelier tokens.
fn distribution(logits: &[f32], temperature: f64, top_p: f64, top_k: usize) -> Vec<(u32, f64, f64)> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let relative = |id: u32| f64::from(logits[id as usize]) - f64::from(max);
    let total: f64 = (0..logits.len() as u32).map(|id| relative(id).exp()).sum();
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    ids.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap());
    let mut mass = 0.0;
    let mut kept = Vec::new();
    for id in ids.into_iter().take(if top_k == 0 { usize::MAX } else { top_k }) {
        if mass >= top_p && !kept.is_empty() {
            break;
        }
        kept.push((id, (relative(id) / temperature).exp(), mass));
        mass += relative(id).exp() / total;
    }
    let sum: f64 = kept.iter().map(|k| k.1).sum();
    kept.into_iter().map(|(id, weight, before)| (id, weight / sum, before)).collect()
}

/// Reproducible logits with exact values, about normal with standard deviation `spread`.
fn bell(len: usize, spread: f32) -> Vec<f32> {
    let mut state = 1u32;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65536.0 - 0.5
    };
    (0..len).map(|_| (0..12).map(|_| uniform()).sum::<f32>() * spread).collect()
}

#[test]
fn greedy_takes_the_lowest_of_the_largest() {
    assert_eq!(greedy(&[1.0, 3.0, -7.0, 3.0]), Ok(1));
    assert_eq!(greedy(&[0.0, -0.0]), Ok(0));
    assert_eq!(greedy(&[-0.0, 0.0]), Ok(0));
    assert_eq!(greedy(&[f32::NEG_INFINITY, -1e38]), Ok(1));
    assert_eq!(sampler(0.0, 0.5, 3, 1).sample(&[1.0, 3.0, -7.0, 3.0]), Ok(1));
    // The sign of a zero breaks no tie when sampling either.
    assert_eq!(sampler(1.0, 1.0, 1, 1).sample(&[-0.0, 0.0]), Ok(0));
}

#[test]
fn broken_logits_are_refused() {
    let many = vec![0.0; (1 << 22) + 1];
    let cases: [(&[f32], SampleError); 5] = [
        (&[], SampleError::Empty),
        (&[0.0, f32::NAN, f32::INFINITY], SampleError::NotANumber(1)),
        (&[0.0, f32::INFINITY], SampleError::Infinite(1)),
        (&[f32::NEG_INFINITY; 3], SampleError::AllRuledOut),
        (&many, SampleError::TooMany((1 << 22) + 1)),
    ];
    for (logits, error) in cases {
        assert_eq!(greedy(logits), Err(error));
        assert_eq!(sampler(1.0, 0.9, 0, 0).sample(logits), Err(error));
    }
}

#[test]
fn broken_options_are_refused() {
    for temperature in [-1.0, f32::INFINITY, f32::NAN] {
        let error = Sampler::new(SamplerOptions { temperature, ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::Temperature(t) if t.to_bits() == temperature.to_bits()));
    }
    for top_p in [-0.1, 1.1, f32::NAN] {
        let error = Sampler::new(SamplerOptions { top_p, ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::TopP(p) if p.to_bits() == top_p.to_bits()));
        let error = Sampler::new(SamplerOptions { min_p: top_p, ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::MinP(_)));
        let penalties = Penalties { repetition: top_p.min(0.0), ..Penalties::NONE };
        let error = Sampler::new(SamplerOptions { penalties, ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::Repetition(_)));
        let error = Sampler::new(SamplerOptions { typical: top_p, ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::Typical(_)));
    }
    let penalised = |presence, frequency, decay| {
        let penalties = Penalties { presence, frequency, decay, ..Penalties::NONE };
        Sampler::new(SamplerOptions { penalties, ..Default::default() }).unwrap_err()
    };
    assert!(matches!(penalised(f32::NAN, 0.0, 1.0), SamplerOptionsError::Penalty("presence", _)));
    assert!(matches!(penalised(0.0, f32::INFINITY, 1.0), SamplerOptionsError::Penalty("frequency", _)));
    assert!(matches!(penalised(0.0, 0.0, 1.5), SamplerOptionsError::PenaltyDecay(_)));
    for bias in [f32::NAN, f32::INFINITY, -2e30] {
        let error = Sampler::new(SamplerOptions { bias: vec![(3, bias)], ..Default::default() }).unwrap_err();
        assert!(matches!(error, SamplerOptionsError::Bias(3, _)));
    }
}

#[test]
fn draws_follow_the_probabilities() {
    const DRAWS: u32 = 20_000;
    let logits = [0.5, 2.0, -1.0, f32::NEG_INFINITY, 1.5, 0.0, 1.5, -2.0];
    for (temperature, top_p, top_k) in [(1.0, 1.0, 0), (0.5, 1.0, 0), (2.0, 0.9, 0), (1.0, 1.0, 3), (3.0, 0.99, 4)] {
        let mut sampler = sampler(temperature, top_p, top_k, 20);
        let mut counts = [0u32; 8];
        for _ in 0..DRAWS {
            counts[sampler.sample(&logits).unwrap() as usize] += 1;
        }
        let expected: Vec<_> = distribution(&logits, temperature.into(), top_p.into(), top_k);
        let expected: Vec<_> = expected.into_iter().filter(|e| e.1 > 0.0).collect();
        assert_eq!(expected.iter().map(|e| counts[e.0 as usize]).sum::<u32>(), DRAWS, "drawn outside the kept tokens");
        let chi_square: f64 = expected
            .iter()
            .map(|&(id, probability, _)| {
                let mean = probability * f64::from(DRAWS);
                (f64::from(counts[id as usize]) - mean).powi(2) / mean
            })
            .sum();
        // With up to 6 degrees of freedom, exceeded once in a thousand seeds.
        assert!(chi_square < 22.5, "chi-square {chi_square} at {temperature} {top_p} {top_k}: {counts:?}");
    }
}

/// Pinned: another platform, compiler or version of a dependency must draw the same.
#[test]
fn draws_of_a_seed_are_pinned() {
    let logits = bell(65536, 3.0);
    let draw = |mut sampler: Sampler| (0..8).map(|_| sampler.sample(&logits).unwrap()).collect::<Vec<_>>();
    assert_eq!(draw(sampler(1.0, 1.0, 0, 42)), [52776, 22805, 64024, 46081, 52183, 40123, 7769, 40718]);
    assert_eq!(draw(sampler(0.8, 0.9, 0, 42)), [53482, 23835, 63787, 46114, 52654, 40718, 7842, 41361]);
    assert_eq!(draw(sampler(1.2, 0.5, 40, 7)), [3948, 11583, 46081, 28188, 55751, 34647, 46081, 24066]);
}

proptest! {
    #[test]
    fn tokens_come_from_the_nucleus(
        spread in 0.0f32..8.0,
        len in 1usize..3000,
        temperature in prop_oneof![Just(1.0f32), 0.05f32..4.0],
        top_p in prop_oneof![Just(0.0f32), Just(1.0f32), 0.0f32..=1.0],
        top_k in prop_oneof![Just(0usize), 1usize..50],
        seed: u64,
    ) {
        let logits = bell(len, spread);
        // The definition sums in floating point: allow it an error where the nucleus ends.
        let allowed = distribution(&logits, temperature.into(), f64::from(top_p) + 1e-6, top_k);
        let mut sampler = sampler(temperature, top_p, top_k, seed);
        for _ in 0..10 {
            let id = sampler.sample(&logits).unwrap();
            prop_assert!(allowed.iter().any(|a| a.0 == id), "{id} is not among {} tokens", allowed.len());
        }
    }

    /// Hot enough, every token kept is drawn: the nucleus is not too small either.
    #[test]
    fn every_token_of_the_nucleus_is_drawn(spread in 0.0f32..4.0, top_p in 0.0f32..1.0, top_k in 0usize..6, seed: u64) {
        let logits = bell(12, spread);
        let mut sampler = sampler(1e30, top_p, top_k, seed);
        let mut drawn: Vec<u32> = (0..1000).map(|_| sampler.sample(&logits).unwrap()).collect();
        drawn.sort_unstable();
        drawn.dedup();
        for (id, _, before) in distribution(&logits, 1e30, top_p.into(), top_k) {
            prop_assert!(before > f64::from(top_p) - 1e-6 || drawn.contains(&id), "{id} is never drawn: {drawn:?}");
        }
    }

    #[test]
    fn equal_seeds_draw_equally(
        logits in prop::collection::vec(-20.0f32..20.0, 1..300),
        temperature in 0.1f32..3.0,
        top_p in 0.0f32..=1.0,
        seed: u64,
    ) {
        let (mut one, mut two) = (sampler(temperature, top_p, 0, seed), sampler(temperature, top_p, 0, seed));
        for _ in 0..20 {
            prop_assert_eq!(one.sample(&logits), two.sample(&logits));
        }
    }

    /// Four ways to say "the likeliest", also among neighbouring floats and ties.
    #[test]
    fn narrow_options_are_greedy(steps in prop::collection::vec(0u32..4, 1..50), seed: u64) {
        let logits: Vec<f32> = steps.iter().map(|&step| f32::from_bits(3.0f32.to_bits() + step)).collect();
        let likeliest = greedy(&logits);
        prop_assert_eq!(sampler(0.0, 1.0, 0, seed).sample(&logits), likeliest);
        prop_assert_eq!(sampler(1.0, 1.0, 1, seed).sample(&logits), likeliest);
        prop_assert_eq!(sampler(1.0, 0.0, 0, seed).sample(&logits), likeliest);
        let first = sampler(1e-40, 1.0, 0, seed).sample(&logits).unwrap();
        prop_assert_eq!(logits[first as usize], logits[likeliest.unwrap() as usize]);
    }
}

/// Where host and device differ, they do by random numbers only: hot enough, the host draws every token that it keeps,
/// and these are the tokens that the device keeps.
#[test]
fn host_and_device_keep_equal_tokens() {
    let device = Device::open(None).unwrap();
    let logits: Vec<f32> = bell(16, 1.5);
    let bias = vec![(3, f32::NEG_INFINITY), (5, 1.25), (6, 3.0), (6, 0.5)];
    for (top_p, top_k, min_p, typical) in [
        (1.0, 0, 0.0, 1.0),
        (0.8, 0, 0.0, 1.0),
        (1.0, 5, 0.0, 1.0),
        (1.0, 0, 0.0, 0.6),
        (0.9, 9, 0.0, 0.5),
        (1.0, 0, 0.0, 0.0),
        (1.0, 0, 0.2, 1.0),
        (0.9, 9, 0.1, 0.7),
        (1.0, 0, 1.0, 1.0),
    ] {
        let options = SamplerOptions {
            temperature: 1e20,
            top_p,
            top_k: NonZeroUsize::new(top_k),
            min_p,
            typical,
            bias: bias.clone(),
            ..SamplerOptions::default()
        };
        let mut sampler = Sampler::new(options).unwrap();
        let mut host: Vec<u32> = (0..1000).map(|_| sampler.sample(&logits).unwrap()).collect();
        host.sort_unstable();
        host.dedup();
        let top_k = std::num::NonZeroU32::new(top_k as u32);
        let sampling = Sampling { temperature: 1e20, top_p, top_k, min_p, typical, ..Sampling::default() };
        let sequence = Continuation { bias: &bias, ..Continuation::new(0, sampling, 9) };
        let weights = kernel_bench::sample(&device, &logits, &[sequence], 1).unwrap().weights;
        let kept: Vec<u32> = (0..16).filter(|id| weights[*id as usize] > 0.0).collect();
        assert_eq!(host, kept, "top_p {top_p}, top_k {top_k:?}, min_p {min_p}, typical {typical}");
    }
}

/// The host penalises as the definition does, in every round.
#[test]
fn chosen_tokens_are_penalised() {
    let penalties = Penalties { presence: 0.4, frequency: 0.3, decay: 0.9, ..Penalties::NONE };
    let logits = bell(200, 0.4);
    let options = SamplerOptions { temperature: 0.0, penalties, ..SamplerOptions::default() };
    let mut sampler = Sampler::new(options).unwrap();
    let mut counts = vec![0.0f32; 200];
    for _ in 0..60 {
        let present = |count: f32| if count > 0.0 { penalties.presence } else { 0.0 };
        let moved: Vec<f32> =
            logits.iter().zip(&counts).map(|(x, count)| x - present(*count) - penalties.frequency * count).collect();
        let token = sampler.sample(&logits).unwrap();
        assert_eq!(Ok(token), greedy(&moved));
        counts.iter_mut().for_each(|count| *count *= penalties.decay);
        counts[token as usize] += 1.0;
    }
    assert!(counts.iter().filter(|count| **count > 0.0).count() > 5);
}

/// Tokens of the prompt and chosen ones are repeated ones, once, in the way of their sign.
#[test]
fn repeated_tokens_are_penalised_by_their_sign() {
    let logits = [3.0f32, 2.0, -1.0, -2.0, 2.5];
    let sampler = |repetition, decay| {
        let penalties = Penalties { repetition, decay, ..Penalties::NONE };
        Sampler::new(SamplerOptions { temperature: 0.0, penalties, ..SamplerOptions::default() }).unwrap()
    };
    let mut forgetful = sampler(100.0, 0.0);
    let tokens: Vec<u32> = (0..4).map(|_| forgetful.sample(&logits).unwrap()).collect();
    assert_eq!(tokens, [0, 4, 1, 0]);
    let mut after = sampler(2.0, 1.0);
    after.see(&[0, 4, 0]);
    assert_eq!(after.sample(&logits), Ok(1));
    // Divided below 1, a negative logit comes nearer to 0.
    let mut liked = sampler(0.01, 1.0);
    liked.see(&[2]);
    assert_eq!(liked.sample(&[-0.5, -0.6, -1.0]), Ok(2));
}
