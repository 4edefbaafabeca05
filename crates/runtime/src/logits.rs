//! Rows of logits in f64: the distribution of the next token, and the divergence of two.

/// The largest logit's token; the lowest id wins ties.
pub fn best(logits: &[f32]) -> u32 {
    let larger = |best: usize, i: usize| if logits[i] > logits[best] { i } else { best };
    (0..logits.len()).reduce(larger).unwrap_or(0) as u32
}

/// The logarithm of the sum of `exp(logit)`: what to subtract from a logit for the log-probability of its token, in nats.
pub fn log_sum(logits: &[f32]) -> f64 {
    let max = f64::from(logits.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b)));
    max + logits.iter().map(|x| (f64::from(*x) - max).exp()).sum::<f64>().ln()
}

/// Kullback-Leibler divergence of softmax(got) from softmax(want), in nats, at least 0.
pub fn divergence(want: &[f32], got: &[f32]) -> f64 {
    divergence_from(want, log_sum(want), got, log_sum(got))
}

/// As [`divergence`], where the [`log_sum`] of both rows is known.
pub fn divergence_from(want: &[f32], want_sum: f64, got: &[f32], got_sum: f64) -> f64 {
    let term = |(w, g): (&f32, &f32)| {
        let log_p = f64::from(*w) - want_sum;
        log_p.exp() * (log_p - (f64::from(*g) - got_sum))
    };
    let sum = want.iter().zip(got).map(term).sum::<f64>();
    // Not `max`: what is no number stays none.
    if sum < 0.0 { 0.0 } else { sum }
}

/// Root mean square of the difference over that of `want`.
pub fn relative_rms(got: &[f32], want: &[f32]) -> f64 {
    let [error, size] = squares(got, want);
    (error / size.max(1e-30)).sqrt()
}

/// Sums of squares: of the difference, and of `want`.
pub fn squares(got: &[f32], want: &[f32]) -> [f64; 2] {
    let square = |x: f32| f64::from(x).powi(2);
    let error = got.iter().zip(want).map(|(g, w)| square(g - w)).sum();
    [error, want.iter().map(|w| square(*w)).sum()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divergence_by_hand() {
        // Probabilities 1/4 and 3/4 against 1/2 and 1/2, each shifted by a constant.
        let (want, got) = ([5.0, 5.0 + 3f32.ln()], [-2.0, -2.0]);
        assert!((log_sum(&want) - (5.0 + 4f64.ln())).abs() < 1e-6);
        let by_hand = 0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln();
        assert!((divergence(&want, &got) - by_hand).abs() < 1e-6, "{}", divergence(&want, &got));
        assert_eq!(divergence(&want, &want), 0.0);
        assert!(divergence(&want, &[f32::NAN, 0.0]).is_nan());
        assert_eq!((best(&want), best(&got)), (1, 0));
    }

    #[test]
    fn large_logits_do_not_overflow() {
        assert_eq!(log_sum(&[3e38, 0.0]), f64::from(3e38f32));
        assert_eq!(log_sum(&[-3e38; 1]), f64::from(-3e38f32));
    }

    #[test]
    fn errors_are_relative_to_the_wanted_logits() {
        assert_eq!(relative_rms(&[3.0, 0.0], &[3.0, 4.0]), 0.8);
    }
}
