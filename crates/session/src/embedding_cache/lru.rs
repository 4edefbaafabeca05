//! Values within a budget of bytes; the least recently used go first.

use super::key::Key;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Bytes of an entry beside its floats: the key twice, counters.
const OVERHEAD: u64 = 96;

fn bytes(value: &[f32]) -> u64 {
    4 * value.len() as u64 + OVERHEAD
}

/// A map from keys to rows of floats.
#[derive(Debug)]
pub(super) struct Lru {
    budget: u64,
    bytes: u64,
    entries: HashMap<Key, (Arc<[f32]>, u64)>,
    /// When each was last used, oldest first.
    uses: BTreeMap<u64, Key>,
    clock: u64,
}

impl Lru {
    pub(super) fn new(budget: u64) -> Self {
        Lru { budget, bytes: 0, entries: HashMap::new(), uses: BTreeMap::new(), clock: 0 }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A value, which counts as a use.
    pub(super) fn get(&mut self, key: &Key) -> Option<Arc<[f32]>> {
        self.clock += 1;
        let (value, used) = self.entries.get_mut(key)?;
        self.uses.remove(used);
        self.uses.insert(self.clock, *key);
        *used = self.clock;
        Some(Arc::clone(value))
    }

    /// Enters a value, unless it alone exceeds the budget; returns how many others had to go.
    pub(super) fn insert(&mut self, key: Key, value: Arc<[f32]>) -> u64 {
        self.remove(&key);
        let need = bytes(&value);
        if need > self.budget {
            return 0;
        }
        let mut evicted = 0;
        while self.bytes + need > self.budget {
            let Some((_, oldest)) = self.uses.pop_first() else { break };
            self.remove(&oldest);
            evicted += 1;
        }
        self.clock += 1;
        self.bytes += need;
        self.uses.insert(self.clock, key);
        self.entries.insert(key, (value, self.clock));
        evicted
    }

    fn remove(&mut self, key: &Key) {
        if let Some((value, used)) = self.entries.remove(key) {
            self.uses.remove(&used);
            self.bytes -= bytes(&value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A list in order of use is the definition.
        #[test]
        fn the_least_recently_used_go_first(
            steps in prop::collection::vec((0u8..8, prop::option::of(0usize..60)), 1..80),
        ) {
            const BUDGET: u64 = 600;
            let mut lru = Lru::new(BUDGET);
            let mut list: Vec<(Key, Vec<f32>)> = Vec::new();
            for (i, (name, len)) in steps.into_iter().enumerate() {
                let key = Key([name; 32]);
                let place = list.iter().position(|(k, _)| *k == key);
                match len {
                    None => {
                        prop_assert_eq!(lru.get(&key).map(|v| v.to_vec()), place.map(|at| list[at].1.clone()));
                        if let Some(at) = place {
                            let used = list.remove(at);
                            list.push(used);
                        }
                    }
                    Some(len) => {
                        let value = vec![i as f32; len];
                        let evicted = lru.insert(key, value.clone().into());
                        place.map(|at| list.remove(at));
                        let before = list.len() as u64 + 1;
                        list.push((key, value));
                        let sum = |list: &[(Key, Vec<f32>)]| list.iter().map(|(_, v)| bytes(v)).sum::<u64>();
                        while sum(&list) > BUDGET {
                            list.remove(0);
                        }
                        prop_assert_eq!(evicted, before - list.len() as u64);
                    }
                }
                prop_assert!(lru.bytes() <= BUDGET && lru.bytes() == list.iter().map(|(_, v)| bytes(v)).sum::<u64>());
                prop_assert_eq!((lru.len(), lru.uses.len()), (list.len(), list.len()));
            }
        }
    }
}
