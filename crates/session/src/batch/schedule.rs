//! The batch scheduler: admission by priority and arrival, chunked prefill beside decode. Plain data: no device, no
//! clock.
//!
//! A *turn* is one pass over a chunk of the prompts and the next token of every decoding sequence, or a run of decode
//! steps. Devices are fastest with large chunks, so chunks are large and rare: each pass that takes longer than two
//! decode steps has to be earned by [`REST`] decode steps, so 95 % of the tokens arrive as without prompts; and it
//! takes at most as long as these, so decoding sequences keep half of their speed. Up to [`SAVED`] passes are saved
//! for prompts that arrive together. A prompt that ends within a pass of two decode steps does not wait. If more
//! sequences prefill than decode, a pass is earned sooner by that ratio; if none decodes, at once. The first prompt of
//! the queue gets half of a chunk, the next one half of the rest, and so on: a short prompt overtakes a long one.
//!
//! Devices pad passes to buckets ([`bucket`]), so chunks fill them, and times are known by bucket.

use super::event::SequenceId;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_runtime::{Padded, bucket};

/// Decode steps that earn a long pass: less than one of 20 is long, saved ones among them.
const REST: usize = 24;

/// Most long passes that are earned ahead.
const SAVED: usize = 3;

/// Smallest prefill chunk beside decode, in tokens.
const SMALLEST_CHUNK: usize = 16;

/// Prefill chunk before any pass was timed, in tokens.
const FIRST_CHUNK: usize = 64;

/// Most prompts in a short pass and in a long one: [`Padded`] shapes hold as many and one segment of padding.
const PROMPTS: [usize; 2] = [3, 15];

/// Longest run of decode steps without a look at the queue, and half of the longest of a single sequence. Each run
/// ends with an idle device, so short runs are slow.
const DECODE_RUN: Duration = Duration::from_millis(50);

/// Order of admission: priority, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: Reverse<i32>,
    id: SequenceId,
}

/// The passes that a batch of that many slots is likely to need, the likeliest first: decode steps, and passes of
/// large chunks.
pub(super) fn expected_passes(slots: usize, pass: usize) -> Vec<Padded> {
    let pass = bucket_below(pass);
    let smaller = |most: usize| std::iter::successors(Some(most), |n| (*n > 1).then(|| bucket_below(n - 1)));
    let chunks: Vec<usize> =
        smaller(pass).take_while(|tokens| *tokens * 4 >= pass && *tokens > 4 * (slots + PROMPTS[1])).collect();
    let decoding = std::iter::successors(Some(slots.next_power_of_two()), |rows| (*rows > 8).then_some(*rows / 2));
    let beside = |rows: usize| {
        let padded = move |tokens: &usize, prompts: usize| Padded::new(*tokens - prompts, rows + prompts, rows);
        chunks.iter().flat_map(move |tokens| [padded(tokens, PROMPTS[1]), padded(tokens, PROMPTS[0])])
    };
    let mut passes: Vec<Padded> =
        chunks.first().map(|tokens| Padded::new(*tokens - PROMPTS[1], PROMPTS[1], 0)).into_iter().collect();
    passes.extend(decoding.flat_map(beside));
    passes.extend(smaller(bucket(slots)).map(|rows| Padded::new(rows, rows, rows)));
    passes
}

/// The sequences of a batch by phase, and the pace of the device.
#[derive(Debug)]
pub(super) struct Schedule {
    slots: usize,
    /// Most tokens of a pass.
    pass: usize,
    waiting: BTreeSet<Rank>,
    /// With the tokens left to prefill.
    prefilling: BTreeMap<Rank, usize>,
    decoding: BTreeSet<SequenceId>,
    /// Time of a decode step, by bucket of sequences.
    steps: Times,
    /// Time of a pass that prefills beside decode, by bucket of tokens.
    passes: Times,
    /// Decode steps that earned no long pass yet.
    rested: usize,
}

