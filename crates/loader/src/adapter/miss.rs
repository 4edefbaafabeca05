//! MiSS, which was called DiSHA and Bone before: one small block is added to every stretch of a row.

/// A block `[rank, out]`: `block[i % rank, o]` is added to the weight of input `i` in row `o`, whether the rank divides
/// the inputs or not (RWKV-PEFT, `merge/merge_disha.py`, blocks of two dimensions; Hugging Face's `peft`,
/// `tuners/miss/layer.py`; Kang et al. 2024, arXiv:2409.15371).
#[derive(Debug)]
pub(super) struct Miss {
    pub(super) rank: usize,
    pub(super) block: Vec<f32>,
}

impl Miss {
    /// Adds `scale` times what row `row` is given to a row of weights.
    pub(super) fn add_to_row(&self, row: usize, scale: f32, weights: &mut [f32]) {
        let out = self.block.len() / self.rank;
        let column: Vec<f32> = self.block.iter().skip(row).step_by(out).map(|x| scale * x).collect();
        for stretch in weights.chunks_mut(self.rank) {
            stretch.iter_mut().zip(&column).for_each(|(weight, x)| *weight += x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_block_computed_by_hand() {
        // [rank 2, out 3]
        let miss = Miss { rank: 2, block: vec![1.0, 2.0, 3.0, 10.0, 20.0, 30.0] };
        let mut weights = [0.0, 0.0, 100.0, 100.0, 1000.0];
        miss.add_to_row(1, 1.0, &mut weights);
        assert_eq!(weights, [2.0, 20.0, 102.0, 120.0, 1002.0]);
        miss.add_to_row(2, -2.0, &mut weights);
        assert_eq!(weights, [-4.0, -40.0, 96.0, 60.0, 996.0]);
    }

    proptest! {
        /// Training (`BoneLinear`) sums the stretches of `x`, the last stretch filled with zeros, and multiplies the
        /// sum with the block.
        #[test]
        fn merged_weights_give_the_product_of_training(
            (out, rank, x, block) in (1usize..5, 1usize..5, vec(-2.0f32..2.0, 1..12))
                .prop_flat_map(|(out, rank, x)| (Just(out), Just(rank), Just(x), vec(-2.0f32..2.0, out * rank))),
        ) {
            let mut sums = vec![0.0f64; rank];
            x.iter().enumerate().for_each(|(i, x)| sums[i % rank] += f64::from(*x));
            let miss = Miss { rank, block };
            for row in 0..out {
                let wanted: f64 = (0..rank).map(|i| sums[i] * f64::from(miss.block[i * out + row])).sum();
                let mut weights = vec![0.0; x.len()];
                miss.add_to_row(row, 1.0, &mut weights);
                let found: f64 = weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                prop_assert!((found - wanted).abs() < 1e-4, "{found} for {wanted}");
            }
        }
    }
}
