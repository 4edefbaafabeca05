//! A byte trie in one flat array (a double array): the child of node n for byte b is slot `n.children ^ b`, if that
//! slot says that n is its parent. One step is one array access; no search, no hashing.

use super::vocabulary::Vocabulary;
use std::collections::VecDeque;
use std::ops::Range;

const ROOT: u32 = 0;
const NO_PARENT: u32 = u32::MAX;
/// No token ends at this node. End-of-text has no bytes, so its id is free to say so.
const NO_TOKEN: u32 = u32::MAX;

/// Slots that differ in the byte only: all children of a node lie in one block.
const BLOCK: usize = 256;
/// Blocks tried for a node of several children before a new one is opened.
const BLOCKS_TRIED: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Node {
    /// XOR a byte: the slot where that child lies, if there is one.
    children: u32,
    /// The slot of the parent, [`NO_PARENT`] for the root and for a free slot.
    parent: u32,
    /// The token that ends here, or [`NO_TOKEN`].
    token: u32,
}

const FREE: Node = Node { children: 0, parent: NO_PARENT, token: NO_TOKEN };

/// Finds the longest token that a text begins with.
#[derive(Debug, Clone)]
pub(super) struct Trie {
    nodes: Vec<Node>,
}

impl Trie {
    /// The trie of all tokens; of tokens with the same bytes the last counts.
    pub(super) fn new(vocabulary: &Vocabulary) -> Self {
        let mut tokens: Vec<(&[u8], u32)> = vocabulary.iter().zip(0..).filter(|(bytes, _)| !bytes.is_empty()).collect();
        tokens.sort(); // not sort_unstable: vocabularies consist of sorted runs, which a merge sort uses

        let mut slots = Slots::default();
        slots.open_block();
        slots.take(ROOT);
        // By level: the nodes that every match passes lie together.
        let mut pending = VecDeque::from([(ROOT, 0..tokens.len(), 0)]);
        let mut children: Vec<(u8, Range<usize>)> = Vec::new();
        while let Some((node, mut range, depth)) = pending.pop_front() {
            // The tokens of `range` agree up to `depth` and are sorted: those that end here come first.
            while !range.is_empty() && tokens[range.start].0.len() == depth {
                slots.nodes[node as usize].token = tokens[range.start].1;
                range.start += 1;
            }
            children.clear();
            let mut start = range.start;
            for group in tokens[range].chunk_by(|a, b| a.0[depth] == b.0[depth]) {
                children.push((group[0].0[depth], start..start + group.len()));
                start += group.len();
            }
            if children.is_empty() {
                continue;
            }
            let base = slots.find_base(&children);
            slots.nodes[node as usize].children = base;
            for (byte, range) in children.drain(..) {
                let child = base ^ u32::from(byte);
                slots.take(child);
                slots.nodes[child as usize].parent = node;
                pending.push_back((child, range, depth + 1));
            }
        }
        Trie { nodes: slots.nodes }
    }

    /// The longest token that `bytes` begins with, and its length: at least 1 unless `bytes` is empty, as every byte
    /// has a token.
    ///
    /// The way down remembers nothing: where it ends there is mostly a token, else the way up finds it. The length then
    /// is how often the loop ran, which a processor predicts, so that it begins with the next token while the nodes of
    /// this one are still on their way.
    pub(super) fn longest_match(&self, bytes: &[u8]) -> (u32, usize) {
        let (mut slot, mut node, mut len) = (ROOT, self.nodes[ROOT as usize], 0);
        for &byte in bytes {
            let child = node.children ^ u32::from(byte);
            let next = self.nodes[child as usize];
            if next.parent != slot {
                break;
            }
            (slot, node, len) = (child, next, len + 1);
        }
        while node.token == NO_TOKEN && len > 0 {
            (node, len) = (self.nodes[node.parent as usize], len - 1);
        }
        (node.token, len)
    }
}

/// One bit per slot of a block.
type BlockBits = [u64; BLOCK / 64];

/// The array while it is filled.
#[derive(Default)]
struct Slots {
    nodes: Vec<Node>,
    /// Per block, the slots that are free.
    free: Vec<BlockBits>,
    /// Blocks with free slots, oldest first.
    open: Vec<usize>,
}

impl Slots {
    fn open_block(&mut self) -> usize {
        let block = self.free.len();
        self.nodes.resize(self.nodes.len() + BLOCK, FREE);
        self.free.push([u64::MAX; BLOCK / 64]);
        self.open.push(block);
        block
    }

    fn take(&mut self, slot: u32) {
        let (block, within) = (slot as usize / BLOCK, slot as usize % BLOCK);
        self.free[block][within / 64] &= !(1 << (within % 64));
        if self.free[block] == [0; BLOCK / 64] {
            self.open.retain(|&b| b != block);
        }
    }

    /// A `children` value for which the slots of all `children` are free.
    ///
    /// An only child fits any gap: it fills the oldest block. Several are tried in the newest few. A block with u slots
    /// taken can refuse k children only if u * k >= 256, and has taken a family of its own or u >= 256 / k, so blocks
    /// are left behind with 16 slots or more in use.
    fn find_base(&mut self, children: &[(u8, Range<usize>)]) -> u32 {
        let base_in = |free: &BlockBits| {
            let mut fits = [u64::MAX; BLOCK / 64];
            for (byte, _) in children {
                let slots = xor_indices(free, *byte);
                for word in 0..fits.len() {
                    fits[word] &= slots[word];
                }
            }
            let word = fits.iter().position(|&bits| bits != 0)?;
            Some(word as u32 * 64 + fits[word].trailing_zeros())
        };
        let candidates = match children {
            [_] => &self.open[..self.open.len().min(1)],
            _ => &self.open[self.open.len().saturating_sub(BLOCKS_TRIED)..],
        };
        let found = candidates.iter().find_map(|&block| Some((block, base_in(&self.free[block])?)));
        let (block, base) = found.unwrap_or_else(|| (self.open_block(), 0));
        (block * BLOCK) as u32 | base
    }
}

/// Bit i of the result is bit `i ^ byte` of `bits`: all 256 bases of a block are tried at once.
fn xor_indices(bits: &BlockBits, byte: u8) -> BlockBits {
    const LOWER_HALVES: [u64; 6] = [
        0x5555_5555_5555_5555,
        0x3333_3333_3333_3333,
        0x0f0f_0f0f_0f0f_0f0f,
        0x00ff_00ff_00ff_00ff,
        0x0000_ffff_0000_ffff,
        0x0000_0000_ffff_ffff,
    ];
    std::array::from_fn(|word| {
        let mut word = bits[word ^ usize::from(byte / 64)];
        for (log, lower) in LOWER_HALVES.into_iter().enumerate() {
            if byte >> log & 1 == 1 {
                let distance = 1 << log;
                word = (word & lower) << distance | word >> distance & lower;
            }
        }
        word
    })
}