/// Times of passes by bucket. The first pass of a bucket does not count, and slower ones count for an eighth: they may
/// have been prepared first.
#[derive(Debug, Default)]
struct Times(BTreeMap<usize, Option<Duration>>);

impl Times {
    fn record(&mut self, bucket: usize, took: Duration) {
        match self.0.entry(bucket) {
            Entry::Vacant(entry) => drop(entry.insert(None)),
            Entry::Occupied(mut entry) => {
                let known = entry.get().unwrap_or(took);
                entry.insert(Some(if took > known { known + (took - known) / 8 } else { took }));
            }
        }
    }

    /// Whether no bucket is known.
    fn is_unknown(&self) -> bool {
        self.0.values().all(Option::is_none)
    }

    /// The time of a bucket: that of the next smaller one that is known, in proportion, else that of the smallest.
    fn of(&self, bucket: usize) -> Option<Duration> {
        let known = |(size, took): (&usize, &Option<Duration>)| took.map(|took| (*size, took));
        match self.0.range(..=bucket).rev().find_map(known) {
            Some((size, took)) => Some(took.mul_f64(bucket as f64 / size as f64)),
            None => self.0.iter().find_map(known).map(|(_, took)| took),
        }
    }
}

impl Schedule {
    /// An empty schedule of that many slots; a pass has at most `pass` tokens.
    pub(super) fn new(slots: usize, pass: usize) -> Self {
        let pass = pass.max(1);
        Schedule {
            slots: slots.max(1),
            pass,
            waiting: BTreeSet::new(),
            prefilling: BTreeMap::new(),
            decoding: BTreeSet::new(),
            steps: Times::default(),
            passes: Times::default(),
            rested: SAVED * REST,
        }
    }

    /// Queues a sequence.
    pub(super) fn join(&mut self, id: SequenceId, priority: i32) {
        self.waiting.insert(Rank { priority: Reverse(priority), id });
    }

    /// Removes a sequence.
    pub(super) fn leave(&mut self, id: SequenceId) {
        self.waiting.retain(|rank| rank.id != id);
        self.prefilling.retain(|rank, _| rank.id != id);
        self.decoding.remove(&id);
    }

    /// Admits the first sequence of the queue if a slot is free. Its caller then says how much it has to prefill:
    /// [`Schedule::set_unread`].
    pub(super) fn admit(&mut self) -> Option<SequenceId> {
        let is_free = self.prefilling.len() + self.decoding.len() < self.slots;
        let rank = *self.waiting.first().filter(|_| is_free)?;
        self.waiting.remove(&rank);
        self.prefilling.insert(rank, 0);
        Some(rank.id)
    }

    /// Sets the number of tokens that an admitted sequence has to prefill; with 0 it decodes.
    pub(super) fn set_unread(&mut self, id: SequenceId, tokens: usize) {
        if let Some(rank) = self.prefilling.keys().find(|rank| rank.id == id).copied() {
            match tokens {
                0 => {
                    self.prefilling.remove(&rank);
                    self.decoding.insert(id);
                }
                _ => drop(self.prefilling.insert(rank, tokens)),
            }
        }
    }

    /// The next prefill chunk: the number of tokens of each sequence; none while a long pass is not earned.
    pub(super) fn chunk(&self) -> Vec<(SequenceId, usize)> {
        if self.prefilling.is_empty() {
            return Vec::new();
        }
        let decoding = self.decoding.len();
        let largest = bucket_below(self.pass);
        if decoding == 0 {
            return self.fill(largest, PROMPTS[1]);
        }
        // A few decode steps first, to know how long they take.
        let Some(step) = self.steps.of(bucket(decoding)) else { return Vec::new() };
        if self.rested >= self.rest() {
            return self.fill(self.tokens_within(step * REST as u32), PROMPTS[1]);
        }
        let short = self.fill(self.tokens_within(step * 2), PROMPTS[0]);
        let ends = |(id, tokens): &(SequenceId, usize)| self.unread(*id) == Some(*tokens);
        let ending: Vec<_> = short.into_iter().filter(ends).collect();
        // A pass of fewer prompts may be padded to more tokens.
        if self.is_short(&ending) { ending } else { Vec::new() }
    }

