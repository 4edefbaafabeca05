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
mod tests;
