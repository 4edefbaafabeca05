//! In which order two are measured: A B B A pairs.

/// One arm of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// A: what would be used today, the device's default at the start.
    Incumbent,
    /// B: what may replace it.
    Candidate,
}

/// The order inside each of `pairs` pairs: A B, B A, A B ... Who goes first alternates, so that a steady drift adds to
/// one pair what it takes from the next.
pub fn abba(pairs: usize) -> impl Iterator<Item = [Arm; 2]> {
    (0..pairs).map(|pair| match pair % 2 {
        0 => [Arm::Incumbent, Arm::Candidate],
        _ => [Arm::Candidate, Arm::Incumbent],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_alternate_and_cancel_a_steady_drift() {
        use Arm::{Candidate as B, Incumbent as A};
        assert_eq!(abba(3).collect::<Vec<_>>(), [[A, B], [B, A], [A, B]]);
        // Time grows by 1 per measurement: over an even number of pairs both arms are charged the same.
        let mut charged = [0, 0];
        for (slot, arm) in abba(8).flatten().enumerate() {
            charged[arm as usize] += slot;
        }
        assert_eq!(charged[0], charged[1]);
    }
}
