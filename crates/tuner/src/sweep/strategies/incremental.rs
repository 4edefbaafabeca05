//! The search where whole steps are slow: a win is confirmed and kept at once, and what is tried next is what should
//! gain the most in a second.
//!
//! A move's op instances are tuned alone for a while, then the plan is compared with the best in the move's scenario,
//! by samples that stop as soon as it is faster or cannot be, then with the default. Scenarios that the move leaves
//! alone need no samples. The expected gain of a move is a guess at first, and half of its last gain after that; its
//! expected time follows from the times seen on this device.

use crate::kernel_tuning::KernelTuner;
use crate::sweep::stages::check_default;
use crate::sweep::stages::moves::{LEAST, Move, Peak, What, all_moves, guess_fusions, make, most_promising};
use crate::sweep::strategy::{Found, Strategy};
use crate::sweep::trials::Trials;
use crate::sweep::{Candidate, SweepError};

/// Of what a move gained, the part that it may gain when it is made again; of what it was guessed to gain, where it
/// gained nothing.
const AGAIN: f64 = 0.5;

/// The search where whole steps are slow.
#[derive(Debug)]
pub(super) struct Incremental;

impl Strategy for Incremental {
    fn name(&self) -> &'static str {
        "incremental"
    }

    fn find(&self, trials: &mut Trials<'_>, tuner: &KernelTuner<'_>) -> Result<Found, SweepError> {
        trials.steps_are_slow();
        let (task, default) = (trials.task(), &trials.problem().default);
        // Elsewhere the reference is computed meanwhile, and waited for once something has won.
        if task.problem.limits.is_cpu {
            check_default(trials)?;
        }
        let mut peak = Peak::of(trials.incumbent().unwrap_or(default).clone());
        let mut moves = all_moves(task, tuner, &peak.best);
        loop {
            guess_fusions(task, trials.results(), &peak.best, &mut moves);
            let Some(next) = most_promising(trials, &peak, &moves) else { break };
            let mut made = moves.swap_remove(next.at);
            let gained = make(trials, tuner, &mut peak, &made, next.tuning)?;
            if matches!(made.what, What::Known(_)) {
                // What is left to change depends on what the best plan has.
                moves = all_moves(task, tuner, &peak.best);
                moves.retain(|other| !matches!(other.what, What::Known(_)));
            } else if made.is_of_kernels() {
                // Kernels can be varied further; a fusion, a layout or a chunk is there or is not.
                made.gain = AGAIN * gained.unwrap_or(made.gain);
                moves.push(made);
            }
        }
        let untried = moves.iter().filter(|other| other.gain > LEAST).map(Move::candidate);
        trials.leave_untried(untried.map(|candidate| candidate.to_string()).collect(), &peak.best)?;
        if !trials.is_gated() {
            check_default(trials)?;
        }
        let is_open = peak.best.hash() != peak.right.hash();
        if is_open && trials.passes(&peak.best, &Candidate::Winners)? {
            peak.right = peak.best;
        }
        let Peak { right, .. } = peak;
        Ok(Found { structure: right.clone(), plan: right, alone: Vec::new(), without_op: Vec::new() })
    }
}
