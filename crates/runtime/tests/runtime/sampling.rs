//! Sampling on the device keeps the tokens that the definition keeps, with its probabilities, and draws them
//! accordingly.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock};
use wgoose_runtime::kernel_bench::{Samples, sample};
use wgoose_runtime::{Continuation, DecodeError, Device, MAX_STOPS, Penalties, RuntimeError, Sampling};

static DEVICE: LazyLock<Arc<Device>> = LazyLock::new(|| Device::open(None).unwrap());

/// How far the cumulative probability may be off where the nucleus ends.
const MASS: f64 = 1e-5;

fn sampling(temperature: f32, top_p: f32, top_k: u32) -> Sampling {
    Sampling { temperature, top_p, top_k: NonZeroU32::new(top_k), ..Sampling::default() }
}

fn one(sampling: Sampling) -> Continuation<'static> {
    Continuation::new(0, sampling, u32::MAX)
}

fn draw(logits: &[f32], sampling: Sampling, rounds: usize) -> Samples {
    sample(&DEVICE, logits, &[one(sampling)], rounds).unwrap()
}

/// Reproducible logits, about normal with standard deviation `spread`, on a grid if `step` > 0: then many are equal.
fn bell(len: usize, spread: f32, step: f32, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut uniform = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as f32 / 65536.0 - 0.5
    };
    let mut value = || (0..12).map(|_| uniform()).sum::<f32>() * spread;
    (0..len).map(|_| value()).map(|x| if step > 0.0 { (x / step).round() * step } else { x }).collect()
}

/// The definition, with a full sort, in f64.
struct Reference {
    /// All tokens that are not ruled out, the likeliest first, ties by id.
    order: Vec<u32>,
    /// How many of them are kept if the nucleus may be this much smaller, and this much larger.
    kept: std::ops::RangeInclusive<usize>,
}

impl Reference {
    fn new(logits: &[f32], how: &Sampling) -> Self {
        let mut order: Vec<u32> =
            (0..logits.len() as u32).filter(|id| logits[*id as usize] > f32::NEG_INFINITY).collect();
        order.sort_by(|&a, &b| logits[b as usize].partial_cmp(&logits[a as usize]).unwrap());
        let best = f64::from(logits[order[0] as usize]);
        let weights: Vec<f64> = order.iter().map(|id| (f64::from(logits[*id as usize]) - best).exp()).collect();
        let total: f64 = weights.iter().sum();
        let until = |goal: f64| {
            let mut mass = 0.0;
            let prefix = weights.iter().take_while(|w| {
                let more = mass < goal;
                mass += **w / total;
                more
            });
            prefix.count().max(1)
        };
        let most = how.top_k.map_or(order.len(), |k| order.len().min(k.get() as usize));
        let top_p = f64::from(how.top_p);
        let kept = match how.top_p < 1.0 {
            true => until(top_p - MASS).min(most)..=until(top_p + MASS).min(most),
            false => most..=most,
        };
        Reference { order, kept }
    }

    /// The first fault in the weights that the device drew among.
    fn disagreement(&self, logits: &[f32], how: &Sampling, weights: &[f32]) -> Option<String> {
        let best = f64::from(logits[self.order[0] as usize]);
        let exact = |id: u32| ((f64::from(logits[id as usize]) - best) / f64::from(how.temperature)).exp();
        // Weights too small for a float tell nothing of being kept.
        let seen = |id: &&u32| exact(**id) > 1e-30;
        let is_kept = |id: &u32| weights[*id as usize] > 0.0;
        let kept = self.order.iter().filter(seen).filter(|id| is_kept(id)).count();
        let seen_of = |n: usize| self.order[..n].iter().filter(seen).count();
        if !(seen_of(*self.kept.start())..=seen_of(*self.kept.end())).contains(&kept) {
            return Some(format!("{kept} tokens kept, not {:?}", self.kept));
        }
        if let Some(id) = self.order.iter().filter(seen).take(kept).find(|id| !is_kept(id)) {
            return Some(format!("{id} is left out among the {kept} likeliest"));
        }
        if weights.iter().filter(|w| **w > 0.0).count() > *self.kept.end() {
            return Some("less likely tokens are kept".to_owned());
        }
        let sums = self.order[..kept].iter().map(|id| (exact(*id), f64::from(weights[*id as usize])));
        let (want, got) = sums.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        self.order[..kept].iter().find_map(|id| {
            let (p, q) = (exact(*id) / want, f64::from(weights[*id as usize]) / got);
            // exp of a float that is rounded at up to 100 / temperature.
            let tolerance = 1e-5 * (1.0 + 1.0 / f64::from(how.temperature));
            ((p - q).abs() > tolerance * p.max(1e-12)).then(|| format!("token {id} has probability {q}, not {p}"))
        })
    }
}

