//! The batch scheduler: admission by priority and arrival, chunked prefill beside decode. Plain data: no device, no
//! clock.
//!
//! A *turn* prefills one chunk of the prompts, then decodes. The chunk is sized so that its prefill takes about as long
//! as a decode step: the running sequences wait at most twice as long for a token as without it. If more sequences
//! prefill than decode, the chunk grows by that ratio; if none decodes, it is a whole pass. The first prompt of the
//! queue gets half of a chunk, the next one half of the rest, and so on: a short prompt overtakes a long one.

use super::event::SequenceId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Smallest prefill chunk beside decode, in tokens.
const SMALLEST_CHUNK: usize = 16;

/// Prefill chunk before any step was timed, in tokens.
const FIRST_CHUNK: usize = 64;

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
    /// Tokens whose prefill takes about as long as a decode step.
    chunk: usize,
    /// Time of a decode step.
    step: Option<Duration>,
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
            chunk: FIRST_CHUNK.min(pass),
            step: None,
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
        let mut left = match self.decoding.len() {
            0 => self.pass,
            decoding => (self.chunk * self.prefilling.len().max(decoding) / decoding).min(self.pass),
        };
        let mut shares: Vec<(SequenceId, usize, usize)> = Vec::new();
        for (rank, unread) in &self.prefilling {
            let is_last = shares.len() + 1 == self.prefilling.len();
            let share = if is_last { left } else { left.div_ceil(2) }.min(*unread);
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

    /// Records the prefill of a chunk, and how long it took.
    pub(super) fn prefilled(&mut self, chunk: &[(SequenceId, usize)], took: Duration) {
        for (id, tokens) in chunk {
            let unread = self.prefilling.iter().find(|(rank, _)| rank.id == *id).map(|(_, unread)| *unread);
            if let Some(unread) = unread {
                self.set_unread(*id, unread.saturating_sub(*tokens));
            }
        }
        let tokens: usize = chunk.iter().map(|(_, tokens)| tokens).sum();
        let Some(step) = self.step.filter(|_| tokens > 0) else { return };
        // Tokens that fit into a step at the pace of this chunk. A much smaller chunk says little about larger ones.
        let fits = (tokens as f64 * step.as_secs_f64() / took.as_secs_f64().max(1e-9)) as usize;
        if fits < self.chunk || 2 * tokens > self.chunk {
            let largest = (self.chunk + self.chunk.div_ceil(4)).min(self.pass);
            self.chunk = fits.clamp(SMALLEST_CHUNK.min(largest), largest);
        }
    }

    /// The decoding sequences, in the order in which they joined.
    pub(super) fn decoding(&self) -> impl Iterator<Item = SequenceId> {
        self.decoding.iter().copied()
    }

    /// Decode steps of this turn: one while prompts are prefilled, else as many as [`DECODE_RUN`] allows.
    pub(super) fn steps(&self, most: usize) -> usize {
        let long = self.step.map_or(1, |step| (DECODE_RUN.as_secs_f64() / step.as_secs_f64().max(1e-9)) as usize);
        if self.prefilling.is_empty() { most.min(long).max(1) } else { 1 }
    }

    /// Records decode steps, and how long they took.
    pub(super) fn decoded(&mut self, steps: usize, took: Duration) {
        if steps > 0 {
            self.step = Some(took / u32::try_from(steps).unwrap_or(u32::MAX));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A simulated device: a step costs 5 ms and 10 us a sequence, a pass 3 ms and `token` us a token.
    #[derive(Clone, Copy, Debug)]
    struct SimulatedDevice {
        token: u64,
    }

    impl SimulatedDevice {
        fn pass(self, tokens: usize) -> Duration {
            Duration::from_micros(3000 + self.token * tokens as u64)
        }

        fn step(sequences: usize) -> Duration {
            Duration::from_micros(5000 + 10 * sequences as u64)
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
            assert!(tokens <= pass && (tokens > 0 || schedule.prefilling.is_empty()));
            if tokens > 0 {
                chunk.iter().for_each(|(id, tokens)| seen[of[id]].read += tokens);
                now += device.pass(tokens);
                schedule.prefilled(&chunk, device.pass(tokens));
            }
            let decoding: Vec<SequenceId> = schedule.decoding().collect();
            assert!(decoding.len() + schedule.prefilling.len() <= slots);
            if decoding.is_empty() {
                continue;
            }
            let left = decoding.iter().map(|id| requests[of[id]].written - seen[of[id]].tokens.len()).min().unwrap();
            let steps = schedule.steps(left);
            assert!(steps <= left);
            for _ in 0..steps {
                now += SimulatedDevice::step(decoding.len());
                decoding.iter().for_each(|id| seen[of[id]].tokens.push(now));
            }
            schedule.decoded(steps, SimulatedDevice::step(decoding.len()) * steps as u32);
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
        assert_eq!(chunk, [(SequenceId(0), 256), (SequenceId(1), 100), (SequenceId(2), 156)]);
    }
}
