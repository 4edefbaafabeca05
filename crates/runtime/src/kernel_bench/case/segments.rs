//! Segments of a case: how its tokens are divided among sequences.

use super::Draws;
use wgoose_kernels::{Instance, Segment};

/// Splits the tokens among the segments, at least one each, and gives each a slot of its own.
pub(super) fn draw(instance: &Instance, slots: usize, rng: &mut Draws) -> (Vec<Segment>, Vec<u32>) {
    let count = instance.segments.max(1);
    // An op with a row per segment has the tokens in what it reads.
    let tokens = instance.input("x").map_or(instance.rows, |x| x.rows).max(count);
    let mut cuts: Vec<u32> = Vec::new();
    while cuts.len() + 1 < count as usize {
        let cut = 1 + rng.below(u64::from(tokens) - 1) as u32;
        if !cuts.contains(&cut) {
            cuts.push(cut);
        }
    }
    cuts.extend([0, tokens]);
    cuts.sort_unstable();
    let mut order: Vec<u32> = (0..slots as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, rng.below(i as u64 + 1) as usize);
    }
    let pairs = cuts.windows(2).enumerate();
    let table = pairs.clone().map(|(i, w)| Segment::new(w[0], w[1] - w[0], order[i])).collect();
    let of_token = pairs.flat_map(|(i, w)| std::iter::repeat_n(i as u32, (w[1] - w[0]) as usize)).collect();
    (table, of_token)
}
