//! Bayesian linear regression: the posterior of many small effects, given sums of them, in as many dimensions as there
//! are observations (Rasmussen and Williams 2006, chapter 2). The prior's scale is the most likely one.

use super::rng::unit;
use rand_xoshiro::SplitMix64;
use std::f64::consts::TAU;

/// Effects and what they count: what is not named counts nothing.
pub type Row = Vec<(usize, f64)>;

/// Sizes of effects that are thought of, as standard deviations.
const SPREADS: [f64; 6] = [0.003, 0.006, 0.012, 0.024, 0.05, 0.1];

/// What one observation may be off by, likewise.
const NOISES: [f64; 4] = [0.003, 0.006, 0.012, 0.024];

/// The spread that is likeliest before anything was seen.
const GUESSED: f64 = 0.024;

/// Sums of effects that were seen, and what follows.
pub struct Beliefs {
    rows: Vec<Row>,
    seen: Vec<f64>,
    spread: f64,
    noise: f64,
    factor: Vec<Vec<f64>>,
}

impl Beliefs {
    /// Those that sums leave, with the likeliest spread and noise.
    pub fn of(rows: Vec<Row>, seen: Vec<f64>) -> Self {
        let products = products(&rows);
        let sizes = SPREADS.iter().flat_map(|spread| NOISES.map(|noise| (*spread, noise)));
        let tried = sizes.filter_map(|(spread, noise)| {
            let factor = factor(&products, spread, noise)?;
            Some((likelihood(&factor, &seen) + guess(spread), spread, noise, factor))
        });
        let best = tried.max_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let (_, spread, noise, factor) = best.unwrap_or((0.0, SPREADS[0], NOISES[0], Vec::new()));
        Beliefs { rows, seen, spread, noise, factor }
    }

    /// The likeliest effects, `effects` of them.
    pub fn mean(&self, effects: usize) -> Vec<f64> {
        self.corrected(vec![0.0; effects], &self.seen)
    }

    /// Effects that may well be so: drawn from all that agree with what was seen, as likely as they are (Matheron's
    /// rule).
    pub fn draw(&self, effects: usize, rng: &mut SplitMix64) -> Vec<f64> {
        let drawn: Vec<f64> = (0..effects).map(|_| self.spread * normal(rng)).collect();
        let seen: Vec<f64> = self.seen.iter().map(|y| y + self.noise * normal(rng)).collect();
        self.corrected(drawn, &seen)
    }

    /// Effects moved by what they do not explain.
    fn corrected(&self, mut effects: Vec<f64>, seen: &[f64]) -> Vec<f64> {
        if self.factor.is_empty() {
            return effects;
        }
        let left: Vec<f64> = self.rows.iter().zip(seen).map(|(row, y)| y - dot(row, &effects)).collect();
        let weights = back(&self.factor, &forward(&self.factor, &left));
        for (row, weight) in self.rows.iter().zip(weights) {
            row.iter().for_each(|(i, x)| effects[*i] += self.spread * self.spread * weight * x);
        }
        effects
    }
}

/// A sum of effects.
pub fn dot(row: &Row, effects: &[f64]) -> f64 {
    row.iter().map(|(i, x)| x * effects[*i]).sum()
}

/// Products of all rows with those before them and themselves.
fn products(rows: &[Row]) -> Vec<Vec<f64>> {
    let effects = rows.iter().flatten().map(|(i, _)| i + 1).max().unwrap_or(0);
    let mut spread_out = vec![0.0; effects];
    let mut products = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        row.iter().for_each(|(i, x)| spread_out[*i] += x);
        products.push(rows[..=n].iter().map(|other| dot(other, &spread_out)).collect());
        row.iter().for_each(|(i, _)| spread_out[*i] = 0.0);
    }
    products
}

