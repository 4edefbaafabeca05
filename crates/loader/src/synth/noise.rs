//! Random numbers for weights: every row of every tensor has a separate stream, so that rows are made in any order.
//!
//! splitmix64 (Steele, Lea, Flood 2014), of crate `rand_xoshiro`: its output is specified. Integers and single
//! multiplications only, so the numbers are the same on every machine.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// The odd number nearest 2^64 divided by the golden ratio: splitmix64's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// splitmix64's output function: a bijection that leaves no trace of the counter.
fn scramble(counter: u64) -> u64 {
    at(counter).next_u64()
}

/// The generator that scrambles `counter` next.
fn at(counter: u64) -> SplitMix64 {
    SplitMix64::seed_from_u64(counter.wrapping_sub(GOLDEN))
}

/// The streams of a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams(u64);

impl Streams {
    /// The streams of a name under a seed.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        Streams(name.bytes().fold(scramble(seed.wrapping_add(GOLDEN)), |key, byte| scramble(key ^ u64::from(byte))))
    }

    /// The stream of one row, from its beginning.
    pub(super) fn row(self, row: u32) -> Stream {
        Stream(at(scramble(self.0 ^ (u64::from(row) + 1).wrapping_mul(GOLDEN))))
    }
}

/// Random numbers, one after another.
#[derive(Clone, Debug)]
pub(super) struct Stream(SplitMix64);

impl Stream {
    /// Nearly normal, mean 0, deviation 1, at most 3.46 in magnitude: the sum of four uniforms of 16 bits.
    #[inline(always)]
    pub(super) fn normal(&mut self) -> f32 {
        let bits = self.0.next_u64();
        let low_halves = 0x0000_FFFF_0000_FFFF;
        let pairs = (bits & low_halves) + ((bits >> 16) & low_halves);
        let sum = (pairs as u32).wrapping_add((pairs >> 32) as u32) as i32;
        // Mean 4 * (2^16 - 1) / 2, deviation sqrt(4 * (2^32 - 1) / 12).
        (sum - 131_070) as f32 * (1.0 / 37_837.226)
    }

    /// Uniform in 0..1.
    #[inline(always)]
    pub(super) fn uniform(&mut self) -> f32 {
        (self.0.next_u64() >> 40) as f32 * (1.0 / (1 << 24) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(mut draw: impl FnMut() -> f32) -> (f64, f64) {
        let drawn: Vec<f64> = (0..100_000).map(|_| f64::from(draw())).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn moments_are_as_promised() {
        let stream = Streams::new(1, "a").row(2);
        let mut normal = stream.clone();
        let (mean, deviation) = moments(|| normal.normal());
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01, "{mean} {deviation}");
        let mut uniform = stream;
        let (mean, deviation) = moments(|| uniform.uniform());
        assert!((mean - 0.5).abs() < 0.01 && (deviation - 12.0_f64.sqrt().recip()).abs() < 0.01, "{mean} {deviation}");
    }

    #[test]
    fn streams_are_unrelated() {
        let first = Streams::new(1, "a").row(0);
        let others = [Streams::new(2, "a").row(0), Streams::new(1, "b").row(0), Streams::new(1, "a").row(1)];
        for other in others {
            // Under two shifts as well: streams must not run into each other.
            for shift in 0..2 {
                let (mut first, mut other) = (first.clone(), other.clone());
                for _ in 0..shift {
                    other.normal();
                }
                let (mean, _) = moments(|| first.normal() * other.normal());
                assert!(mean.abs() < 0.015, "{mean}");
            }
        }
    }

    #[test]
    fn the_numbers_are_pinned() {
        // A change here changes every synthetic model and every hash of its outputs.
        let mut stream = Streams::new(7, "blocks.0.att.key.weight").row(3);
        let drawn = [stream.normal(), stream.normal(), stream.uniform()].map(f32::to_bits);
        assert_eq!(drawn, [3_208_088_783, 3_197_736_334, 1_058_458_960]);
    }
}
