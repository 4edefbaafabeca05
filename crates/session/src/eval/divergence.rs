//! How far a model is from another on a text.

use super::histogram::Histogram;
use super::rows::Compared;

/// How far a model is from a reference, over all tokens of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Divergence {
    all: Stretch,
    histogram: Histogram,
    stretches: Vec<Stretch>,
}

/// The same over a stretch of positions, counted since reading began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stretch {
    /// The first position; the next stretch says where it ends.
    pub first: u64,
    /// Tokens.
    pub tokens: u64,
    /// Largest Kullback-Leibler divergence from the reference, in nats.
    pub max_kl: f64,
    kl: f64,
    agreed: u64,
    squares: [f64; 2],
}

impl Stretch {
    /// Mean Kullback-Leibler divergence from the reference, in nats.
    pub fn mean_kl(&self) -> f64 {
        self.kl / self.tokens as f64
    }

    /// Share of the tokens at which both find the same token likeliest.
    pub fn agreement(&self) -> f64 {
        self.agreed as f64 / self.tokens as f64
    }

    /// Root mean square of the logits' error, relative to the reference's logits.
    pub fn rms(&self) -> f64 {
        let [error, size] = self.squares;
        (error / size.max(1e-30)).sqrt()
    }

    fn add(&mut self, row: &Compared) {
        self.tokens += 1;
        self.max_kl = self.max_kl.max(row.kl);
        self.kl += row.kl;
        self.agreed += u64::from(row.agrees);
        self.squares[0] += row.squares[0];
        self.squares[1] += row.squares[1];
    }
}

impl Divergence {
    /// Over all tokens.
    pub fn all(&self) -> &Stretch {
        &self.all
    }

    /// The divergence that 99 % of the tokens do not exceed, in nats, give or take 0.2 %.
    pub fn kl_99(&self) -> f64 {
        self.histogram.quantile(0.99).min(self.all.max_kl)
    }

    /// By position since reading began, in stretches that grow: 0, 1 to 3, 4 to 15, 16 to 63, and so on.
    pub fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }

    pub(super) fn add(&mut self, position: u64, row: &Compared) {
        let index = position.checked_ilog(4).map_or(0, |log| log as usize + 1);
        while self.stretches.len() <= index {
            let first = match self.stretches.len() {
                0 => 0,
                n => 4u64.pow(n as u32 - 1),
            };
            self.stretches.push(Stretch { first, ..Stretch::default() });
        }
        self.stretches[index].add(row);
        self.all.add(row);
        self.histogram.add(row.kl);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_by_hand() {
        let mut divergence = Divergence::default();
        for position in 0..20 {
            let kl = f64::from(position);
            let squares = [4.0 * kl, 1.0];
            divergence.add(
                u64::from(position as u32),
                &Compared { nats: 1.0, reference_nats: 1.0, kl, agrees: position != 2, squares },
            );
        }
        let firsts: Vec<(u64, u64)> = divergence.stretches().iter().map(|s| (s.first, s.tokens)).collect();
        assert_eq!(firsts, [(0, 1), (1, 3), (4, 12), (16, 4)]);
        let second = divergence.stretches()[1];
        assert_eq!((second.mean_kl(), second.max_kl), (2.0, 3.0));
        assert_eq!((second.agreement(), second.rms()), (2.0 / 3.0, 8f64.sqrt()));
        assert_eq!((divergence.all().mean_kl(), divergence.all().tokens), (9.5, 20));
        assert_eq!(divergence.kl_99(), 19.0, "no more than the largest");
    }
}
