//! The scheduler on a simulated device with a simulated clock.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A simulated device: a pass costs 5 ms, 10 us for each sequence that decodes and `token` us for each other token
/// of its padded shape.
#[derive(Clone, Copy, Debug)]
struct SimulatedDevice {
    token: u64,
}

impl SimulatedDevice {
    fn pass(self, decoding: usize, chunk: &[(SequenceId, usize)]) -> Duration {
        let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
        let all = Padded::new(decoding + tokens, decoding + chunk.len(), decoding).tokens as u64;
        let prefilled = if chunk.is_empty() { 0 } else { all - decoding as u64 };
        Duration::from_micros(5000 + 10 * decoding as u64 + self.token * prefilled)
    }
}

#[derive(Clone, Copy, Debug)]
struct Request {
    at: Duration,
    priority: i32,
    prompt: usize,
    written: usize,
    /// After this time its client disconnects.
    patience: Option<Duration>,
}

/// The life of a request.
#[derive(Clone, Debug, Default)]
struct Seen {
    admitted: Option<Duration>,
    read: usize,
    /// When each token came.
    tokens: Vec<Duration>,
    is_gone: bool,
}

/// Runs requests on a device until all have ended.
fn simulate(slots: usize, pass: usize, device: SimulatedDevice, requests: &[Request]) -> Vec<Seen> {
    let mut schedule = Schedule::new(slots, pass);
    let mut seen = vec![Seen::default(); requests.len()];
    let (mut now, mut arrived) = (Duration::ZERO, 0);
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|i| requests[*i].at);
    let of: BTreeMap<SequenceId, usize> = order.iter().enumerate().map(|(n, i)| (SequenceId(n as u64), *i)).collect();
    for turn in 0.. {
        assert!(turn < 1_000_000, "it never ends");
        while let Some(i) = order.get(arrived).filter(|i| requests[**i].at <= now) {
            schedule.join(SequenceId(arrived as u64), requests[*i].priority);
            arrived += 1;
        }
        for (id, i) in of.iter().take(arrived) {
            let is_over = requests[*i].patience.is_some_and(|patience| requests[*i].at + patience <= now);
            if is_over && seen[*i].tokens.len() < requests[*i].written && !seen[*i].is_gone {
                schedule.leave(*id);
                seen[*i].is_gone = true;
            }
        }
        if schedule.is_empty() {
            match order.get(arrived) {
                Some(i) => now = requests[*i].at,
                None => return seen,
            }
            continue;
        }
        while let Some(id) = schedule.admit() {
            let first = *schedule.waiting.first().unwrap_or(&Rank { priority: Reverse(i32::MIN), id });
            assert!(first.priority.0 <= requests[of[&id]].priority, "a higher priority waits");
            seen[of[&id]].admitted = Some(now);
            schedule.set_unread(id, requests[of[&id]].prompt - 1);
        }
        let chunk = schedule.chunk();
        let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
        let decoding: Vec<SequenceId> = schedule.decoding().collect();
        let may_wait = schedule.steps.is_unknown() || schedule.rested < SAVED * REST;
        assert!(tokens <= pass && (tokens > 0 || schedule.prefilling.is_empty() || may_wait));
        assert!(decoding.len() + schedule.prefilling.len() <= slots);
        let left: Vec<usize> = decoding.iter().map(|id| requests[of[id]].written - seen[of[id]].tokens.len()).collect();
        let steps = if chunk.is_empty() { schedule.steps(usize::MAX, &left) } else { 1 };
        assert!(left.is_empty() || left.iter().any(|left| steps <= *left));
        for _ in 0..steps {
            now += device.pass(decoding.len(), &chunk);
            for id in &decoding {
                if seen[of[id]].tokens.len() < requests[of[id]].written {
                    seen[of[id]].tokens.push(now);
                }
            }
        }
        chunk.iter().for_each(|(id, tokens)| seen[of[id]].read += tokens);
        let took = device.pass(decoding.len(), &chunk) * steps as u32;
        match (decoding.is_empty(), chunk.is_empty()) {
            (false, true) => schedule.decoded(decoding.len(), steps, took),
            (false, false) => schedule.decoded_beside(decoding.len(), &chunk, took),
            _ => {}
        }
        schedule.prefilled(&chunk);
        for id in decoding {
            if seen[of[&id]].tokens.len() == requests[of[&id]].written {
                schedule.leave(id);
            }
        }
    }
    seen
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0u64..2_000, -1i32..2, 1usize..3_000, 1usize..60, prop::option::weighted(0.2, 0u64..3_000));
    let one = one.prop_map(|(at, priority, prompt, written, patience)| Request {
        at: Duration::from_millis(at),
        priority,
        prompt,
        written,
        patience: patience.map(Duration::from_millis),
    });
    prop::collection::vec(one, 1..40)
}