/// The Cholesky factor of what sums vary together by; `None` where rounding leaves none.
fn factor(products: &[Vec<f64>], spread: f64, noise: f64) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(products.len());
    for (i, own) in products.iter().enumerate() {
        let mut row = Vec::with_capacity(i + 1);
        for j in 0..=i {
            let known: f64 = match j == i {
                true => row.iter().map(|x: &f64| x * x).sum(),
                false => row.iter().zip(&factor[j]).map(|(a, b)| a * b).sum(),
            };
            let left = spread * spread * own[j] + if j == i { noise * noise } else { 0.0 } - known;
            row.push(if j == i { Some(left).filter(|left| *left > 0.0)?.sqrt() } else { left / factor[j][j] });
        }
        factor.push(row);
    }
    Some(factor)
}

/// The logarithm of how likely it was to see this, but for a constant.
fn likelihood(factor: &[Vec<f64>], seen: &[f64]) -> f64 {
    let whitened = forward(factor, seen);
    let size: f64 = factor.iter().enumerate().map(|(i, row)| row[i].ln()).sum();
    -0.5 * whitened.iter().map(|x| x * x).sum::<f64>() - size
}

/// The logarithm of how likely a spread is before anything was seen, but for a constant: within a factor of e or so.
fn guess(spread: f64) -> f64 {
    -0.5 * (spread / GUESSED).ln().powi(2)
}

/// Solves for the factor.
fn forward(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solved: Vec<f64> = Vec::with_capacity(right.len());
    for (i, row) in factor.iter().enumerate() {
        let known: f64 = row.iter().zip(&solved).map(|(a, b)| a * b).sum();
        solved.push((right[i] - known) / row[i]);
    }
    solved
}

/// Solves for its transpose.
fn back(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solved = right.to_vec();
    for (i, row) in factor.iter().enumerate().rev() {
        solved[i] /= row[i];
        let x = solved[i];
        solved[..i].iter_mut().zip(row).for_each(|(y, a)| *y -= a * x);
    }
    solved
}

/// A draw from the normal distribution (Box and Muller).
fn normal(rng: &mut SplitMix64) -> f64 {
    (-2.0 * (1.0 - unit(rng)).ln()).sqrt() * (TAU * unit(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::rng::below;
    use rand_xoshiro::rand_core::SeedableRng;

    #[test]
    fn effects_are_recovered_from_their_sums() {
        let mut rng = SplitMix64::seed_from_u64(3);
        let truth: Vec<f64> = (0..30).map(|_| 0.05 * normal(&mut rng)).collect();
        let rows: Vec<Row> = (0..120).map(|_| (0..5).map(|_| (below(&mut rng, 30), 1.0)).collect()).collect();
        let seen = rows.iter().map(|row| dot(row, &truth) + 0.006 * normal(&mut rng)).collect();
        let beliefs = Beliefs::of(rows, seen);
        assert_eq!((beliefs.spread, beliefs.noise), (0.05, 0.006));
        let off = |found: &[f64]| found.iter().zip(&truth).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off(&beliefs.mean(30)) < 0.02, "{}", off(&beliefs.mean(30)));
        let draws: Vec<Vec<f64>> = (0..200).map(|_| beliefs.draw(31, &mut rng)).collect();
        let scatter = |i: usize| (draws.iter().map(|draw| draw[i] * draw[i]).sum::<f64>() / 200.0).sqrt();
        // What no sum holds may be anything; what many hold is known.
        assert!((0.04..0.06).contains(&scatter(30)), "{}", scatter(30));
        assert!(draws.iter().all(|draw| off(&draw[..30]) < 0.03));
    }

    #[test]
    fn a_model_without_samples_has_the_prior() {
        let beliefs = Beliefs::of(Vec::new(), Vec::new());
        assert_eq!(beliefs.mean(2), [0.0, 0.0]);
        assert_ne!(beliefs.draw(2, &mut SplitMix64::seed_from_u64(1)), [0.0, 0.0]);
    }
}