    /// Decode steps that earn the next long pass.
    fn rest(&self) -> usize {
        let decoding = self.decoding.len();
        if self.passes.is_unknown() { 0 } else { REST * decoding / self.prefilling.len().max(decoding).max(1) }
    }

    /// Whether a pass of that chunk takes at most as long as two decode steps.
    fn is_short(&self, chunk: &[(SequenceId, usize)]) -> bool {
        let steps = self.steps.of(bucket(self.decoding.len()));
        let pass = self.passes.of(self.padded(chunk));
        pass.zip(steps).is_some_and(|(pass, step)| pass <= step * 2)
    }

    /// Tokens of the padded pass that prefills a chunk beside the decoding sequences.
    fn padded(&self, chunk: &[(SequenceId, usize)]) -> usize {
        let (decoding, tokens) = (self.decoding.len(), chunk.iter().map(|(_, tokens)| tokens).sum::<usize>());
        Padded::new(decoding + tokens, decoding + chunk.len(), decoding).tokens
    }

    /// Number of tokens that an admitted sequence has to prefill.
    fn unread(&self, id: SequenceId) -> Option<usize> {
        self.prefilling.iter().find(|(rank, _)| rank.id == id).map(|(_, unread)| *unread)
    }

    /// A chunk of at most that many prompts that fills a bucket of tokens, of decoding sequences and prompts together.
    fn fill(&self, tokens: usize, most: usize) -> Vec<(SequenceId, usize)> {
        let (decoding, prompts) = (self.decoding.len(), self.prefilling.len().min(most));
        let segments = decoding + prompts;
        // Each segment that pads the pass has a token.
        let padding = Padded::new(self.pass, segments, decoding).segments - segments;
        self.shares(tokens.saturating_sub(decoding + padding).max(1), prompts)
    }

    /// Tokens of the largest bucket whose pass, as far as is known, takes at most that long beside the decoding
    /// sequences.
    fn tokens_within(&self, limit: Duration) -> usize {
        let (decoding, largest) = (self.decoding.len(), bucket_below(self.pass));
        let smallest = bucket(decoding + SMALLEST_CHUNK).min(largest);
        let unknown = bucket(decoding + FIRST_CHUNK);
        let buckets = std::iter::successors(Some(smallest), |size| Some(bucket(size + 1)));
        let buckets =
            buckets.take_while(|size| *size <= largest && (self.passes.of(*size).is_some() || *size <= unknown));
        let fits = |tokens: &usize| self.passes.of(*tokens).is_none_or(|took| took <= limit);
        buckets.take_while(fits).last().unwrap_or(smallest)
    }

    /// Divides that many tokens among the first prompts.
    fn shares(&self, tokens: usize, prompts: usize) -> Vec<(SequenceId, usize)> {
        let mut left = tokens;
        let mut shares: Vec<(SequenceId, usize, usize)> = Vec::new();
        for (rank, unread) in self.prefilling.iter().take(prompts) {
            // Each of the others has a token at least.
            let others = prompts - shares.len() - 1;
            let half = left.div_ceil(2).min(left.saturating_sub(others).max(1)).min(left);
            let share = if others == 0 { left } else { half }.min(*unread);
            left -= share;
            shares.push((rank.id, share, *unread));
        }
        // Tokens that short prompts do not need go to the others, in the same order.
        for (_, share, unread) in &mut shares {
            let more = left.min(*unread - *share);
            (*share, left) = (*share + more, left - more);
        }
        shares.into_iter().filter(|(_, share, _)| *share > 0).map(|(id, share, _)| (id, share)).collect()
    }

