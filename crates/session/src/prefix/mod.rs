//! The prefix cache: states after texts that were read before, so that a text which begins like one of them need not be
//! read from its beginning.
//!
//! A state is kept for a *beginning*, which says where reading began and with which passes, and the tokens read since.
//! The following is exactly equal, with the cache and without it:
//! - A snapshot is a copy: continuing from it gives, bit for bit, the output of a sequence that read these tokens and
//!   then the same ones, cut into the same passes.
//! - Snapshots within a prompt are made at multiples of [`PrefixOptions::every`] tokens, rounded up to whole passes. A
//!   prompt read from a fresh beginning is cut there in any case, so that it has the same bits whether it starts from
//!   such a snapshot, is read with an empty cache, or without one.
//! - A snapshot at the end of a prompt or of an answer equals reading that text and the text after it in two calls.
//!   Against reading both in one call, sums may round differently, for passes of other lengths take other kernels.
//! - Embeddings have separate beginnings, and are read up to their prefix in any case: always the same bits.

mod history;
mod kept;
mod trie;

pub(crate) use history::{Beginning, History};
pub(crate) use kept::Prefixes;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::Arc;
use trie::Trie;
use wgoose_runtime::StateData;

/// How to keep states of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixOptions {
    /// Most bytes of states, logits and tokens, in main memory. The least recently used go first.
    pub budget: u64,
    /// Also keep states within prompts, every so many tokens (rounded up to whole passes). Default: at their ends only.
    pub every: Option<NonZeroUsize>,
}

impl Default for PrefixOptions {
    /// 1 GiB, ends only.
    fn default() -> Self {
        PrefixOptions { budget: 1 << 30, every: None }
    }
}

/// What a prefix cache has done, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixStats {
    /// Look-ups that found a state.
    pub hits: u64,
    /// Look-ups that found none.
    pub misses: u64,
    /// Tokens that did not have to be read.
    pub tokens_saved: u64,
    /// States that had to go.
    pub evicted: u64,
    /// States held.
    pub states: usize,
    /// Bytes held.
    pub bytes: u64,
}

/// A state after a text, and the logits after its last token where they were asked for.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) state: Arc<StateData>,
    pub(crate) logits: Option<Arc<[f32]>>,
}

impl Snapshot {
    fn bytes(&self, tokens: usize) -> u64 {
        let floats = self.state.0.iter().map(|(_, data)| data.len()).sum::<usize>();
        // Tokens stand in the trie and in the order of use.
        4 * (floats + self.logits.as_ref().map_or(0, |l| l.len()) + 2 * tokens) as u64
    }
}

#[derive(Debug)]
struct Entry {
    snapshot: Snapshot,
    used: u64,
}

/// States of prefixes within a budget of bytes.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    budget: u64,
    tries: HashMap<Beginning, Trie<Entry>>,
    /// When each was last used, oldest first.
    uses: BTreeMap<u64, (Beginning, Arc<[u32]>)>,
    clock: u64,
    stats: PrefixStats,
}

impl PrefixCache {
    pub(crate) fn new(budget: u64) -> Self {
        let (tries, uses) = (HashMap::new(), BTreeMap::new());
        PrefixCache { budget, tries, uses, clock: 0, stats: PrefixStats::default() }
    }

    pub(crate) fn stats(&self) -> PrefixStats {
        PrefixStats { states: self.uses.len(), ..self.stats }
    }

    /// The state after the longest beginning of `tokens` that has more than `beyond` of them, and its length. After all
    /// of them only if there are logits, where `with_logits` asks for these.
    pub(crate) fn longest(
        &mut self,
        beginning: &Beginning,
        tokens: &[u32],
        beyond: usize,
        with_logits: bool,
    ) -> Option<(usize, Snapshot)> {
        let serves = |len: usize, entry: &Entry| {
            len > beyond && (len < tokens.len() || !with_logits || entry.snapshot.logits.is_some())
        };
        let found = self.tries.get(beginning).and_then(|trie| trie.longest(tokens, &serves));
        let Some((len, snapshot)) = found.map(|(len, entry)| (len, entry.snapshot.clone())) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.stats.tokens_saved += (len - beyond) as u64;
        self.touch(beginning, &tokens[..len]);
        Some((len, snapshot))
    }

    /// The state after exactly these tokens.
    pub(crate) fn exact(&mut self, beginning: &Beginning, tokens: &[u32]) -> Option<Arc<StateData>> {
        let found = self.tries.get_mut(beginning).and_then(|trie| trie.get_mut(tokens));
        let Some(state) = found.map(|entry| Arc::clone(&entry.snapshot.state)) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.stats.tokens_saved += tokens.len() as u64;
        self.touch(beginning, tokens);
        Some(state)
    }

