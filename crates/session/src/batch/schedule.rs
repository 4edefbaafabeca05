//! The batch scheduler: admission by priority and arrival, chunked prefill beside decode. Plain data: no device, no
//! clock.
//!
//! A *turn* is one pass over a chunk of the prompts and the next token of every decoding sequence, or, where no prompt
//! is left, a run of decode steps. The chunk is sized so that the pass takes at most twice as long as a decode step: the
//! decoding sequences wait at most twice as long for a token as without it. If more sequences prefill than decode, the
//! limit grows by that ratio; if none decodes, the chunk is a whole pass. The first prompt of the queue gets half of a
//! chunk, the next one half of the rest, and so on: a short prompt overtakes a long one.
//!
//! Devices pad passes to buckets ([`bucket`]), so chunks fill them, and times are known by bucket.

use super::event::SequenceId;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wgoose_runtime::{Padded, bucket};

/// Smallest prefill chunk beside decode, in tokens.
const SMALLEST_CHUNK: usize = 16;

/// Prefill chunk before any pass was timed, in tokens.
const FIRST_CHUNK: usize = 64;

/// Most prompts in a pass, and in one with more prompts than decoding sequences: [`Padded`] shapes hold as many and one
/// segment of padding.
const PROMPTS: [usize; 2] = [3, 15];

/// Longest run of decode steps without a look at the queue. Each run ends with an idle device, so short runs are slow.
const DECODE_RUN: Duration = Duration::from_millis(50);

/// Order of admission: priority, then arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: Reverse<i32>,
    id: SequenceId,
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

    /// The next prefill chunk: the number of tokens of each sequence.
    pub(super) fn chunk(&self) -> Vec<(SequenceId, usize)> {
        let decoding = self.decoding.len();
        let most = PROMPTS[usize::from(self.prefilling.len() > decoding)];
        let prompts = self.prefilling.len().min(most);
        let segments = decoding + prompts;
        // Each segment that pads the pass has a token.
        let padding = Padded::new(self.pass, segments, decoding).segments - segments;
        self.shares(self.most_tokens().saturating_sub(decoding + padding).max(1), prompts)
    }

    /// Tokens of the next pass, of decoding sequences and prompts together: a bucket.
    fn most_tokens(&self) -> usize {
        let decoding = self.decoding.len();
        let largest = bucket_below(self.pass);
        if decoding == 0 {
            return largest;
        }
        let smallest = bucket(decoding + SMALLEST_CHUNK).min(largest);
        let Some(step) = self.steps.of(bucket(decoding)) else {
            return bucket(decoding + FIRST_CHUNK).min(largest);
        };
        let limit = step.mul_f64(2.0 * self.prefilling.len().max(decoding) as f64 / decoding as f64);
        let fits = |tokens: &usize| self.passes.of(*tokens).is_none_or(|took| took <= limit);
        let unknown = bucket(decoding + FIRST_CHUNK);
        let buckets = std::iter::successors(Some(smallest), |size| Some(bucket(size + 1)));
        let buckets =
            buckets.take_while(|size| *size <= largest && (self.passes.of(*size).is_some() || *size <= unknown));
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
    }

    /// The decoding sequences, in the order in which they joined.
    pub(super) fn decoding(&self) -> impl Iterator<Item = SequenceId> {
        self.decoding.iter().copied()
    }

    /// Decode steps of this turn: one while prompts are prefilled, else as many as [`DECODE_RUN`] allows.
    pub(super) fn steps(&self, most: usize) -> usize {
        let step = self.steps.of(bucket(self.decoding.len()));
        let long = step.map_or(1, |step| (DECODE_RUN.as_secs_f64() / step.as_secs_f64().max(1e-9)) as usize);
        if self.prefilling.is_empty() { most.min(long).max(1) } else { 1 }
    }

    /// Records decode steps of that number of sequences, and how long they took.
    pub(super) fn decoded(&mut self, decoding: usize, steps: usize, took: Duration) {
        if steps > 0 {
            self.steps.record(bucket(decoding), took / u32::try_from(steps).unwrap_or(u32::MAX));
        }
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
            assert!(tokens <= pass && (tokens > 0 || schedule.prefilling.is_empty()));
            assert!(decoding.len() + schedule.prefilling.len() <= slots);
            let left = decoding.iter().map(|id| requests[of[id]].written - seen[of[id]].tokens.len()).min();
            let steps = left.map_or(1, |left| schedule.steps(left));
            assert!(left.is_none_or(|left| steps <= left));
            for _ in 0..steps {
                now += device.pass(decoding.len(), &chunk);
                decoding.iter().for_each(|id| seen[of[id]].tokens.push(now));
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
    fn a_long_prompt_at_most_doubles_the_time_between_tokens() {
        let chat = Request { at: Duration::ZERO, priority: 0, prompt: 30, written: 600, patience: None };
        let long = Request { at: Duration::from_millis(500), prompt: 30_000, written: 10, ..chat };
        let alone = gaps(&simulate(32, 512, SimulatedDevice { token: 40 }, &[chat; 31]), 0..31);
        let requests: Vec<Request> = std::iter::repeat_n(chat, 31).chain([long]).collect();
        let seen = simulate(32, 512, SimulatedDevice { token: 40 }, &requests);
        let beside = gaps(&seen, 0..31);
        let p95 = |gaps: &[Duration]| gaps[gaps.len() * 95 / 100];
        assert!(p95(&beside) <= 2 * p95(&alone), "{:?} beside, {:?} alone", p95(&beside), p95(&alone));
        assert!(seen[31].tokens.len() == 10);
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