    /// Records the prefill of a chunk.
    pub(super) fn prefilled(&mut self, chunk: &[(SequenceId, usize)]) {
        for (id, tokens) in chunk {
            let unread = self.prefilling.iter().find(|(rank, _)| rank.id == *id).map(|(_, unread)| *unread);
            if let Some(unread) = unread {
                self.set_unread(*id, unread.saturating_sub(*tokens));
            }
        }
    }

    /// Records how long a pass took that prefilled this chunk beside that number of decoding sequences.
    pub(super) fn decoded_beside(&mut self, decoding: usize, chunk: &[(SequenceId, usize)], took: Duration) {
        let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
        self.passes.record(Padded::new(decoding + tokens, decoding + chunk.len(), decoding).tokens, took);
        let is_long = self.steps.of(bucket(decoding)).is_some_and(|step| took > step * 2);
        if is_long {
            self.rested = self.rested.saturating_sub(REST);
        } else {
            self.rest_for(1);
        }
    }

    /// The decoding sequences, in the order in which they joined.
    pub(super) fn decoding(&self) -> impl Iterator<Item = SequenceId> {
        self.decoding.iter().copied()
    }

    /// Decode steps of a turn without a chunk, given the tokens that each sequence has left: as many as [`DECODE_RUN`]
    /// allows, or until a chunk may come. Sequences that end meanwhile leave their place in the batch idle: a run ends
    /// with one of them only where its slot can be filled.
    pub(super) fn steps(&self, most: usize, left: &[usize]) -> usize {
        let Some(step) = self.steps.of(bucket(self.decoding.len())) else { return 1 };
        let run = if self.decoding.len() == 1 { 2 * DECODE_RUN } else { DECODE_RUN };
        let long = (run.as_secs_f64() / step.as_secs_f64().max(1e-9)) as usize;
        let (first, last) = (left.iter().min().copied().unwrap_or(1), left.iter().max().copied().unwrap_or(1));
        let unearned = self.rest().saturating_sub(self.rested);
        let until_chunk = match (self.prefilling.is_empty(), self.waiting.is_empty()) {
            (true, true) => last,
            (true, false) => first.max(unearned),
            (false, _) => unearned,
        };
        most.min(long).min(until_chunk).min(last).max(1)
    }

    /// Records decode steps of that number of sequences, and how long they took.
    pub(super) fn decoded(&mut self, decoding: usize, steps: usize, took: Duration) {
        if steps > 0 {
            self.steps.record(bucket(decoding), took / u32::try_from(steps).unwrap_or(u32::MAX));
            self.rest_for(steps);
        }
    }

    fn rest_for(&mut self, steps: usize) {
        self.rested = self.rested.saturating_add(steps).min(SAVED * REST);
    }

    /// Sends a decoding sequence back to prefill: its state was lost.
    pub(super) fn restart(&mut self, id: SequenceId, priority: i32) {
        if self.decoding.remove(&id) {
            self.prefilling.insert(Rank { priority: Reverse(priority), id }, 0);
        }
    }

    /// Whether it has no sequences.
    #[cfg(test)]
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.prefilling.is_empty() && self.decoding.is_empty()
    }

    /// Number of queued sequences.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// The largest bucket of at most `n`.
fn bucket_below(n: usize) -> usize {
    let power = (n / 2 + 1).next_power_of_two();
    [power / 2 * 3, power].into_iter().find(|size| (1..=n).contains(size) && bucket(*size) == *size).unwrap_or(n)
}

#[cfg(test)]
mod tests {
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
        let of: BTreeMap<SequenceId, usize> =
            order.iter().enumerate().map(|(n, i)| (SequenceId(n as u64), *i)).collect();
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
            let left: Vec<usize> =
                decoding.iter().map(|id| requests[of[id]].written - seen[of[id]].tokens.len()).collect();
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
        let requests: Vec<Request> =
            (0..256u64).map(|n| Request { at: Duration::from_millis(n * 36), ..one }).collect();
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
}
