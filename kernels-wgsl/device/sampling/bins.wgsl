// Bins of a histogram of tokens by rank, and what a token counts in it.

const BINS: u32 = 1024u;
// Bins in a unit of logits: they reach to where a token's weight is less than half a unit.
const FINENESS: f32 = 32.0;

fn rank_bin(best: f32, rank: f32) -> u32 {
    return u32(min((best - rank) * FINENESS, f32(BINS - 1u)));
}

// How many units of 2^-31 a probability of exp(score - best) is, given the sum of these.
fn unit_of(sum: f32) -> f32 {
    return 2147483648.0 / sum;
}

fn mass_of(score: f32, best: f32, unit: f32) -> u32 {
    return u32(exp(score - best) * unit + 0.5);
}
