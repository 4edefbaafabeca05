//! LoRA: a matrix of low rank is added.

/// `B A`, of `A [rank, in]` and `B [out, rank]` (RWKV-PEFT, `merge/merge_lora.py`, which adds `alpha / rank` times as
/// much; Hu et al. 2021, arXiv:2106.09685).
#[derive(Debug)]
pub(super) struct Lora {
    pub(super) rank: usize,
    pub(super) a: Vec<f32>,
    pub(super) b: Vec<f32>,
}

impl Lora {
    /// Adds `scale` times row `row` of `B A` to a row of weights.
    pub(super) fn add_to_row(&self, row: usize, scale: f32, weights: &mut [f32]) {
        let b = &self.b[row * self.rank..][..self.rank];
        for (b, a) in b.iter().zip(self.a.chunks_exact(weights.len())) {
            let factor = scale * b;
            for (weight, a) in weights.iter_mut().zip(a) {
                *weight += factor * a;
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A LoRA with its sizes `[out, in]`, weights of such a matrix, and a scale.
    pub(in super::super) fn any() -> impl Strategy<Value = (usize, usize, Lora, Vec<f32>, f32)> {
        (1usize..5, 1usize..9, 1usize..4).prop_flat_map(|(rows, cols, rank)| {
            let numbers = |len| vec(-4.0f32..4.0, len);
            let lora = (numbers(rank * cols), numbers(rows * rank)).prop_map(move |(a, b)| Lora { rank, a, b });
            (Just(rows), Just(cols), lora, numbers(rows * cols), -3.0f32..3.0)
        })
    }

    /// `B A` in f64.
    pub(in super::super) fn product(lora: &Lora, row: usize, col: usize, cols: usize) -> f64 {
        let of = |k: usize| f64::from(lora.b[row * lora.rank + k]) * f64::from(lora.a[k * cols + col]);
        (0..lora.rank).map(of).sum()
    }

    #[test]
    fn a_lora_computed_by_hand() {
        // A = [[1, 2, 3], [0, 1, 0]], B = [[1, 10], [2, 0]]
        let lora = Lora { rank: 2, a: vec![1.0, 2.0, 3.0, 0.0, 1.0, 0.0], b: vec![1.0, 10.0, 2.0, 0.0] };
        let mut weights = [100.0, 200.0, 300.0];
        lora.add_to_row(0, 0.5, &mut weights);
        assert_eq!(weights, [100.5, 206.0, 301.5]);
        lora.add_to_row(1, -1.0, &mut weights);
        assert_eq!(weights, [98.5, 202.0, 295.5]);
    }

    proptest! {
        #[test]
        fn a_lora_is_the_product_of_its_halves((rows, cols, lora, weights, scale) in any()) {
            for row in 0..rows {
                let mut found = weights[row * cols..][..cols].to_vec();
                lora.add_to_row(row, scale, &mut found);
                for (col, found) in found.into_iter().enumerate() {
                    let added = f64::from(scale) * product(&lora, row, col, cols);
                    let wanted = f64::from(weights[row * cols + col]) + added;
                    prop_assert!((f64::from(found) - wanted).abs() < 1e-4, "{found} for {wanted}");
                }
            }
        }
    }
}