#[test]
fn greedy_takes_the_lowest_of_the_largest() {
    let long = |spots: &[usize]| {
        let mut logits = vec![-1.0f32; 65_536];
        spots.iter().for_each(|spot| logits[*spot] = 2.0);
        logits
    };
    let cases: [(Vec<f32>, u32); 8] = [
        (vec![1.0, 3.0, -7.0, 3.0], 1),
        (vec![0.0, -0.0], 0),
        (vec![-0.0, 0.0], 0),
        (vec![f32::NEG_INFINITY, -1e38], 1),
        (vec![f32::NEG_INFINITY, f32::MIN, f32::MIN], 1),
        (vec![5.0], 0),
        (long(&[65_535, 40_000, 1023, 1024]), 1023),
        (long(&[65_535, 50_001]), 50_001),
    ];
    for (logits, want) in cases {
        for how in [sampling(0.0, 1.0, 0), sampling(1.0, 1.0, 1), sampling(1.0, 0.0, 0), sampling(1e-40, 1e-9, 0)] {
            assert_eq!(draw(&logits, how, 2).tokens, [[want], [want]], "{how:?}");
        }
    }
}

#[test]
fn broken_logits_and_settings_are_refused() {
    let error = |logits: &[f32], sequence: Continuation<'_>| match sample(&DEVICE, logits, &[sequence], 1) {
        Err(RuntimeError::Decode(e)) => e,
        other => panic!("{other:?}"),
    };
    for temperature in [0.0, 1.0] {
        let how = || one(sampling(temperature, 0.9, 0));
        let why = |logits: &[f32]| match error(logits, how()) {
            DecodeError::NoToken { sequence: 0, why } => why,
            other => panic!("{other}"),
        };
        assert!(why(&[0.0, f32::INFINITY, f32::NAN]).contains("not a number"));
        assert!(why(&[0.0, -f32::NAN]).contains("not a number"));
        assert!(why(&[0.0, f32::INFINITY]).contains("infinite"));
        assert!(why(&[f32::NEG_INFINITY; 1500]).contains("ruled out"));
    }
    let bad = [sampling(-1.0, 1.0, 0), sampling(f32::NAN, 1.0, 0), sampling(1.0, 1.5, 0), sampling(1.0, f32::NAN, 0)];
    let typical = [-0.1, 1.1, f32::NAN].map(|typical| Sampling { typical, ..Sampling::default() });
    let penalties = Penalties { decay: 2.0, ..Penalties::default() };
    for how in bad.into_iter().chain(typical).chain([Sampling { penalties, ..Sampling::default() }]) {
        assert!(matches!(error(&[0.0], one(how)), DecodeError::Setting { sequence: 0, .. }));
    }
    let stops = [0; MAX_STOPS + 1];
    let sequence = Continuation { stops: &stops, ..one(Sampling::default()) };
    assert_eq!(error(&[0.0], sequence), DecodeError::Stops { sequence: 0, got: 9 });
}

#[test]
fn the_device_keeps_the_tokens_of_the_definition() {
    let settings = (
        prop_oneof![Just(0.05f32), Just(1.0f32), 0.3f32..4.0],
        prop_oneof![Just(0.0f32), Just(1.0f32), 0.0f32..1.0, 0.99f32..1.0],
        prop_oneof![Just(0u32), 1u32..50, 50u32..1024, Just(1024)],
    );
    let logits = (
        prop_oneof![1usize..40, 40usize..3000, Just(5000usize)],
        prop_oneof![Just(0.0f32), 0.01f32..8.0, Just(300.0f32)],
        prop_oneof![Just(0.0f32), 0.01f32..1.0],
        any::<u32>(),
        -50.0f32..50.0,
        0usize..4,
    );
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let both = (settings, prop::collection::vec(logits, 1..4));
    let result = runner.run(&both, |((temperature, top_p, top_k), rows)| {
        let how = sampling(temperature, top_p, top_k);
        // Sequences of one batch are as long as the first.
        let vocab = rows[0].0;
        let rows: Vec<Vec<f32>> = rows
            .into_iter()
            .map(|(_, spread, step, seed, offset, ruled_out)| {
                let mut row = bell(vocab, spread, step, seed);
                row.iter_mut().for_each(|x| *x += offset);
                (0..ruled_out.min(vocab - 1)).for_each(|i| row[i * 7 % vocab] = f32::NEG_INFINITY);
                row[vocab - 1] = row[vocab - 1].max(-1e3);
                row
            })
            .collect();
        let sequences = vec![one(how); rows.len()];
        let samples = sample(&DEVICE, &rows.concat(), &sequences, 1).unwrap();
        for (i, (row, weights)) in rows.iter().zip(samples.weights.chunks_exact(vocab)).enumerate() {
            let reference = Reference::new(row, &how);
            prop_assert_eq!(reference.disagreement(row, &how, weights), None, "sequence {} of {:?}", i, how);
            let token = samples.tokens[0][i] as usize;
            prop_assert!(weights[token] > 0.0, "{} was drawn, which is not kept", token);
        }
        Ok(())
    });
    result.unwrap();
}

