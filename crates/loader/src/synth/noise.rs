//! Random numbers that can be drawn in any order: every row of every tensor has a stream of its own.
//!
//! splitmix64 (Steele, Lea, Flood 2014) as a counter-based generator. Integers and single multiplications only, so the
//! numbers are the same on every machine.

/// The odd number nearest 2^64 divided by the golden ratio: splitmix64's increment.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// splitmix64's output function: a bijection that leaves no trace of the counter.
#[inline(always)]
const fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream(u64);

impl Stream {
    /// The stream of a name under a seed.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        Stream(name.bytes().fold(scramble(seed.wrapping_add(GOLDEN)), |key, byte| scramble(key ^ u64::from(byte))))
    }

    /// The stream of one row.
    pub(super) fn row(self, row: u32) -> Self {
        Stream(scramble(self.0 ^ (u64::from(row) + 1).wrapping_mul(GOLDEN)))
    }

    /// 64 random bits at a place of the stream.
    #[inline(always)]
    fn bits(self, at: usize) -> u64 {
        scramble(self.0.wrapping_add((at as u64).wrapping_mul(GOLDEN)))
    }

    /// Nearly normal, mean 0, deviation 1, at most 3.46 in magnitude: the sum of four uniforms of 16 bits.
    #[inline(always)]
    pub(super) fn normal(self, at: usize) -> f32 {
        let bits = self.bits(at);
        let low_halves = 0x0000_FFFF_0000_FFFF;
        let pairs = (bits & low_halves) + ((bits >> 16) & low_halves);
        let sum = (pairs as u32).wrapping_add((pairs >> 32) as u32) as i32;
        // Mean 4 * (2^16 - 1) / 2, deviation sqrt(4 * (2^32 - 1) / 12).
        (sum - 131_070) as f32 * (1.0 / 37_837.226)
    }

    /// Uniform in 0..1.
    #[inline(always)]
    pub(super) fn uniform(self, at: usize) -> f32 {
        (self.bits(at) >> 40) as f32 * (1.0 / (1 << 24) as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(draw: impl Fn(usize) -> f32) -> (f64, f64) {
        let n = 100_000;
        let mean = (0..n).map(|i| f64::from(draw(i))).sum::<f64>() / n as f64;
        let variance = (0..n).map(|i| (f64::from(draw(i)) - mean).powi(2)).sum::<f64>() / n as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn moments_are_as_promised() {
        let stream = Stream::new(1, "a").row(2);
        let (mean, deviation) = moments(|i| stream.normal(i));
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01, "{mean} {deviation}");
        let (mean, deviation) = moments(|i| stream.uniform(i));
        assert!((mean - 0.5).abs() < 0.01 && (deviation - 12.0_f64.sqrt().recip()).abs() < 0.01, "{mean} {deviation}");
    }

    #[test]
    fn streams_are_unrelated() {
        let first = Stream::new(1, "a").row(0);
        let others = [Stream::new(2, "a").row(0), Stream::new(1, "b").row(0), Stream::new(1, "a").row(1)];
        for other in others {
            // Under two shifts as well: streams must not run into each other.
            for shift in 0..2 {
                let (mean, _) = moments(|i| first.normal(i) * other.normal(i + shift));
                assert!(mean.abs() < 0.015, "{mean}");
            }
        }
    }

    #[test]
    fn the_numbers_are_pinned() {
        // A change here changes every synthetic model and every hash of its outputs.
        let stream = Stream::new(7, "blocks.0.att.key.weight").row(3);
        let drawn = [stream.normal(0), stream.normal(1), stream.uniform(2)].map(f32::to_bits);
        assert_eq!(drawn, [3_208_088_783, 3_197_736_334, 1_058_458_960]);
    }
}
