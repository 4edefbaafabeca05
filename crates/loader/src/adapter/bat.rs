//! Bat, the variant of MiSS (DiSHA, Bone) whose blocks are multiplied with the weights.

/// Blocks `[n, r, r]`. The matrix is cut into blocks of r times r, and `W D + D` is added to each of them. `D` belongs
/// to the block's columns (RWKV-PEFT, `merge/merge_disha.py`, blocks of three dimensions) or to its rows (Hugging
/// Face's `peft`, `tuners/miss/layer.py`, `init_weights="bat"`).
#[derive(Debug)]
pub(super) struct Bat {
    /// r.
    pub(super) size: usize,
    pub(super) blocks: Vec<f32>,
    pub(super) by: BlocksBy,
}

/// What decides which block of an adapter a block of the matrix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlocksBy {
    /// Its columns.
    Columns,
    /// Its rows.
    Rows,
}

impl Bat {
    /// Adds `scale` times row `row` of `W D + D` to that row of `W`.
    pub(super) fn add_to_row(&self, row: usize, scale: f32, weights: &mut [f32]) {
        let mut before = vec![0.0; self.size];
        for (columns, weights) in weights.chunks_exact_mut(self.size).enumerate() {
            let number = match self.by {
                BlocksBy::Columns => columns,
                BlocksBy::Rows => row / self.size,
            };
            let block = &self.blocks[number * self.size * self.size..][..self.size * self.size];
            before.copy_from_slice(weights);
            let mut add = |factor: f32, line: &[f32]| {
                weights.iter_mut().zip(line).for_each(|(weight, d)| *weight += scale * factor * d);
            };
            add(1.0, &block[row % self.size * self.size..][..self.size]);
            before.iter().zip(block.chunks_exact(self.size)).for_each(|(factor, line)| add(*factor, line));
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
        // D0 = [[1, 2], [3, 4]], D1 = 10 D0; rows 0 and 1 of W = [[1, 1, 2, 0], ..] belong to the same blocks.
        let blocks = vec![1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0];
        let bat = Bat { size: 2, blocks, by: BlocksBy::Columns };
        let mut weights = [1.0, 1.0, 2.0, 0.0];
        bat.add_to_row(0, 1.0, &mut weights);
        // [1 1] D0 + D0[0] = [4 6] + [1 2]; [2 0] D1 + D1[0] = [20 40] + [10 20]
        assert_eq!(weights, [6.0, 9.0, 32.0, 60.0]);
        let bat = Bat { by: BlocksBy::Rows, ..bat };
        let mut weights = [1.0, 1.0, 2.0, 0.0];
        bat.add_to_row(3, 1.0, &mut weights);
        // [1 1] D1 + D1[1] = [40 60] + [30 40]; [2 0] D1 + D1[1] = [20 40] + [30 40]
        assert_eq!(weights, [71.0, 101.0, 52.0, 80.0]);
    }

    proptest! {
        #[test]
        fn each_block_is_multiplied_with_the_adapter_block_of_its_place(
            (size, rows, columns, numbers, weights) in (1usize..4, 1usize..4, 1usize..4).prop_flat_map(|(s, r, c)| {
                let (most, cells) = (r.max(c) * s * s, r * s * c * s);
                (Just(s), Just(r), Just(c), vec(-2.0f32..2.0, most), vec(-2.0f32..2.0, cells))
            }),
            scale in -2.0f32..2.0,
            by in prop::sample::select(vec![BlocksBy::Columns, BlocksBy::Rows]),
        ) {
            let bat = Bat { size, blocks: numbers, by };
            let cols = columns * size;
            for row in 0..rows * size {
                let w = &weights[row * cols..][..cols];
                let mut found = w.to_vec();
                bat.add_to_row(row, scale, &mut found);
                for (col, found) in found.into_iter().enumerate() {
                    let number = if by == BlocksBy::Columns { col / size } else { row / size };
                    let d = |k: usize| f64::from(bat.blocks[(number * size + k) * size + col % size]);
                    let product = (0..size).map(|k| f64::from(w[col / size * size + k]) * d(k)).sum::<f64>();
                    let wanted = f64::from(w[col]) + f64::from(scale) * (product + d(row % size));
                    prop_assert!((f64::from(found) - wanted).abs() < 1e-4, "{found} for {wanted}");
                }
            }
        }
    }
}