    /// Keeps a state after `tokens`; one that is larger than the whole budget is not kept. Logits that are known already
    /// stay known.
    pub(crate) fn insert(&mut self, beginning: Beginning, tokens: &[u32], mut snapshot: Snapshot) {
        let old = self.remove(&beginning, tokens);
        snapshot.logits = snapshot.logits.or(old.and_then(|old| old.logits));
        let bytes = snapshot.bytes(tokens.len());
        if bytes > self.budget {
            return;
        }
        while self.stats.bytes + bytes > self.budget {
            let Some((_, (beginning, tokens))) = self.uses.pop_first() else { break };
            self.remove(&beginning, &tokens);
            self.stats.evicted += 1;
        }
        self.stats.bytes += bytes;
        let used = self.tick();
        self.uses.insert(used, (beginning, tokens.into()));
        self.tries.entry(beginning).or_insert_with(Trie::new).insert(tokens, Entry { snapshot, used });
    }

    fn remove(&mut self, beginning: &Beginning, tokens: &[u32]) -> Option<Snapshot> {
        let trie = self.tries.get_mut(beginning)?;
        let entry = trie.remove(tokens)?;
        if trie.is_empty() {
            self.tries.remove(beginning);
        }
        self.uses.remove(&entry.used);
        self.stats.bytes -= entry.snapshot.bytes(tokens.len());
        Some(entry.snapshot)
    }

    fn touch(&mut self, beginning: &Beginning, tokens: &[u32]) {
        let now = self.tick();
        let entry = self.tries.get_mut(beginning).and_then(|trie| trie.get_mut(tokens));
        if let Some(place) = entry.and_then(|entry| self.uses.remove(&std::mem::replace(&mut entry.used, now))) {
            self.uses.insert(now, place);
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_graph::State;

    const FLOATS: usize = 100;

    fn snapshot(value: f32, logits: bool) -> Snapshot {
        let state = Arc::new(StateData(vec![(State::Wkv(0), vec![value; FLOATS])]));
        Snapshot { state, logits: logits.then(|| vec![value].into()) }
    }

    fn value(found: Option<(usize, Snapshot)>) -> Option<(usize, f32)> {
        found.map(|(len, snapshot)| (len, snapshot.state.0[0].1[0]))
    }

    #[test]
    fn the_longest_prefix_is_served_and_the_least_recent_evicted() {
        let (zero, other) = (Beginning::ZERO, Beginning::EMBEDDING);
        // Room for two.
        let mut cache = PrefixCache::new(2 * (4 * FLOATS as u64 + 40));
        cache.insert(zero, &[1, 2], snapshot(2.0, false));
        cache.insert(zero, &[1, 2, 3], snapshot(3.0, true));
        assert_eq!(value(cache.longest(&zero, &[1, 2, 3, 4], 0, true)), Some((3, 3.0)));
        assert_eq!(value(cache.longest(&zero, &[1, 2, 9], 0, true)), Some((2, 2.0)));
        assert_eq!(value(cache.longest(&zero, &[1, 2, 3], 0, true)), Some((3, 3.0)), "there are logits");
        assert_eq!(value(cache.longest(&zero, &[1, 2], 0, true)), None, "there are none");
        assert_eq!(value(cache.longest(&zero, &[1, 2], 0, false)), Some((2, 2.0)));
        assert_eq!(value(cache.longest(&zero, &[1, 2, 3, 4], 3, true)), None, "nothing new");
        assert_eq!(value(cache.longest(&other, &[1, 2, 3], 0, true)), None, "another beginning");
        // [1, 2] was used last.
        cache.insert(other, &[7], snapshot(7.0, false));
        assert_eq!(value(cache.longest(&zero, &[1, 2, 3], 0, true)), Some((2, 2.0)));
        assert_eq!(value(cache.longest(&other, &[7], 0, false)), Some((1, 7.0)));
        let stats = cache.stats();
        assert_eq!((stats.hits, stats.misses, stats.evicted, stats.states), (6, 3, 1, 2));
        assert_eq!(stats.tokens_saved, 3 + 2 + 3 + 2 + 2 + 1);
        assert_eq!(stats.bytes, 2 * 4 * FLOATS as u64 + 8 * 3);
    }

    #[test]
    fn a_replaced_or_oversized_state_leaves_no_bytes() {
        let mut cache = PrefixCache::new(4 * FLOATS as u64 + 100);
        cache.insert(Beginning::ZERO, &[1], snapshot(1.0, true));
        cache.insert(Beginning::ZERO, &[1], snapshot(2.0, false));
        assert_eq!(value(cache.longest(&Beginning::ZERO, &[1], 0, true)), Some((1, 2.0)), "logits stay known");
        assert_eq!((cache.stats().states, cache.stats().bytes), (1, 4 * FLOATS as u64 + 4 + 8));
        cache.insert(Beginning::ZERO, &[5; 1000], snapshot(1.0, true));
        assert_eq!((cache.stats().states, cache.stats().evicted), (1, 0));
    }
}
