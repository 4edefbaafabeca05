//! Seeds that are not measured: each is named, with the reason.

use crate::seeds::SeedRefusal;
use crate::sweep::trials::Trials;
use crate::sweep::{Note, SweepError};
use wgoose_measure::ledger::{Cause, Reason};
use wgoose_measure::seed::Seed;

/// Records seeds that are not measured, or not everywhere that they fit, and says so.
pub(in crate::sweep) fn report_refused(
    trials: &mut Trials<'_>,
    refused: Vec<(&Seed, SeedRefusal)>,
) -> Result<(), SweepError> {
    for (seed, refusal) in refused {
        let reason = Reason { cause: Cause::Constraint, text: format!("seed: {refusal}") };
        trials.jobs().refuse(None, &seed.to_string(), [1, 1], reason)?;
        trials.note(Note::Seed { seed: seed.to_string(), refusal: refusal.to_string() })?;
    }
    Ok(())
}
