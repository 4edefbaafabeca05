//! The best tokens of positions, and which of their orders every plan of a class has.

use super::rounding::Rounding;
use serde::{Deserialize, Serialize};
use wgoose_kernels::{Precision, PrecisionClass};

/// Certified positions below which agreement means nothing: a plan does not pass, unless it rounds to int8, when only
/// its Kullback-Leibler divergence and its errors are judged, which is said.
pub const LEAST_CERTIFIED: u32 = 8;

/// How many of the best tokens are compared at each position.
pub(super) const BEST: usize = 32;

/// The best tokens at one position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ranking {
    /// Best first.
    pub(super) tokens: Vec<u32>,
    /// For each token but the last, how far its logit is above the next one's, in standard deviations of the position's
    /// logits.
    pub(super) gaps: Vec<f32>,
}

impl Ranking {
    /// That of a row of logits.
    pub(super) fn of(logits: &[f32]) -> Self {
        let n = logits.len() as f32;
        let mean = logits.iter().sum::<f32>() / n;
        let spread = (logits.iter().map(|l| (l - mean).powi(2)).sum::<f32>() / n).sqrt().max(f32::MIN_POSITIVE);
        let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
        let better = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
        if tokens.len() > BEST {
            tokens.select_nth_unstable_by(BEST, better);
            tokens.truncate(BEST);
        }
        tokens.sort_by(better);
        let gap = |pair: &[u32]| (logits[pair[0] as usize] - logits[pair[1] as usize]) / spread;
        let gaps = tokens.windows(2).map(gap).collect();
        Ranking { tokens, gaps }
    }

    /// Whether it is one of a vocabulary of that size.
    pub(super) fn fits(&self, vocab: u32) -> bool {
        let count = BEST.min(vocab as usize);
        self.tokens.len() == count
            && self.gaps.len() + 1 == count
            && self.tokens.iter().all(|token| *token < vocab)
            && self.gaps.iter().all(|gap| *gap >= 0.0)
    }

    /// Whether the best token is certain by that margin.
    pub(super) fn is_certain(&self, margin: f32) -> bool {
        self.gaps.first().is_some_and(|gap| *gap > margin)
    }
}

/// A position of the reference, and what an engine has there.
#[derive(Clone, Copy)]
pub(super) struct Position<'a> {
    pub(super) ranking: &'a Ranking,
    pub(super) is_first: bool,
    pub(super) answer: Answer<'a>,
}

/// Whose decisions are hashed.
#[derive(Clone, Copy)]
pub(super) enum Answer<'a> {
    /// An engine's, of its logits.
    Engine(&'a [f32]),
    /// The reference's, which are counted.
    Reference,
    /// The reference's, since the engine was not looked at here; they are not counted.
    Unseen,
}

/// How an engine agrees with the reference where a class is certain, and how far off the class may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreement {
    /// The class.
    pub class: PrecisionClass,
    /// Hash of the engine's decisions, one value for every correct plan of the class and of finer ones.
    pub hash: String,
    /// Positions whose best token is certain, and positions in all.
    pub certified: (u32, u32),
    /// Decisions: those tokens, and the certain orders among the next best.
    pub decisions: u32,
    /// How many of these the engine makes otherwise.
    pub disagreements: u32,
    /// The most that the class may have of each of the errors that are looked at.
    pub limits: [f64; 3],
}

impl Agreement {
    /// Whether the class certifies too little for a hash to mean anything, so that errors alone are judged.
    pub fn is_by_errors_only(&self) -> bool {
        self.class.products == Precision::Q8 && self.certified.0 < LEAST_CERTIFIED
    }

    /// Whether these are the decisions, and those the errors, of a correct plan of the class.
    pub(super) fn passes(&self, errors: [f64; 3]) -> bool {
        // Not `>`: what is no number is beyond a limit.
        let is_within = errors.iter().zip(self.limits).all(|(error, limit)| *error <= limit);
        let is_certified = self.certified.0 >= LEAST_CERTIFIED || self.is_by_errors_only();
        is_within && self.disagreements == 0 && is_certified
    }
}

/// The one of a class.
pub(super) fn of_class(agreements: &[Agreement], class: PrecisionClass) -> Option<&Agreement> {
    agreements.iter().find(|agreement| agreement.class == class)
}

/// Holds positions against the reference, by the measure of a class whose errors have these limits.
pub(super) fn judge<'a>(
    id: &str,
    rounding: &Rounding,
    (class, limits): (PrecisionClass, [f64; 3]),
    positions: impl Iterator<Item = Position<'a>>,
) -> Agreement {
    let mut hasher = blake3::Hasher::new();
    hasher.update(id.as_bytes());
    hasher.update(class.to_string().as_bytes());
    let (hash, certified) = (String::new(), (0, 0));
    let mut agreement = Agreement { class, hash, certified, decisions: 0, disagreements: 0, limits };
    let margins = [false, true].map(|is_first| rounding.margin(class, is_first));
    for (number, Position { ranking, is_first, answer }) in positions.enumerate() {
        let margin = margins[usize::from(is_first)];
        let is_ordered = |pair: &[u32]| match answer {
            Answer::Engine(logits) => logits[pair[0] as usize] > logits[pair[1] as usize],
            Answer::Reference | Answer::Unseen => true,
        };
        let pairs = ranking.tokens.windows(2).zip(&ranking.gaps).filter(|(_, gap)| **gap > margin);
        let orders: Vec<u8> = pairs.map(|(pair, _)| u8::from(is_ordered(pair))).collect();
        hasher.update(&orders);
        let is_certain = ranking.is_certain(margin);
        let mut disagreements = orders.iter().filter(|order| **order == 0).count() as u32;
        if is_certain {
            let token = match answer {
                Answer::Engine(logits) => wgoose_runtime::logits::best(logits),
                Answer::Reference | Answer::Unseen => ranking.tokens[0],
            };
            disagreements += u32::from(token != ranking.tokens[0]);
            hasher.update(&token.to_le_bytes());
        }
        if disagreements > 0 {
            let place = orders.iter().position(|order| *order == 0);
            tracing::info!(%class, number, margin, ?place, ?ranking, "a certain decision is made otherwise");
        }
        if !matches!(answer, Answer::Unseen) {
            agreement.certified.0 += u32::from(is_certain);
            agreement.certified.1 += 1;
            agreement.decisions += orders.len() as u32 + u32::from(is_certain);
            agreement.disagreements += disagreements;
        }
    }
    agreement.hash = hasher.finalize().to_hex()[..16].to_owned();
    agreement
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_ranked_by_logit_and_ties_by_number() {
        let mut logits = vec![0.0; 100];
        for (token, logit) in [(7, 3.0), (90, 5.0), (12, 3.0), (3, 4.0)] {
            logits[token] = logit;
        }
        let ranking = Ranking::of(&logits);
        assert_eq!(ranking.tokens[..6], [90, 3, 7, 12, 0, 1]);
        assert!(ranking.gaps[0] > 0.0 && ranking.gaps[2] == 0.0 && ranking.is_certain(0.5) && !ranking.is_certain(1e9));
        assert_eq!((ranking.tokens.len(), ranking.gaps.len()), (BEST, BEST - 1));
    }
}
