//! A map from token sequences to values that finds the longest known beginning of a sequence: a radix trie. Nodes are
//! stored in one list, so that no chain of them, however long, can exhaust the stack.

use std::collections::HashMap;

const ROOT: usize = 0;

#[derive(Debug)]
struct Node<V> {
    parent: usize,
    /// The tokens between the parent and here; only the root has none.
    run: Vec<u32>,
    /// By the first token of their runs.
    children: HashMap<u32, usize>,
    value: Option<V>,
}

/// A map from token sequences to values.
#[derive(Debug)]
pub(super) struct Trie<V> {
    nodes: Vec<Node<V>>,
    /// Places in `nodes` that stand for nothing.
    free: Vec<usize>,
}

impl<V> Trie<V> {
    pub(super) fn new() -> Self {
        let root = Node { parent: ROOT, run: Vec::new(), children: HashMap::new(), value: None };
        Trie { nodes: vec![root], free: Vec::new() }
    }

    /// Whether it holds no value.
    pub(super) fn is_empty(&self) -> bool {
        self.nodes[ROOT].value.is_none() && self.nodes[ROOT].children.is_empty()
    }

    /// Enters a value; returns the one that stood there.
    pub(super) fn insert(&mut self, path: &[u32], value: V) -> Option<V> {
        let (mut at, mut rest) = (ROOT, path);
        while let Some(first) = rest.first() {
            let Some(&child) = self.nodes[at].children.get(first) else {
                let leaf = self.add(at, rest.to_vec());
                self.nodes[leaf].value = Some(value);
                return None;
            };
            let run = &self.nodes[child].run;
            let common = run.iter().zip(rest).take_while(|(a, b)| a == b).count();
            at = if common == run.len() { child } else { self.split(child, common) };
            rest = &rest[common..];
        }
        self.nodes[at].value.replace(value)
    }

    /// The longest beginning of `path` with a value that is accepted, given its length: that length, and the value.
    pub(super) fn longest(&self, path: &[u32], accept: &dyn Fn(usize, &V) -> bool) -> Option<(usize, &V)> {
        let (mut at, mut depth, mut best) = (ROOT, 0, None);
        loop {
            if let Some(value) = self.nodes[at].value.as_ref().filter(|value| accept(depth, value)) {
                best = Some((depth, value));
            }
            let next = path.get(depth).and_then(|first| self.nodes[at].children.get(first));
            let Some(&child) = next.filter(|child| path[depth..].starts_with(&self.nodes[**child].run)) else {
                return best;
            };
            (at, depth) = (child, depth + self.nodes[child].run.len());
        }
    }

    /// The value of a sequence.
    pub(super) fn get_mut(&mut self, path: &[u32]) -> Option<&mut V> {
        let at = self.find(path)?;
        self.nodes[at].value.as_mut()
    }

    /// Takes a value out, and with it all that led to nothing else.
    pub(super) fn remove(&mut self, path: &[u32]) -> Option<V> {
        let mut at = self.find(path)?;
        let value = self.nodes[at].value.take()?;
        while at != ROOT && self.nodes[at].value.is_none() && self.nodes[at].children.is_empty() {
            let Node { parent, run, .. } = &self.nodes[at];
            let (parent, first) = (*parent, run[0]);
            self.nodes[parent].children.remove(&first);
            self.drop_node(at);
            at = parent;
        }
        if at != ROOT && self.nodes[at].value.is_none() && self.nodes[at].children.len() == 1 {
            self.join(at);
        }
        Some(value)
    }

    fn find(&self, path: &[u32]) -> Option<usize> {
        let (mut at, mut rest) = (ROOT, path);
        while let Some(first) = rest.first() {
            at = *self.nodes[at].children.get(first)?;
            rest = rest.strip_prefix(&self.nodes[at].run[..])?;
        }
        Some(at)
    }

    fn add(&mut self, parent: usize, run: Vec<u32>) -> usize {
        let first = run[0];
        let node = Node { parent, run, children: HashMap::new(), value: None };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        self.nodes[parent].children.insert(first, at);
        at
    }

    /// Puts a node into the middle of the run that leads to `child`; returns it.
    fn split(&mut self, child: usize, common: usize) -> usize {
        let later = self.nodes[child].run.split_off(common);
        let run = std::mem::replace(&mut self.nodes[child].run, later);
        let middle = self.add(self.nodes[child].parent, run);
        let first = self.nodes[child].run[0];
        self.nodes[child].parent = middle;
        self.nodes[middle].children.insert(first, child);
        middle
    }

    /// Takes out a node without value between its parent and its only child.
    fn join(&mut self, at: usize) {
        let Some((_, child)) = self.nodes[at].children.drain().next() else { return };
        let mut run = std::mem::take(&mut self.nodes[at].run);
        run.append(&mut self.nodes[child].run);
        let parent = self.nodes[at].parent;
        self.nodes[parent].children.insert(run[0], child);
        (self.nodes[child].run, self.nodes[child].parent) = (run, parent);
        self.drop_node(at);
    }

    fn drop_node(&mut self, at: usize) {
        self.nodes[at] = Node { parent: ROOT, run: Vec::new(), children: HashMap::new(), value: None };
        self.free.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Few tokens, so that paths meet; a sorted map is the definition.
        #[test]
        fn a_trie_equals_a_map_with_longest_beginnings(
            steps in prop::collection::vec((prop::collection::vec(0u32..3, 0..7), prop::option::of(0u32..100)), 1..60),
        ) {
            let mut trie = Trie::new();
            let mut map: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
            for (path, value) in steps {
                match value {
                    Some(value) => prop_assert_eq!(trie.insert(&path, value), map.insert(path.clone(), value)),
                    None => prop_assert_eq!(trie.remove(&path), map.remove(&path)),
                }
                prop_assert_eq!(trie.get_mut(&path).copied(), map.get(&path).copied());
                let accept = |n: usize, value: &u32| n % 3 != 1 && !value.is_multiple_of(5);
                let known = (0..=path.len()).rev().filter_map(|n| Some((n, map.get(&path[..n])?)));
                let want = known.clone().find(|(n, value)| accept(*n, value));
                prop_assert_eq!(trie.longest(&path, &accept), want);
                // Nothing is kept but values and where they part.
                let kept = (1..trie.nodes.len()).filter(|at| !trie.free.contains(at)).map(|at| &trie.nodes[at]);
                for node in kept {
                    prop_assert!(node.value.is_some() || node.children.len() > 1, "{:?}", node);
                }
            }
        }
    }
}
