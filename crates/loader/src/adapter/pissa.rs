//! PiSSA: a LoRA that begins with the principal part of the matrix instead of zero.

use super::lora::Lora;

/// `B A - B0 A0`: training took the initial `B0 A0` from the matrix and added `B A` (RWKV-PEFT, `merge/merge_pissa.py`;
/// Meng et al. 2024, arXiv:2404.02948).
#[derive(Debug)]
pub(super) struct Pissa {
    pub(super) learned: Lora,
    pub(super) initial: Lora,
}

impl Pissa {
    /// Adds `scale` times row `row` of `B A - B0 A0` to a row of weights.
    pub(super) fn add_to_row(&self, row: usize, scale: f32, weights: &mut [f32]) {
        self.initial.add_to_row(row, -scale, weights);
        self.learned.add_to_row(row, scale, weights);
    }
}

#[cfg(test)]
mod tests {
    use super::super::lora::tests::{any, product};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pissa_computed_by_hand() {
        let initial = Lora { rank: 1, a: vec![1.0, 2.0], b: vec![3.0] };
        let learned = Lora { rank: 1, a: vec![1.0, 4.0], b: vec![5.0] };
        let mut weights = [10.0, 20.0];
        Pissa { learned, initial }.add_to_row(0, 1.0, &mut weights);
        assert_eq!(weights, [10.0 - 3.0 + 5.0, 20.0 - 6.0 + 20.0]);
    }

    proptest! {
        #[test]
        fn a_pissa_replaces_the_initial_product(
            (rows, cols, learned, weights, scale) in any(),
            factors in (-2.0f32..2.0, -2.0f32..2.0),
        ) {
            let scaled = |numbers: &[f32], factor: f32| numbers.iter().map(|x| x * factor).collect();
            let initial =
                Lora { rank: learned.rank, a: scaled(&learned.a, factors.0), b: scaled(&learned.b, factors.1) };
            let pissa = Pissa { learned, initial };
            for row in 0..rows {
                let mut found = weights[row * cols..][..cols].to_vec();
                pissa.add_to_row(row, scale, &mut found);
                for (col, found) in found.into_iter().enumerate() {
                    let product = |lora| product(lora, row, col, cols);
                    let added = product(&pissa.learned) - product(&pissa.initial);
                    let wanted = f64::from(weights[row * cols + col]) + f64::from(scale) * added;
                    prop_assert!((f64::from(found) - wanted).abs() < 1e-3, "{found} for {wanted}");
                }
            }
        }
    }
}
