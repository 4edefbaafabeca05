//! Events of a sweep, for its listener.

use super::error::SweepError;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Feature, Precision, TextError, ops};
use wgoose_measure::ledger;
use wgoose_measure::paired::PairedResult;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::InstanceGroup;
use wgoose_measure::stats::verdict::Verdict;

/// Tells the caller what happens; the sweep ends with [`SweepError::Stopped`] where it breaks.
pub type Listener<'a> = &'a mut dyn FnMut(Event) -> ControlFlow<()>;

pub(super) fn tell(listen: Listener<'_>, event: Event) -> Result<(), SweepError> {
    if listen(event).is_break() { Err(SweepError::Stopped) } else { Ok(()) }
}

/// What happens in a sweep. Its text is one line for people.
#[derive(Debug)]
pub enum Event {
    /// A stage begins.
    Stage {
        /// Which.
        stage: Stage,
        /// How many steps it has.
        steps: usize,
    },
    /// Something is about to be tried.
    Trying(Candidate),
    /// A step of the stage is done.
    Done(SweepStep),
    /// The search waited so long for the reference. Its budget is that much longer.
    Waited(Duration),
    /// The search is over; confirming what it found takes about so long.
    Ending(Duration),
    /// The best confirmed plan is another one now.
    Best {
        /// The scenario that it speeds up.
        scenario: Scenario,
        /// How many times as fast as the default it is there.
        gain: f64,
    },
    /// Something the user should know.
    Note(Note),
}

/// A part of a sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The plan in use against the default.
    InUse,
    /// What is right.
    Reference,
    /// Layouts, chunk and fusions.
    Structure,
    /// What each kind of op instance costs with default kernels.
    Costs,
    /// Kernels, alone.
    Kernels,
    /// Kernels as stages of persistent kernels.
    Persistent,
    /// The tuned plan against the default.
    Confirm,
}

impl SweepStep {
    /// What an instance takes.
    pub(super) fn cost(group: &InstanceGroup, ns: f64) -> Self {
        let flops = (ops::kernels(&group.instance.op).flops)(&group.instance) as f64;
        let (gbytes, gflops) = (group.instance.bytes() as f64 / ns, flops / ns);
        SweepStep::Cost { key: group.key.clone(), ns, gbytes, gflops }
    }
}

/// A step that is done, and its result.
#[derive(Clone, Debug)]
pub enum SweepStep {
    /// The default plan passed the gate.
    Reference {
        /// The quality hash.
        hash: String,
        /// What the gate found.
        detail: String,
    },
    /// A candidate failed the gate.
    Wrong {
        /// The candidate.
        candidate: Candidate,
        /// What the gate found.
        detail: String,
    },
    /// The persistent kernel that a candidate asks for did not run while it was timed.
    NotRun {
        /// The candidate.
        candidate: Candidate,
        /// Why.
        why: String,
    },
    /// A few samples of a candidate were so slow that it was not compared.
    Screened {
        /// The candidate.
        candidate: Candidate,
        /// What was timed.
        scenario: Scenario,
        /// How many times as fast it was.
        gain: f64,
    },
    /// What is known of the kernels of a candidate says that a comparison would not find it faster.
    Unpromising {
        /// The candidate.
        candidate: Candidate,
        /// What is known.
        why: String,
    },
    /// Other kernels were screened by whole steps.
    Moves {
        /// How many steps.
        screened: usize,
        /// Those that a few samples say are faster.
        promising: usize,
    },
    /// A candidate was compared with the best plan so far.
    Compared {
        /// The candidate.
        candidate: Candidate,
        /// One comparison per scenario.
        timed: Vec<Timed>,
    },
    /// The cost of one kind of op instance.
    Cost {
        /// The kind.
        key: TuningKey,
        /// Nanoseconds of one instance.
        ns: f64,
        /// Gigabytes per second.
        gbytes: f64,
        /// Gigaflops per second.
        gflops: f64,
    },
    /// Ops that no pass of the plan has, by name: their kernels are not tuned.
    WithoutOps(Vec<String>),
    /// The kernel of one kind of op instance was tuned.
    Kernel {
        /// The kind.
        key: TuningKey,
        /// What beat the default, if anything did.
        winner: Option<Choice>,
        /// How many times as fast the best was in its first samples.
        gain: f64,
        /// Candidates measured.
        tried: usize,
    },
    /// The device has no persistent kernels.
    NotPersistent(Feature),
    /// Persistent kernels cannot win on a CPU that plays the device, and take a minute to compile.
    NotWorthTrying,
    /// No stages of a width make a persistent kernel.
    NoStages {
        /// Threads of a workgroup.
        threads: u32,
        /// Why.
        why: String,
    },
    /// No kernel of a scenario was tuned, so that there is nothing to compare.
    Untuned(Scenario),
    /// The tuned plan reads a prompt by the kernels of the default: there is nothing to compare.
    Alike(Scenario),
    /// The tuned plan is the default plan.
    NothingFaster,
    /// The tuned plan was compared with the default.
    Tuned(Timed),
}

