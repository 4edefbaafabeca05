//! Draws from SplitMix64: eight bytes of state, and a resampling is reproduced from its seed by any build.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

/// A number in `0..n`, by multiply-shift: its bias, below `n / 2^64`, is nothing beside the noise of timings.
/// 0 where `n` is 0.
#[inline]
pub fn below(rng: &mut SplitMix64, n: usize) -> usize {
    ((u128::from(rng.next_u64()) * n as u128) >> 64) as usize
}

/// A number in `[0, 1)`, with 53 random bits.
#[inline]
pub fn unit(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn the_numbers_are_pinned() {
        // The first outputs for seed 1234567 of the reference C code (Vigna, prng.di.unimi.it/splitmix64.c).
        let mut rng = SplitMix64::seed_from_u64(1_234_567);
        assert_eq!([rng.next_u64(), rng.next_u64()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        // A change here changes every verdict and every prompt of the quality gate.
        let seven = || SplitMix64::seed_from_u64(7);
        let mut rng = seven();
        assert_eq!([(); 4].map(|()| below(&mut rng, 1000)), [389, 16, 900, 582]);
        let mut rng = seven();
        assert_eq!([(); 2].map(|()| unit(&mut rng)), [0.389_829_748_391_271_5, 0.016_788_294_528_156_11]);
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut rng = SplitMix64::seed_from_u64(7);
        let mut counts = [0u32; 5];
        for _ in 0..50_000 {
            counts[below(&mut rng, 5)] += 1;
        }
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 500), "{counts:?}");
    }
}
