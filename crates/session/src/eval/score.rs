//! How well a model predicts a text.

use std::f64::consts::LN_2;

/// How well a model predicts a text; sums, so that pieces of any size add up to the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Tokens predicted.
    pub tokens: u64,
    /// Bytes of these tokens.
    pub bytes: u64,
    /// Sum of the negative log-probabilities of these tokens, in nats.
    pub nats: f64,
    /// Sum of their squares.
    pub squares: f64,
    /// Time the model took for it, in seconds.
    pub seconds: f64,
}

impl Score {
    /// Adds tokens of that many bytes, one by one.
    pub(super) fn add(&mut self, bytes: u64, nats: impl Iterator<Item = f64>) {
        self.bytes += bytes;
        for nats in nats {
            self.tokens += 1;
            self.nats += nats;
            self.squares += nats * nats;
        }
    }

    /// Bits to encode a byte of the text: what models with different vocabularies can be compared by.
    pub fn bits_per_byte(&self) -> f64 {
        self.nats / LN_2 / self.bytes as f64
    }

    /// Bits to encode a token.
    pub fn bits_per_token(&self) -> f64 {
        self.nats / LN_2 / self.tokens as f64
    }

    /// Among how many equally likely tokens the model would be as uncertain.
    pub fn perplexity(&self) -> f64 {
        (self.nats / self.tokens as f64).exp()
    }

    /// Standard error of the mean of a token's nats, as if tokens were independent (they are not quite, so that it is rather too small);
    /// `None` for a single token. The relative standard error of [`Score::perplexity`]; as a share of `nats / tokens`, that of
    /// the bits.
    pub fn standard_error(&self) -> Option<f64> {
        let (n, mean) = (self.tokens as f64, self.nats / self.tokens as f64);
        let variance = (self.squares / n - mean * mean).max(0.0);
        (self.tokens > 1).then(|| (variance / (n - 1.0)).sqrt())
    }

    /// Tokens in a second of the model's time.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_by_hand() {
        // Three tokens of eight bytes with probabilities 1/2, 1/8 and 1/4: six bits.
        let mut score = Score { seconds: 1.5, ..Score::default() };
        score.add(5, [0.5f64, 0.125].map(|p| -p.ln()).into_iter());
        score.add(3, [0.25f64].map(|p| -p.ln()).into_iter());
        assert!((score.bits_per_token() - 2.0).abs() < 1e-12);
        assert!((score.bits_per_byte() - 0.75).abs() < 1e-12);
        assert!((score.perplexity() - 4.0).abs() < 1e-12);
        assert_eq!(score.tokens_per_second(), 2.0);
        // One, three and two bits: a standard deviation of one bit.
        assert!((score.standard_error().unwrap() - LN_2 / 3f64.sqrt()).abs() < 1e-12);
        let mut one = Score::default();
        one.add(1, [0.5].into_iter());
        assert_eq!(one.standard_error(), None);
    }
}