#[test]
fn a_whole_vocabulary_is_cut_where_the_definition_cuts_it() {
    for (spread, step, top_p, top_k) in [
        (3.0, 0.0, 0.9, 0),
        (1.0, 0.0, 0.5, 1024),
        (0.0, 0.0, 0.3, 0),
        (2.0, 0.5, 0.95, 0),
        (2.0, 0.5, 1.0, 1000),
        (1e-4, 0.0, 0.7, 0),
        (100.0, 0.0, 1.0, 1024),
    ] {
        let how = sampling(1.0, top_p, top_k);
        let logits = bell(65_536, spread, step, 5);
        let weights = draw(&logits, how, 1).weights;
        let reference = Reference::new(&logits, &how);
        assert_eq!(reference.disagreement(&logits, &how, &weights), None, "{spread} {step} {how:?}");
    }
}

#[test]
fn draws_follow_the_probabilities() {
    const SEQUENCES: u32 = 48;
    const ROUNDS: usize = 30;
    let row = [0.5, 2.0, -1.0, f32::NEG_INFINITY, 1.5, 0.0, 1.5, -2.0];
    let logits = row.repeat(SEQUENCES as usize);
    for (temperature, top_p, top_k) in [(1.0, 1.0, 0), (0.5, 1.0, 0), (2.0, 0.9, 0), (1.0, 1.0, 3), (3.0, 0.99, 4)] {
        let how = |stream| Sampling { stream, seed: 20, ..sampling(temperature, top_p, top_k) };
        let sequences: Vec<Continuation<'_>> = (0..SEQUENCES).map(|stream| one(how(stream))).collect();
        let samples = sample(&DEVICE, &logits, &sequences, ROUNDS).unwrap();
        let mut counts = [0u32; 8];
        samples.tokens.iter().flatten().for_each(|token| counts[*token as usize] += 1);
        let reference = Reference::new(&row, &how(0));
        assert_eq!(reference.disagreement(&row, &how(0), &samples.weights[..8]), None);
        let kept: Vec<usize> = (0..8).filter(|id| samples.weights[*id] > 0.0).collect();
        let total: f64 = kept.iter().map(|id| f64::from(samples.weights[*id])).sum();
        let draws = f64::from(SEQUENCES) * ROUNDS as f64;
        assert_eq!(kept.iter().map(|id| f64::from(counts[*id])).sum::<f64>(), draws, "drawn outside the kept tokens");
        let chi_square: f64 = kept
            .iter()
            .map(|id| {
                let mean = f64::from(samples.weights[*id]) / total * draws;
                (f64::from(counts[*id]) - mean).powi(2) / mean
            })
            .sum();
        // With up to 6 degrees of freedom, exceeded once in a thousand seeds.
        assert!(chi_square < 22.5, "chi-square {chi_square} at {temperature} {top_p} {top_k}: {counts:?}");
    }
}