proptest! {
    #[test]
    fn every_request_is_prefilled_and_decoded(
        requests in requests(), slots in 1usize..20, pass in 1usize..2_000, token in 1u64..500,
    ) {
        let seen = simulate(slots, pass, SimulatedDevice { token }, &requests);
        for (request, seen) in requests.iter().zip(&seen) {
            if !seen.is_gone {
                prop_assert_eq!((seen.read, seen.tokens.len()), (request.prompt - 1, request.written));
            }
        }
        // Requests of equal priority are admitted in the order of their arrival.
        for (a, b) in (0..requests.len()).flat_map(|a| (0..requests.len()).map(move |b| (a, b))) {
            let (earlier, later) = (&requests[a], &requests[b]);
            if earlier.priority == later.priority && earlier.at < later.at && !seen[a].is_gone {
                let (first, second) = (seen[a].admitted, seen[b].admitted);
                prop_assert!(second.is_none_or(|second| first.is_some_and(|first| first <= second)));
            }
        }
    }
}

/// The times between tokens, sorted.
fn gaps(seen: &[Seen], among: std::ops::Range<usize>) -> Vec<Duration> {
    let mut gaps: Vec<Duration> =
        seen[among].iter().flat_map(|s| s.tokens.windows(2).map(|pair| pair[1] - pair[0])).collect();
    gaps.sort();
    gaps
}

#[test]
fn a_long_prompt_delays_few_tokens() {
    let chat = Request { at: Duration::ZERO, priority: 0, prompt: 30, written: 600, patience: None };
    let long = Request { at: Duration::from_millis(500), prompt: 30_000, written: 10, ..chat };
    let alone = gaps(&simulate(32, 512, SimulatedDevice { token: 40 }, &[chat; 31]), 0..31);
    let requests: Vec<Request> = std::iter::repeat_n(chat, 31).chain([long]).collect();
    let seen = simulate(32, 512, SimulatedDevice { token: 40 }, &requests);
    let beside = gaps(&seen, 0..31);
    let p95 = |gaps: &[Duration]| gaps[gaps.len() * 95 / 100];
    assert!(p95(&beside) <= 2 * p95(&alone), "{:?} beside, {:?} alone", p95(&beside), p95(&alone));
    assert!(beside.last() <= Some(&(REST as u32 * p95(&alone))), "{:?} at most", beside.last());
    // They keep half of their speed, and the prompt most of its own.
    let ended = |seen: &[Seen]| seen[..31].iter().filter_map(|s| s.tokens.last().copied()).max().unwrap();
    let only = simulate(32, 512, SimulatedDevice { token: 40 }, &[chat; 31]);
    assert!(ended(&seen) <= 2 * ended(&only), "{:?} beside, {:?} alone", ended(&seen), ended(&only));
    assert!(seen[31].tokens.len() == 10);
}

#[test]
fn expected_passes_are_those_of_large_chunks() {
    for (slots, pass) in [(1, 64), (3, 512), (32, 2048), (200, 4096), (500, 512)] {
        let expected = expected_passes(slots, pass);
        for (i, shape) in expected.iter().enumerate() {
            let Padded { tokens, segments, outputs } = *shape;
            assert!(tokens <= pass.max(bucket(slots)) && outputs <= slots.next_power_of_two(), "{shape:?}");
            assert!(tokens == bucket(tokens) && segments <= tokens && !expected[..i].contains(shape), "{shape:?}");
        }
        assert!(expected.len() <= 100, "{}", expected.len());
    }
    // What 32 sequences, 27 of which decode, need.
    let mut schedule = Schedule::new(32, 2048);
    (0..32).for_each(|n| schedule.join(SequenceId(n), 0));
    for n in 0..32 {
        let id = schedule.admit().unwrap();
        schedule.set_unread(id, if n < 27 { 0 } else { 400 });
    }
    for _ in 0..3 {
        schedule.decoded(27, 1, Duration::from_millis(5));
        schedule.decoded_beside(27, &schedule.chunk(), Duration::from_millis(10));
        schedule.rested = SAVED * REST;
    }
    let chunk = schedule.chunk();
    let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
    let shape = Padded::new(27 + tokens, 27 + chunk.len(), 27);
    assert!(expected_passes(32, 2048).contains(&shape), "{shape:?}");
}

