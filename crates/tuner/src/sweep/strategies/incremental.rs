//! The search where whole steps are slow: a win is confirmed and kept at once, and what is tried next is what should gain the most in a
//! second.
//!
//! A *move* changes how one scenario runs: its kernels, a fusion, the layout of a format, the chunk. Its op instances
//! are tuned alone for a while, then the plan is compared with the incumbent in that scenario, by samples that stop as
//! soon as it is faster or cannot be, then with the default. Scenarios that the move leaves alone need no samples. The
//! expected gain of a move is a guess at first, and half of its last gain after that; its expected time follows from
//! the times seen on this device.

use super::{Found, Strategy};
use crate::kernel_tuning::KernelTuner;
use crate::seeds::Planted;
use crate::sweep::stages::moves::fitting::LEAST;
use crate::sweep::stages::moves::possible::{Move, What};
use crate::sweep::{Candidate, Event, Sweep, SweepError, SweepStep, tell};
use std::time::Duration;
use wgoose_kernels::Plan;

/// The search where whole steps are slow.
#[derive(Debug)]
pub(in crate::sweep) struct Incremental;

impl Strategy for Incremental {
    fn name(&self) -> &'static str {
        "incremental"
    }

    fn find(&self, sweep: &mut Sweep<'_>, planted: &Planted) -> Result<Found, SweepError> {
        // One process confirms what was found: others take the time of a search.
        sweep.ends.is_short = true;
        sweep.gates_are_narrow = true;
        // Elsewhere the reference is computed meanwhile, and waited for once something has won.
        if sweep.problem.limits.is_cpu {
            sweep.check_default()?;
        }
        let tuner = sweep.tuner().with_seeds(planted);
        let best = sweep.in_use.clone().unwrap_or_else(|| sweep.default.clone());
        let mut climb = Climb { sweep, tuner, right: best.clone(), best, moves: Vec::new() };
        climb.moves = climb.all_moves();
        climb.run()?;
        climb.check_default()?;
        if climb.best.hash() != climb.right.hash() && climb.sweep.passes(&climb.best, &Candidate::Winners)? {
            climb.right = climb.best;
        }
        Ok(Found { structure: climb.right.clone(), plan: climb.right, alone: Vec::new() })
    }
}

/// Of what a move gained, the part that it may gain when it is made again; of what it was guessed to gain, where it gained nothing.
const AGAIN: f64 = 0.5;

/// Kernels that gain less by their own times are not compared yet: others beside them may make the comparison worth its time.
const WORTH_COMPARING: f64 = 0.03;

/// A search that is under way.
pub(in crate::sweep) struct Climb<'s, 'a, 't> {
    pub(in crate::sweep) sweep: &'s mut Sweep<'a>,
    pub(in crate::sweep) tuner: KernelTuner<'t>,
    /// The best by comparisons.
    pub(in crate::sweep) best: Plan,
    /// The best that passed the gate.
    pub(in crate::sweep) right: Plan,
    pub(in crate::sweep) moves: Vec<Move>,
}

impl Climb<'_, '_, '_> {
    /// Makes moves for as long as there is one that fits into what is left of the time.
    fn run(&mut self) -> Result<(), SweepError> {
        loop {
            self.guess_fusions();
            let fitting = self.fitting(self.left());
            let next = fitting.into_iter().max_by(|(_, a, _), (_, b, _)| a.total_cmp(b));
            let Some((next, _, tuning)) = next else { break };
            let mut made = self.moves.swap_remove(next);
            let gained = self.make(&made, Duration::from_secs_f64(tuning.max(0.0)))?;
            if matches!(made.what, What::Known(_)) {
                // What is left to change depends on what the best plan has.
                self.moves = self.all_moves();
                self.moves.retain(|other| !matches!(other.what, What::Known(_)));
                continue;
            }
            // Kernels can be varied further; a fusion, a layout or a chunk is there or is not.
            if made.is_of_kernels() {
                made.gain = AGAIN * gained.unwrap_or(made.gain);
                self.moves.push(made);
            }
        }
        let untried = self.moves.iter().filter(|made| made.gain > LEAST);
        let untried = untried.map(|made| made.candidate().to_string()).collect();
        self.sweep.leave_untried(untried, &self.best)
    }

    /// Makes a move: the logarithm of how many times as fast its scenario became, if the plan is the best now.
    fn make(&mut self, made: &Move, time: Duration) -> Result<Option<f64>, SweepError> {
        let candidate = made.candidate();
        tell(self.sweep.listen, Event::Trying(candidate.clone()))?;
        let mut plan = self.changed(made);
        if let What::Known(known) = &made.what {
            self.adopt_known(&mut plan, known, made.scenario)?;
            return self.keep(plan, made, candidate);
        }
        let is_of_kernels = made.is_of_kernels();
        let all = |plan: &Plan| self.sites(plan, made.scenario);
        let sites = if is_of_kernels { all(&plan) } else { self.new_sites(&plan, made.scenario) };
        let has_kernels = !time.is_zero() && !sites.is_empty();
        let predicted = if has_kernels { self.tune(&mut plan, sites, made.scenario, time)? } else { 0.0 };
        if is_of_kernels && predicted < WORTH_COMPARING {
            let why = format!("x{:.2} by its kernels alone", predicted.exp());
            self.sweep.done(SweepStep::Unpromising { candidate, why })?;
            return Ok(None);
        }
        self.keep(plan, made, candidate)
    }

    /// The best plan with what a move changes, but for kernels.
    pub(in crate::sweep) fn changed(&self, made: &Move) -> Plan {
        let mut plan = self.best.clone();
        match &made.what {
            What::Kernels => {}
            What::Change(change) => (change.apply)(&mut plan),
            What::Known(known) => plan = self.with_structure_of(known),
        }
        plan
    }
}
