//! Functions that the references share: activations, sums, moments; tolerances, and ranges to draw operands from.

use super::Domain;
use crate::{Instance, UNKNOWN};
use multiversion::multiversion;
use wgoose_graph::Activation;

/// A few roundings of f32.
pub(super) const ELEMENTWISE: fn(&Instance) -> f32 = |_| 2e-6;

/// Sums of a row or a head in f32, with a square root.
pub(super) const NORM: fn(&Instance) -> f32 = |_| 2e-5;

/// A sum of k products in f32: roundings of 2^-24 that grow like sqrt(k), with a margin of 16.
pub(super) fn sum_tolerance(k: u32) -> f32 {
    16.0 * f32::EPSILON * (k as f32).sqrt().max(8.0)
}

/// Normalised activations.
pub(super) fn unit_domain(_: &str) -> Domain {
    Domain::Activations(2.0)
}

/// The definition of [`Activation`].
pub(super) fn activation(kind: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match kind {
        Activation::None => x,
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
        // Not the maximum's square: it is 0 for NaN.
        Activation::ReluSquared => x.max(0.0) * x,
        Activation::Decay => (-(-0.5f64).exp() * sigmoid(x)).exp(),
    }
}

/// Eight partial sums, so that the compiler can use vectors, of whatever width the processor has; each is exact to f64.
/// A product of two f32 is exact, so that every processor comes to the same sum.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f64 {
    let product = |(a, b): (&f32, &f32)| f64::from(*a) * f64::from(*b);
    let (a_eights, b_eights) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail: f64 = a_eights.remainder().iter().zip(b_eights.remainder()).map(product).sum();
    let mut sums = [0.0; 8];
    for (a, b) in a_eights.zip(b_eights) {
        for i in 0..8 {
            sums[i] += product((&a[i], &b[i]));
        }
    }
    sums.iter().sum::<f64>() + tail
}

/// Marks what is not computed of a row of y: all but the columns wanted.
pub(super) fn leave_out(y: &mut [f32], wanted: &[usize]) {
    if wanted.len() < y.len() {
        y.fill(UNKNOWN);
    }
}

/// Mean and 1 / sqrt(variance + eps) of a row.
pub(super) fn moments(row: &[f32], eps: f32) -> (f64, f64) {
    let n = row.len() as f64;
    let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / n;
    (mean, 1.0 / (variance + f64::from(eps)).sqrt())
}

/// Tolerance of an op that norms its x itself: errors of the norm, of which a product has its part, and of the sums; a
/// third of y has none.
pub(super) fn normed_tolerance(instance: &Instance) -> f32 {
    2.0 * (sum_tolerance(instance.k) + NORM(instance))
}

/// Domain of an op that norms its x itself.
pub(super) fn normed_domain(operand: &str) -> Domain {
    match operand {
        "x" | "state" => Domain::Activations(2.0),
        "scale" => Domain::Within(0.5, 1.5),
        "bias" => Domain::Within(-0.5, 0.5),
        "mix" => Domain::Within(0.0, 1.0),
        _ => Domain::Within(-0.1, 0.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_product_has_the_bits_of_eight_lanes_on_every_processor() {
        let number = |i: usize| ((i * 7919 % 1009) as f32 - 504.0) * 0.37;
        for len in [0, 1, 7, 8, 9, 64, 2563] {
            let (a, b): (Vec<f32>, Vec<f32>) = (0..len).map(|i| (number(i), number(i + 31))).unzip();
            let eights = len - len % 8;
            let product = |i: usize| f64::from(a[i]) * f64::from(b[i]);
            let lane = |lane: usize| (lane..eights).step_by(8).map(product).fold(0.0, |sum, product| sum + product);
            let sum: f64 = (0..8).map(lane).sum::<f64>() + (eights..len).map(product).sum::<f64>();
            assert_eq!(dot(&a, &b).to_bits(), sum.to_bits(), "{len} numbers");
        }
    }
}
