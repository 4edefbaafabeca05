//! The control kernel: it never changes, timed before and after each block, tells whether the machine did.

use super::summary::median;

/// How far the control kernel may move before the block between is void.
pub const TOLERANCE: f64 = 0.02;

/// What the control kernel says of the block of samples between its two visits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Block {
    /// The machine held still: the samples count.
    Kept {
        /// The control kernel's median after over before, minus one.
        drift: f64,
    },
    /// The machine changed under the samples: measure them again.
    Void {
        /// The control kernel's median after over before, minus one.
        drift: f64,
    },
}

/// Judges a block by the control kernel's times `before` and `after` it. `None` where either has no median above zero:
/// without one there is no reason to trust the block.
pub fn judge(before: &[f64], after: &[f64], tolerance: f64) -> Option<Block> {
    let positive = |samples| median(samples).filter(|&ns| ns > 0.0);
    let ratio = positive(after)? / positive(before)?;
    let drift = ratio - 1.0;
    // Symmetric in the logarithm: the verdict does not depend on which end of the block came first.
    Some(if ratio.ln().abs() > tolerance.ln_1p() { Block::Void { drift } } else { Block::Kept { drift } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_control_kernel_voids_the_block() {
        let void =
            |before: f64, after: f64| matches!(judge(&[before; 3], &[after; 3], TOLERANCE), Some(Block::Void { .. }));
        assert!(!void(100.0, 101.9) && !void(101.9, 100.0));
        assert!(void(100.0, 102.1) && void(102.1, 100.0));
    }

    #[test]
    fn a_single_outlier_does_not_void_a_block() {
        let block = judge(&[100.0, 100.0, 100.0], &[100.0, 900.0, 101.0], TOLERANCE);
        assert!(matches!(block, Some(Block::Kept { drift }) if (drift - 0.01).abs() < 1e-12), "{block:?}");
    }

    #[test]
    fn a_block_without_a_control_kernel_is_not_judged() {
        assert_eq!(judge(&[], &[1.0], TOLERANCE), None);
        assert_eq!(judge(&[1.0], &[0.0], TOLERANCE), None);
    }
}
