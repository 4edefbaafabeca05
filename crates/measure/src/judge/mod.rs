//! Verdicts for programs, about a kernel, a plan or an arm: one word of a closed set, with an exit code.

use crate::ledger::Cause;
use crate::stats;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One word about a candidate beside its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Right, and surely faster by 2 % at least.
    Faster,
    /// Right, and surely no difference of 2 %.
    Same,
    /// Right, and the samples do not say which is faster.
    Unsure,
    /// Right, and surely slower by 2 % at least.
    Slower,
    /// It was not run: it does not compile, or does not take this shape, format or device.
    Refused,
    /// Its numbers are wrong.
    Wrong,
    /// It races, reads what nobody wrote, leaves a bound, or depends on an order that nothing promises.
    Race,
    /// It took less time than reading its operands or computing takes on this device.
    Impossible,
    /// It took the device, the memory or the process with it.
    Crashed,
    /// It did not end in time.
    Timeout,
}

impl Verdict {
    /// Every verdict, from the best to the worst.
    pub const ALL: [Verdict; 10] = [
        Verdict::Faster,
        Verdict::Same,
        Verdict::Unsure,
        Verdict::Slower,
        Verdict::Refused,
        Verdict::Wrong,
        Verdict::Race,
        Verdict::Impossible,
        Verdict::Crashed,
        Verdict::Timeout,
    ];

    /// Whether the candidate may be used.
    pub fn is_right(self) -> bool {
        self <= Verdict::Slower
    }

    /// The exit code of a command that prints JSON and ends with it. 1 and 2 are those of other failures and of wrong
    /// usage.
    pub const fn exit_code(self) -> u8 {
        match self {
            Verdict::Faster => 0,
            Verdict::Same => 10,
            Verdict::Unsure => 11,
            Verdict::Slower => 12,
            Verdict::Refused => 20,
            Verdict::Wrong => 21,
            Verdict::Race => 22,
            Verdict::Impossible => 23,
            Verdict::Crashed => 24,
            Verdict::Timeout => 25,
        }
    }
}

/// One verdict for several: the worst where something is wrong, else the best.
pub fn overall(verdicts: &[Verdict]) -> Option<Verdict> {
    let worst = verdicts.iter().copied().filter(|verdict| !verdict.is_right()).max();
    worst.or(verdicts.iter().copied().min())
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verdict::Faster => "FASTER",
            Verdict::Same => "SAME",
            Verdict::Unsure => "UNSURE",
            Verdict::Slower => "SLOWER",
            Verdict::Refused => "REFUSED",
            Verdict::Wrong => "WRONG",
            Verdict::Race => "RACE",
            Verdict::Impossible => "IMPOSSIBLE",
            Verdict::Crashed => "CRASHED",
            Verdict::Timeout => "TIMEOUT",
        })
    }
}

impl From<stats::Verdict> for Verdict {
    fn from(verdict: stats::Verdict) -> Self {
        match verdict {
            stats::Verdict::Fast => Verdict::Faster,
            stats::Verdict::Slow => Verdict::Slower,
            stats::Verdict::Same => Verdict::Same,
            stats::Verdict::Ambiguous => Verdict::Unsure,
        }
    }
}

impl From<Cause> for Verdict {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Constraint | Cause::Compile | Cause::NotResident => Verdict::Refused,
            Cause::WrongResult => Verdict::Wrong,
            Cause::Race => Verdict::Race,
            Cause::Impossible => Verdict::Impossible,
            Cause::Timeout => Verdict::Timeout,
            Cause::Runtime | Cause::OutOfMemory | Cause::DeviceLost | Cause::Crash => Verdict::Crashed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn one_that_is_wrong_counts_before_all_others() {
        use Verdict::{Faster, Race, Same, Wrong};
        assert_eq!(overall(&[]), None);
        assert_eq!(overall(&[Same, Faster]), Some(Faster));
        assert_eq!(overall(&[Faster, Wrong, Race, Same]), Some(Race));
    }

    #[test]
    fn every_verdict_has_a_code_of_its_own_that_no_other_failure_has() {
        let codes: BTreeSet<u8> = Verdict::ALL.iter().map(|verdict| verdict.exit_code()).collect();
        assert_eq!(codes.len(), Verdict::ALL.len());
        assert!(!codes.contains(&1) && !codes.contains(&2) && codes.iter().all(|code| *code < 126));
        for verdict in Verdict::ALL {
            let text = serde_json::to_string(&verdict).unwrap();
            assert_eq!(text, format!("\"{verdict}\""));
            assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
        }
    }
}