#[test]
fn chunks_fill_buckets() {
    for pass in 1..5_000 {
        let below = bucket_below(pass);
        assert!(below <= pass && bucket(below) == below && bucket(below + 1) > pass, "{pass}");
    }
    for (decoding, prompts) in [(0, 13), (1, 1), (5, 2), (25, 1), (30, 2), (31, 1), (3, 20)] {
        let mut schedule = Schedule::new(64, 4096);
        (0..decoding + prompts).for_each(|n| schedule.join(SequenceId(n), 0));
        for n in 0..decoding + prompts {
            let id = schedule.admit().unwrap();
            schedule.set_unread(id, if n < decoding { 0 } else { 5_000 });
        }
        let chunk = schedule.chunk();
        let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
        let decoding = decoding as usize;
        let all = Padded::new(decoding + tokens, decoding + chunk.len(), decoding);
        let padding = all.segments - decoding - chunk.len();
        assert!(all.tokens <= 4096 && decoding + tokens + padding == all.tokens, "{tokens} beside {decoding}");
    }
}

#[test]
fn a_short_prompt_overtakes_a_long_one() {
    let long = Request { at: Duration::ZERO, priority: 0, prompt: 50_000, written: 1, patience: None };
    let short = Request { at: Duration::from_millis(10), prompt: 300, ..long };
    let seen = simulate(4, 512, SimulatedDevice { token: 40 }, &[long, short]);
    assert!(seen[1].tokens[0] < Duration::from_millis(150), "{:?}", seen[1].tokens[0]);
    assert!(seen[0].tokens[0] > Duration::from_secs(2));
}

/// At four fifths of what the device can do, first tokens come soon, and most tokens as without prompts.
#[test]
fn many_chats_are_prefilled_in_large_passes() {
    let device = SimulatedDevice { token: 30 };
    let one = Request { at: Duration::ZERO, priority: 0, prompt: 300, written: 128, patience: None };
    let requests: Vec<Request> = (0..256u64).map(|n| Request { at: Duration::from_millis(n * 36), ..one }).collect();
    let seen = simulate(64, 2048, device, &requests);
    let first = |(request, seen): (&Request, &Seen)| seen.tokens[0] - request.at;
    let mut first: Vec<Duration> = requests.iter().zip(&seen).map(first).collect();
    first.sort();
    assert!(first[first.len() * 95 / 100] < Duration::from_millis(250), "{:?}", first[first.len() * 95 / 100]);
    let gaps = gaps(&seen, 0..256);
    assert!(gaps[gaps.len() * 94 / 100] < Duration::from_micros(2 * 5_640), "{:?}", gaps[gaps.len() * 94 / 100]);
}

#[test]
fn a_short_prompt_does_not_wait_for_the_rest() {
    let device = SimulatedDevice { token: 40 };
    let chat = Request { at: Duration::ZERO, priority: 0, prompt: 30, written: 600, patience: None };
    let long = Request { at: Duration::from_millis(500), prompt: 30_000, written: 10, ..chat };
    let short = |n: u64| Request { at: Duration::from_millis(700 + 31 * n), prompt: 20, written: 1, ..chat };
    let requests: Vec<Request> = (0..20).map(short).chain([long]).chain([chat; 8]).collect();
    let seen = simulate(32, 512, device, &requests);
    for (request, seen) in requests[..20].iter().zip(&seen) {
        assert!(seen.tokens[0] - request.at < Duration::from_millis(200), "{:?}", seen.tokens[0] - request.at);
    }
}

#[test]
fn whole_passes_are_prefilled_where_no_sequence_decodes() {
    let mut schedule = Schedule::new(4, 512);
    (0..3).for_each(|n| schedule.join(SequenceId(n), 0));
    for unread in [600, 100, 300] {
        let id = schedule.admit().unwrap();
        schedule.set_unread(id, unread);
    }
    let chunk = schedule.chunk();
    assert_eq!(chunk, [(SequenceId(0), 256), (SequenceId(1), 100), (SequenceId(2), 155)]);
}
