//! Blame: where the kernels that won do not pass the gate together, the guilty ones are found by halving, and the
//! others stay.

use crate::sweep::trials::Trials;
use crate::sweep::{Note, SweepError};
use wgoose_kernels::Plan;
use wgoose_kernels::plan::Choice;
use wgoose_measure::result_cache::TrialError;

/// What a gate says.
#[derive(Clone, Debug, PartialEq)]
enum Judged {
    Passed,
    /// Why not.
    Failed(String),
    OutOfTime,
}

/// Takes the kernels that are to blame out of a plan that does not pass the gate, and names them. A plan that does not
/// pass without any kernels of its own stays as it is: something else is to blame.
pub(in crate::sweep) fn drop_guilty(trials: &mut Trials<'_>, plan: &mut Plan) -> Result<(), SweepError> {
    if plan.choices.is_empty() || !matches!(judged(trials, plan)?, Judged::Failed(_)) {
        return Ok(());
    }
    let bare = Plan { choices: Vec::new(), ..plan.clone() };
    if judged(trials, &bare)? != Judged::Passed {
        return Ok(());
    }
    let with = |choices: &[Choice]| Plan { choices: choices.to_vec(), ..bare.clone() };
    let (mut kept, mut guilty) = (Vec::new(), Vec::new());
    keep_innocent(&mut kept, &plan.choices, &mut guilty, &mut |choices| judged(trials, &with(choices)))?;
    *plan = with(&kept);
    for (choice, detail) in guilty {
        trials.note(Note::Guilty { kernel: format!("{}/{}", choice.key.op, choice.variant), detail })?;
    }
    Ok(())
}

/// Adds to what passes those of `all` with which it still passes: all, none of one, or what is left of each half. What
/// there is no time for is not added.
fn keep_innocent<T: Clone, E>(
    kept: &mut Vec<T>,
    all: &[T],
    guilty: &mut Vec<(T, String)>,
    judged: &mut dyn FnMut(&[T]) -> Result<Judged, E>,
) -> Result<(), E> {
    if all.is_empty() {
        return Ok(());
    }
    let whole = [&kept[..], all].concat();
    match (judged(&whole)?, all) {
        (Judged::Passed, _) => *kept = whole,
        (Judged::OutOfTime, _) => {}
        (Judged::Failed(detail), [one]) => guilty.push((one.clone(), detail)),
        (Judged::Failed(_), _) => {
            let (first, second) = all.split_at(all.len() / 2);
            keep_innocent(kept, first, guilty, judged)?;
            keep_innocent(kept, second, guilty, judged)?;
        }
    }
    Ok(())
}

fn judged(trials: &mut Trials<'_>, plan: &Plan) -> Result<Judged, SweepError> {
    Ok(match trials.gate(plan) {
        Ok(gate) if gate.passed => Judged::Passed,
        Ok(gate) => Judged::Failed(gate.detail),
        Err(TrialError::Failed(reason)) => Judged::Failed(reason.to_string()),
        Err(TrialError::OutOfTime) => Judged::OutOfTime,
        Err(error) => return Err(error.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is kept of so many with some wrong ones, which are wrong alone or in a pair; those blamed; how many looks
    /// it took.
    fn found(count: u32, wrong: &[u32], pair: Option<[u32; 2]>, looks: usize) -> (Vec<u32>, Vec<u32>, usize) {
        let (mut kept, mut guilty, mut looked) = (Vec::new(), Vec::new(), 0);
        let all: Vec<u32> = (0..count).collect();
        let mut judge = |some: &[u32]| -> Result<Judged, ()> {
            looked += 1;
            let is_pair = pair.is_some_and(|pair| pair.iter().all(|one| some.contains(one)));
            Ok(match some.iter().any(|one| wrong.contains(one)) || is_pair {
                _ if looked > looks => Judged::OutOfTime,
                true => Judged::Failed("wrong".to_owned()),
                false => Judged::Passed,
            })
        };
        keep_innocent(&mut kept, &all, &mut guilty, &mut judge).unwrap();
        (kept, guilty.into_iter().map(|(one, _)| one).collect(), looked)
    }

    proptest! {
        #[test]
        fn the_wrong_ones_go_and_all_others_stay(count in 1u32..40, wrong in prop::collection::btree_set(0u32..40, 0..4)) {
            let wrong: Vec<u32> = wrong.into_iter().filter(|one| *one < count).collect();
            let (kept, guilty, looks) = found(count, &wrong, None, usize::MAX);
            prop_assert_eq!(&guilty, &wrong);
            prop_assert_eq!(kept, (0..count).filter(|one| !wrong.contains(one)).collect::<Vec<_>>());
            prop_assert!(looks <= 1 + wrong.len() * 2 * (count.ilog2() as usize + 2), "{looks} looks");
        }

        #[test]
        fn of_two_that_are_wrong_together_one_stays(first in 0u32..20, second in 0u32..20) {
            prop_assume!(first != second);
            let (kept, guilty, _) = found(20, &[], Some([first, second]), usize::MAX);
            prop_assert_eq!((kept.len(), guilty), (19, vec![first.max(second)]));
        }

        #[test]
        fn what_there_is_no_time_for_is_not_kept(looks in 0usize..12) {
            let (kept, _, _) = found(30, &[7, 21], None, looks);
            prop_assert!(!kept.contains(&7) && !kept.contains(&21));
        }
    }
}