/// A plan that challenges the best so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// One change of its structure, by name.
    Change(String),
    /// Stages, as one dispatch per op.
    PerOp {
        /// Threads of a workgroup.
        threads: u32,
    },
    /// Stages, as persistent kernels.
    Persistent {
        /// Threads of a workgroup.
        threads: u32,
        /// Workgroups.
        workgroups: u32,
    },
    /// Other kernels, chosen by whole steps.
    Move(Vec<Choice>),
    /// All kernels that were tuned for a scenario.
    Kernels(Scenario),
    /// The plan in use.
    InUse,
    /// The plan made of all winners.
    Winners,
    /// All that won for decoding, prompts as in the plan in use.
    DecodeBesideInUse,
    /// All that won for decoding, prompts as by default.
    Decode,
    /// The default kernels with the layouts, chunk and fusions that won.
    Structure,
}

/// A comparison of two plans.
#[derive(Clone, Debug)]
pub struct Timed {
    /// What was timed.
    pub scenario: Scenario,
    /// The samples.
    pub result: PairedResult,
    /// What counts: the verdict of the held-out samples where there are any.
    pub verdict: Verdict,
}

/// Something the user should know.
#[derive(Debug)]
pub enum Note {
    /// The ledger was damaged.
    Ledger(ledger::Notice),
    /// A kernel file is wrong.
    BrokenFile(TextError),
    /// A variant's text is wrong.
    BrokenVariant(TextError),
    /// A configuration that was proposed from outside does not fit.
    Seed {
        /// The configuration.
        seed: String,
        /// Why.
        refusal: String,
    },
    /// Changes that no time was left for, by name.
    Untried(Vec<String>),
    /// A kernel file that the user brought along was never tried.
    NeverTried {
        /// Its path below the folder.
        file: String,
        /// Why.
        reason: String,
    },
    /// The device's speed changed by this share.
    Drift(f64),
    /// Why kernels are timed by wall clock.
    WallClock(String),
    /// A kernel is right alone, and wrong in the whole model: it is left out.
    Guilty {
        /// `op/variant`.
        kernel: String,
        /// What the gate found.
        detail: String,
    },
    /// Kernels that round too much for the model are dropped.
    Dropped {
        /// The arithmetic.
        precision: Precision,
        /// What the gate found.
        detail: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Stage { stage, steps } => write!(f, "{stage}: {steps} steps"),
            Event::Trying(candidate) => write!(f, "{candidate}"),
            Event::Done(step) => step.fmt(f),
            Event::Waited(time) => {
                let seconds = time.as_secs_f64();
                write!(
                    f,
                    "waited {seconds:.0} s for the CPU reference, beside the budget; it is kept for the next time"
                )
            }
            Event::Ending(left) => write!(f, "about {:.0} s are left", left.as_secs_f64()),
            Event::Best { scenario, gain } => write!(f, "best so far: {scenario} x{gain:.2}"),
            Event::Note(note) => write!(f, "note: {note}"),
        }
    }
}

impl Stage {
    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::InUse => "incumbent plan against the default",
            Stage::Reference => "reference",
            Stage::Structure => "layouts, chunk and fusions",
            Stage::Costs => "cost of each kind of op instance",
            Stage::Kernels => "kernels",
            Stage::Persistent => "megakernels",
            Stage::Confirm => "tuned plan against the default",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for SweepStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepStep::Reference { hash, detail } => write!(f, "quality hash {hash}: {detail}"),
            SweepStep::Wrong { candidate, detail } => write!(f, "{candidate}: WRONG ({detail})"),
            SweepStep::NotRun { candidate, why } => write!(f, "{candidate}: did not run ({why})"),
            SweepStep::Screened { candidate, scenario, gain } => {
                write!(f, "{candidate}: SLOW ({scenario} x{gain:.2} in a few samples)")
            }
            SweepStep::Unpromising { candidate, why } => write!(f, "{candidate}: not compared ({why})"),
            SweepStep::Moves { screened, promising } => {
                write!(f, "in whole steps: {screened} choices of kernels looked at, {promising} promising")
            }
            SweepStep::Compared { candidate, timed } => {
                write!(f, "{candidate}: ")?;
                for (i, timed) in timed.iter().enumerate() {
                    write!(f, "{}{timed}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            SweepStep::Cost { key, ns, gbytes, gflops } => {
                write!(f, "{key}: {:.1} us, {gbytes:.1} GB/s, {gflops:.1} GFLOP/s", ns / 1e3)
            }
            SweepStep::WithoutOps(ops) => write!(f, "in no pass of the plan, and so not tried: {}", ops.join(", ")),
            SweepStep::Kernel { key, winner: Some(choice), gain, tried } => {
                write!(f, "{key}: {choice} (x{gain:.2}, {tried} tried)")
            }
            SweepStep::Kernel { key, winner: None, tried, .. } => write!(f, "{key}: default stays ({tried} tried)"),
            SweepStep::NotPersistent(missing) => write!(f, "none: the device has no {missing}"),
            SweepStep::NotWorthTrying => f.write_str("not tried: they cannot win on a device that a CPU emulates"),
            SweepStep::NoStages { threads, why } => write!(f, "stages of {threads} threads: none ({why})"),
            SweepStep::Untuned(scenario) => write!(f, "{scenario}: default kernels"),
            SweepStep::Alike(scenario) => write!(f, "{scenario}: the kernels of the default, not compared"),
            SweepStep::NothingFaster => f.write_str("nothing was faster: the plan is the default"),
            SweepStep::Tuned(timed) => write!(f, "tuned plan: {timed}"),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Candidate::Change(name) => f.write_str(name),
            Candidate::PerOp { threads } => write!(f, "stages of {threads} threads, one dispatch per op"),
            Candidate::Persistent { threads, workgroups } => {
                write!(f, "megakernel of {workgroups} workgroups of {threads} threads")
            }
            Candidate::InUse => f.write_str("the incumbent plan"),
            Candidate::Winners => f.write_str("all winners"),
            Candidate::DecodeBesideInUse => f.write_str("all winners for decode, prefill as in the incumbent plan"),
            Candidate::Decode => f.write_str("all winners for decode"),
            Candidate::Structure => f.write_str("default kernels with the other winners"),
            Candidate::Move(choices) => {
                f.write_str("other kernels")?;
                choices.iter().try_for_each(|choice| write!(f, ", {}: {choice}", choice.key))
            }
            Candidate::Kernels(scenario) => write!(f, "tuned kernels in {scenario}"),
        }
    }
}