#[test]
fn draws_depend_on_seed_stream_and_number_alone() {
    let logits = bell(2000, 1.0, 0.0, 3);
    let how = |seed, stream, drawn| Sampling { seed, stream, drawn, ..Sampling::default() };
    let column = |samples: &Samples, i: usize| samples.tokens.iter().map(|round| round[i]).collect::<Vec<_>>();
    let alone = column(&draw(&logits, how(7, 1, 0), 24), 0);
    let three = [one(how(8, 1, 0)), one(how(7, 1, 0)), one(how(7, 2, 0))];
    let beside = sample(&DEVICE, &logits.repeat(3), &three, 24).unwrap();
    assert_eq!(column(&beside, 1), alone, "wherever it is decoded");
    assert_ne!(column(&beside, 0), alone, "another seed");
    assert_ne!(column(&beside, 2), alone, "another stream");
    assert_eq!(column(&draw(&logits, how(7, 1, 10), 14), 0), alone[10..], "continued");
    assert_ne!(column(&draw(&logits, how(7 + (1 << 32), 1, 0), 24), 0), alone, "all of the seed counts");
}

/// Philox 4x32-10, from its definition.
fn philox(mut x: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let product = |a: u32, b: u32| u64::from(a) * u64::from(b);
        let (a, b) = (product(0xD251_1F53, x[0]), product(0xCD9E_8D57, x[2]));
        x = [(b >> 32) as u32 ^ x[1] ^ key[0], b as u32, (a >> 32) as u32 ^ x[3] ^ key[1], a as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    x
}

/// Of 64 tokens alike, the first six bits choose.
#[test]
fn random_numbers_follow_philox() {
    // Known answer of its authors' library, Random123.
    assert_eq!(philox([0; 4], [0; 2]), [0x6627_E8D5, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8]);
    for (seed, stream) in [(0u64, 0u32), (0x0123_4567_89AB_CDEF, 9), (u64::MAX, u32::MAX)] {
        let samples = draw(&[1.5; 64], Sampling { seed, stream, ..Sampling::default() }, 20);
        let want = |step| philox([step, 0, stream, 0], [seed as u32, (seed >> 32) as u32])[0] >> 26;
        assert_eq!(samples.tokens.concat(), (0..20).map(want).collect::<Vec<_>>());
    }
}

/// A fault in the weights that typical sampling kept of `among`. The kept tokens must be nearest to the mean, no fewer
/// and no more than have the requested mass. Distances may be off by rounding.
fn atypical(logits: &[f32], among: &[f32], kept: &[f32], typical: f32) -> Option<String> {
    let best = logits.iter().copied().fold(f32::MIN, f32::max);
    let ids: Vec<usize> = (0..logits.len()).filter(|id| among[*id] > 0.0).collect();
    let x = |id: usize| f64::from(logits[id]) - f64::from(best);
    let sum: f64 = ids.iter().map(|id| x(*id).exp()).sum();
    let mean = ids.iter().map(|id| x(*id) * x(*id).exp()).sum::<f64>() / sum;
    let distance = |id: usize| (x(id) - mean).abs();
    let (mut inside, mut outside): (Vec<usize>, Vec<usize>) = ids.iter().partition(|id| kept[**id] > 0.0);
    if kept.iter().filter(|w| **w > 0.0).count() != inside.len() {
        return Some("a token is kept that top_p or top_k leaves out".to_owned());
    }
    inside.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    outside.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    let Some(last) = inside.last().copied() else { return Some("none is kept".to_owned()) };
    if let Some(first) = outside.first().filter(|id| distance(**id) < distance(last) - 1e-4) {
        return Some(format!("{first} at {} is left out, {last} at {} is kept", distance(*first), distance(last)));
    }
    let mass = inside.iter().map(|id| x(*id).exp()).sum::<f64>() / sum;
    let without = mass - inside.iter().map(|id| x(*id).exp()).fold(f64::MAX, f64::min) / sum;
    let goal = f64::from(typical);
    match inside.len() {
        _ if mass < goal - MASS => Some(format!("{mass} is kept, not {goal}")),
        1 => None,
        _ if mass - x(last).exp() / sum < goal + MASS || without < goal + MASS => None,
        _ => Some(format!("{without} was enough for {goal}")),
    }
}

#[test]
fn typical_tokens_are_near_the_mean() {
    let settings = (prop_oneof![Just(0.0f32), 0.0f32..1.0], prop_oneof![Just(1.0f32), 0.3f32..1.0], 0u32..60);
    let logits =
        (1usize..3000, prop_oneof![Just(0.0f32), 0.01f32..8.0], prop_oneof![Just(0.0f32), 0.1f32..1.0], any::<u32>());
    let mut runner = TestRunner::new(Config { cases: 64, failure_persistence: None, ..Config::default() });
    let result = runner.run(&(settings, logits), |((typical, top_p, top_k), (vocab, spread, step, seed))| {
        let logits = bell(vocab, spread, step, seed);
        let how = sampling(1.0, top_p, top_k);
        let among = draw(&logits, how, 1).weights;
        let samples = draw(&logits, Sampling { typical, ..how }, 1);
        prop_assert_eq!(atypical(&logits, &among, &samples.weights, typical), None);
        prop_assert!(samples.weights[samples.tokens[0][0] as usize] > 0.0);
        Ok(())
    });
    result.unwrap();
    // Not the likeliest of four: that one is too likely, with p = 0.4 against e^-entropy = 0.23.
    let logits: Vec<f32> = [0.4f32, 0.2, 0.2, 0.1, 0.1].iter().map(|p| p.ln()).collect();
    let weights = draw(&logits, Sampling { typical: 0.35, ..sampling(1.0, 1.0, 0) }, 1).weights;
    assert_eq!(weights.iter().map(|w| *w > 0.0).collect::<Vec<_>>(), [false, true, true, false, false]);
    // Cold enough, the best of the two typical ones is all that is left: the scale is theirs.
    let logits = [9.0, 8.0, 7.9, 7.0].map(|x: f32| x * 0.4);
    let cold = Sampling { typical: 0.3, ..sampling(1e-3, 1.0, 0) };
    assert_eq!(draw(&logits, cold, 2).tokens, [[1], [1]]);
}

#[test]
fn biases_move_tokens_and_ban_them() {
    let logits = bell(1500, 1.0, 0.0, 4);
    let never = f32::NEG_INFINITY;
    let best = draw(&logits, sampling(0.0, 1.0, 0), 1).tokens[0][0];
    let bias = [(best, never), (1400, 50.0), (7, 3.0), (7, -2.0)];
    let how = sampling(0.7, 0.95, 0);
    let two = [Continuation { bias: &bias, ..one(how) }, one(how)];
    let samples = sample(&DEVICE, &logits.repeat(2), &two, 1).unwrap();
    let mut moved = logits.clone();
    moved[best as usize] = never;
    moved[1400] += 50.0;
    moved[7] -= 2.0;
    for (row, weights) in [&moved, &logits].into_iter().zip(samples.weights.chunks_exact(1500)) {
        assert_eq!(Reference::new(row, &how).disagreement(row, &how, weights), None);
    }
    let greedy = Continuation { bias: &[(best, never)], ..one(sampling(0.0, 1.0, 0)) };
    assert_ne!(sample(&DEVICE, &logits, &[greedy], 3).unwrap().tokens[2], [best]);
    let refused =
        |bias: &[(u32, f32)]| sample(&DEVICE, &[0.0; 3], &[Continuation { bias, ..one(how) }], 1).unwrap_err();
    let all = refused(&[(0, never), (1, never), (2, never)]).to_string();
    assert!(all.contains("ruled out"), "{all}");
    assert!(matches!(refused(&[(3, 0.0)]), RuntimeError::Decode(DecodeError::Token { token: 3, vocab: 3, .. })));
    for wrong in [f32::NAN, f32::INFINITY, -2e30] {
        assert!(matches!(refused(&[(0, wrong)]), RuntimeError::Decode(DecodeError::Setting { .. })));
    }
}

/// Rounds in one call are as rounds over two, if the second is told what the first has chosen.
#[test]
fn tokens_chosen_in_an_earlier_call_are_penalised() {
    let logits = bell(400, 0.3, 0.0, 9);
    let penalties = Penalties { presence: 0.4, frequency: 0.3, decay: 0.9, ..Penalties::default() };
    let how = Sampling { penalties, seed: 5, ..sampling(1.0, 0.9, 0) };
    let all: Vec<u32> = draw(&logits, how, 30).tokens.concat();
    let mut chosen = vec![0.0f32; 400];
    for token in &all[..12] {
        chosen.iter_mut().for_each(|count| *count *= penalties.decay);
        chosen[*token as usize] += 1.0;
    }
    let chosen: Vec<(u32, f32)> = (0..).zip(chosen).filter(|(_, count)| *count > 0.0).collect();
    let later = Continuation { past: &chosen, ..one(Sampling { drawn: 12, ..how }) };
    assert_eq!(sample(&DEVICE, &logits, &[later], 18).unwrap().tokens.concat(), all[12..]);
}

/// Every round is the definition: penalise what was chosen, in f64, and compare the last round's weights.
#[test]
fn chosen_tokens_are_penalised() {
    let logits = bell(1300, 0.5, 0.0, 9);
    for (presence, frequency, decay, temperature) in
        [(0.4, 0.0, 1.0, 1.0), (0.0, 0.3, 0.9, 1.0), (0.4, 0.4, 0.996, 0.7), (50.0, 0.0, 1.0, 0.0)]
    {
        let how = Sampling {
            penalties: Penalties { presence, frequency, decay, ..Penalties::default() },
            top_k: NonZeroU32::new(20),
            ..sampling(temperature, 1.0, 0)
        };
        let samples = draw(&logits, how, 40);
        let mut counts = vec![0.0f64; logits.len()];
        let mut scores = logits.clone();
        for (round, tokens) in samples.tokens.iter().enumerate() {
            for (id, count) in counts.iter().enumerate() {
                let present = if *count > 0.0 { f64::from(presence) } else { 0.0 };
                scores[id] = (f64::from(logits[id]) - present - f64::from(frequency) * count) as f32;
            }
            let token = tokens[0];
            let order = Reference::new(&scores, &how).order;
            let among = if temperature > 0.0 { 21 } else { 1 };
            assert!(order[..among].contains(&token), "round {round}: {token} is not among the likeliest");
            counts.iter_mut().for_each(|count| *count *= f64::from(decay));
            counts[token as usize] += 1.0;
        }
        if temperature > 0.0 {
            let reference = Reference::new(&scores, &how);
            assert_eq!(reference.disagreement(&scores, &how, &samples.weights), None, "{how:?}");
        }
    }
}

/// Min-p keeps some of what top-p and top-k keep, never fewer than one, and typical sampling chooses among these.
#[test]
fn min_p_keeps_what_is_near_the_likeliest() {
    for (spread, top_p, top_k, min_p) in
        [(1.0, 1.0, 0, 0.05), (0.4, 0.9, 0, 0.3), (1.0, 1.0, 7, 0.01), (2.0, 0.95, 50, 0.5), (1.0, 1.0, 0, 1.0)]
    {
        let logits = bell(3000, spread, 0.0, 12);
        let plain = sampling(0.8, top_p, top_k);
        let weights = draw(&logits, Sampling { min_p, ..plain }, 1).weights;
        let order = Reference::new(&logits, &plain).order;
        let best = f64::from(logits[order[0] as usize]);
        let ratio = |id: u32| (f64::from(logits[id as usize]) - best).exp();
        let without = draw(&logits, plain, 1).weights;
        for id in order {
            let is_near = (ratio(id) - f64::from(min_p)).abs() < 1e-5;
            let want = without[id as usize] > 0.0 && ratio(id) >= f64::from(min_p);
            assert!(is_near || (weights[id as usize] > 0.0) == want, "{id} of {min_p}, {}", ratio(id));
        }
        assert!(weights.iter().any(|weight| *weight > 0.0));
    }
    // Of two tokens half as likely as the best, typical sampling sees none.
    let logits = [0.0f32, -0.7, -0.7, -3.0];
    let how = Sampling { min_p: 0.6, typical: 0.9, ..sampling(1.0, 1.0, 0) };
    assert_eq!(draw(&logits, how, 5).tokens.concat(), [0; 5]);
}

/// The repetition penalty concerns tokens of the prompt and chosen ones, once, in the way of their sign.
#[test]
fn repeated_tokens_are_penalised_by_their_sign() {
    let logits = [3.0f32, 2.0, -1.0, -2.0, 2.5];
    let how = |repetition| Sampling { penalties: Penalties { repetition, ..Penalties::NONE }, ..Sampling::default() };
    let weights = |past: &[(u32, f32)], repetition| {
        let sequence = Continuation { past, ..one(how(repetition)) };
        sample(&DEVICE, &logits, &[sequence], 1).unwrap().weights
    };
    let close = |weights: &[f32], want: [f32; 5]| {
        let (sum, all) = (weights.iter().sum::<f32>(), want.map(f32::exp).iter().sum::<f32>());
        weights.iter().zip(want).all(|(weight, want)| (weight / sum - want.exp() / all).abs() < 1e-6)
    };
    assert!(close(&weights(&[], 1.5), logits));
    assert!(close(&weights(&[(0, 0.0), (2, 0.0)], 2.0), [1.5, 2.0, -2.0, -2.0, 2.5]));
    assert!(close(&weights(&[(1, 2.0), (3, 0.5)], 0.5), [3.0, 4.0, -1.0, -1.0, 2.5]));
    // What was chosen counts from then on, whatever is forgotten.
    let penalties = Penalties { repetition: 100.0, decay: 0.0, ..Penalties::NONE };
    let greedy = Sampling { penalties, ..sampling(0.0, 1.0, 0) };
    assert_eq!(draw(&logits, greedy, 4).tokens.concat(), [0, 4, 1, 0]);
    let error = sample(&DEVICE, &logits, &[one(how(0.0))], 1).unwrap_err().to_string();
    assert!(error.contains("repetition penalty 0"), "{error}");
}

#[test]
fn masks_allow_some_tokens() {
    let logits = bell(2100, 1.0, 0.0, 3);
    let mut mask = vec![0u32; 66];
    let allowed = [5u32, 31, 32, 1023, 1024, 2099];
    allowed.iter().for_each(|id| mask[*id as usize / 32] |= 1 << (id % 32));
    let masked = Continuation { allowed: Some(&mask), max_tokens: 1, ..one(sampling(1.0, 1.0, 0)) };
    let biased = Continuation { bias: &[(5, f32::NEG_INFINITY), (31, 9.0)], ..masked };
    let both = sample(&DEVICE, &logits.repeat(3), &[masked, one(sampling(1.0, 1.0, 0)), biased], 1).unwrap();
    let kept =
        |row: usize| -> Vec<u32> { (0..2100).filter(|id| both.weights[row * 2100 + *id as usize] > 0.0).collect() };
    assert_eq!(kept(0), allowed);
    assert!(kept(1).len() > 2000);
    assert_eq!(kept(2), allowed[1..]);
    assert!(allowed.contains(&both.tokens[0][0]));
    let refused = |sequence| match sample(&DEVICE, &logits, &[sequence], 1).unwrap_err() {
        RuntimeError::Decode(why) => why,
        other => panic!("{other}"),
    };
    let short = Continuation { allowed: Some(&mask[1..]), ..masked };
    assert!(matches!(refused(short), DecodeError::Mask { got: 65, words: 66, .. }));
    assert!(matches!(refused(Continuation { max_tokens: 2, ..masked }), DecodeError::MaskedSteps { steps: 2, .. }));
    let nothing = vec![0; 66];
    let why = refused(Continuation { allowed: Some(&nothing), ..masked }).to_string();
    assert!(why.contains("ruled out"), "{why}");
}

/// Log-probabilities are those of the logits as they are, whatever moves them.
#[test]
fn logprobs_are_the_models_own() {
    let mut logits = bell(2500, 1.0, 0.25, 8);
    logits[7] = f32::NEG_INFINITY;
    let bias = [(3, 40.0f32)];
    let listed = |listed| Continuation { bias: &bias, listed, ..one(sampling(0.0, 1.0, 0)) };
    let samples = sample(&DEVICE, &logits.repeat(3), &[listed(Some(20)), listed(None), listed(Some(0))], 2).unwrap();
    assert_eq!(samples.tokens[1], [3; 3]);
    let exact = |id: u32| {
        let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
        f64::from(logits[id as usize]) - sum.ln()
    };
    let order = Reference::new(&logits, &sampling(1.0, 1.0, 0)).order;
    let rows: Vec<_> = samples.logprobs.chunks_exact(21).collect();
    let tokens: Vec<u32> = rows[0].iter().map(|listed| listed.token).collect();
    assert_eq!(tokens[0], 3);
    assert_eq!(tokens[1..], order[..20]);
    for listed in rows[0].iter().chain([&rows[2][0]]) {
        assert!((f64::from(listed.logprob) - exact(listed.token)).abs() < 1e-5, "{listed:?}");
    }
    // There may be fewer tokens than are asked for.
    let few = sample(&DEVICE, &[0.0, 1.0, f32::NEG_INFINITY], &[Continuation { bias: &[], ..listed(Some(20)) }], 1);
    let tokens: Vec<u32> = few.unwrap().logprobs.iter().map(|listed| listed.token).collect();
    assert_eq!(tokens[..4], [1, 1, 0, u32::MAX]);
    let many = Continuation { listed: Some(21), ..one(sampling(0.0, 1.0, 0)) };
    let error = sample(&DEVICE, &logits, &[many], 1).unwrap_err();
    assert!(matches!(error, RuntimeError::Decode(DecodeError::Listed { got: 21, .. })));
}