impl fmt::Display for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Timed { scenario, result, verdict } = self;
        let (before, after) = (result.incumbent_ns / 1e3, result.candidate_ns / 1e3);
        let interval = result.comparison.interval;
        write!(
            f,
            "{verdict} ({scenario} {before:.0} -> {after:.0} us, x{:.2} to x{:.2} over {} pairs)",
            interval.low.exp(),
            interval.high.exp(),
            result.comparison.pairs
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Ledger(notice @ ledger::Notice::Torn { .. }) => {
                write!(f, "ledger: an interrupted write was set aside: {notice}")
            }
            Note::Ledger(notice) => write!(f, "ledger: a line was skipped: {notice}"),
            Note::BrokenFile(error) => write!(f, "a file is left out: {error}"),
            Note::BrokenVariant(error) => write!(f, "a variant is left out: {error}"),
            Note::Seed { seed, refusal } => write!(f, "seed {seed}: {refusal}"),
            Note::Untried(names) => write!(f, "out of time, not tried: {}", names.join(", ")),
            Note::NeverTried { file, reason } => write!(f, "never tried: {file}: {reason}"),
            Note::Drift(share) => write!(
                f,
                "the device's speed changed by {:.0} % while kernels were tuned; comparisons are interleaved and remain valid",
                100.0 * share
            ),
            Note::WallClock(doubt) => write!(f, "kernels are timed by wall clock: {doubt}"),
            Note::Guilty { kernel, detail } => {
                write!(f, "{kernel} is wrong in the whole model and is left out: {detail}")
            }
            Note::Dropped { precision, detail } => write!(f, "kernels with {precision} are dropped: {detail}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wgoose_measure::stats::Interval;
    use wgoose_measure::stats::verdict::Comparison;

    #[test]
    fn an_event_is_a_line() {
        let interval = Interval { low: 1.1f64.ln(), high: 1.2f64.ln() };
        let comparison = Comparison { verdict: Verdict::Fast, log_ratio: 0.14, interval, pairs: 12 };
        let result = PairedResult { comparison, incumbent_ns: 20_000.0, candidate_ns: 17_000.0 };
        let timed = |scenario, verdict| Timed { scenario, result: result.clone(), verdict };
        let timed = vec![timed(Scenario::DECODE, Verdict::Fast), timed(Scenario::prefill(64), Verdict::Same)];
        let candidate = Candidate::Persistent { threads: 256, workgroups: 8 };
        let lines = [
            Event::Stage { stage: Stage::Persistent, steps: 3 },
            Event::Done(SweepStep::Wrong { candidate: candidate.clone(), detail: "rms 1".to_owned() }),
            Event::Done(SweepStep::Compared { candidate, timed }),
            Event::Note(Note::Untried(vec!["chunk 64".to_owned(), "chunk 256".to_owned()])),
        ];
        assert_eq!(
            lines.map(|event| event.to_string()),
            [
                "megakernels: 3 steps",
                "megakernel of 8 workgroups of 256 threads: WRONG (rms 1)",
                "megakernel of 8 workgroups of 256 threads: \
                 FAST (decode 20 -> 17 us, x1.10 to x1.20 over 12 pairs); \
                 SAME (prefill of 64 20 -> 17 us, x1.10 to x1.20 over 12 pairs)",
                "note: out of time, not tried: chunk 64, chunk 256",
            ]
        );
    }
}
