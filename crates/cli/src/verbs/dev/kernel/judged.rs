//! Judgements of a kernel, line by line: for people, or an object a line for programs.

use crate::failure::{Failure, Judged};
use serde::Serialize;
use std::cell::RefCell;
use wgoose_kernels::{LibraryError, PlanError, TextError};
use wgoose_measure::judge::{Verdict, overall};
use wgoose_runtime::RuntimeError;
use wgoose_runtime::kernel_bench::property::DrawnCase;

/// One thing that was found.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Judgement {
    /// `op/variant`.
    pub(super) kernel: String,
    pub(super) verdict: Verdict,
    /// What it is about: `check`, `time` or, last, `all`.
    pub(super) about: &'static str,
    /// Why, in words.
    pub(super) reason: String,
    /// What the random numbers were drawn with.
    pub(super) seed: u64,
    /// The file that is to blame, below the folder of kernels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<usize>,
    /// The smallest case that fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) case: Option<DrawnCase>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) timed: Option<TimedBeside>,
}

/// Times of a kernel at an op instance, beside the fastest other variant there.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TimedBeside {
    pub(super) instance: String,
    /// Tokens of each sequence in the pass, and its sequences.
    pub(super) tokens: u32,
    pub(super) sequences: u32,
    /// The configuration that was found to be best.
    pub(super) config: String,
    pub(super) us: f64,
    pub(super) gb_per_s: f64,
    /// What it is compared with.
    pub(super) beside: Option<String>,
    /// How many times as fast as that, with its interval at 95 % confidence.
    pub(super) times_as_fast: Option<f64>,
    pub(super) interval: Option<[f64; 2]>,
    pub(super) pairs: usize,
}

/// Says what is found, and remembers it.
pub(super) struct Judge {
    is_json: bool,
    pub(super) seed: u64,
    said: RefCell<Vec<(String, Verdict)>>,
}

impl Judge {
    pub(super) fn new(is_json: bool, seed: u64) -> Self {
        Judge { is_json, seed, said: RefCell::default() }
    }

    /// Whether a program reads what is printed.
    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    /// A judgement without times.
    pub(super) fn plain(&self, kernel: &str, verdict: Verdict, reason: String) -> Judgement {
        let (kernel, seed) = (kernel.to_owned(), self.seed);
        Judgement { kernel, verdict, about: "check", reason, seed, file: None, line: None, case: None, timed: None }
    }

    /// Prints it for a program; a person has read it already.
    pub(super) fn say(&self, judgement: &Judgement) -> Result<(), Failure> {
        self.said.borrow_mut().push((judgement.kernel.clone(), judgement.verdict));
        if self.is_json {
            outln!("{}", serde_json::to_string(judgement)?);
        }
        Ok(())
    }

    /// Of all that was said: the worst where something is wrong, else the best.
    pub(super) fn end(&self, kernel: Option<&str>) -> Result<(), Failure> {
        let said = self.said.borrow();
        let wrong: Vec<&(String, Verdict)> = said.iter().filter(|(_, verdict)| !verdict.is_right()).collect();
        let verdicts: Vec<Verdict> = said.iter().map(|(_, verdict)| *verdict).collect();
        let Some(verdict) = overall(&verdicts) else { return Ok(()) };
        if self.is_json
            && let Some(kernel) = kernel
        {
            let reason = match verdict.is_right() {
                false => "something is wrong",
                true => "the best of its verdicts where it was timed",
            };
            let all = Judgement { about: "all", ..self.plain(kernel, verdict, reason.to_owned()) };
            outln!("{}", serde_json::to_string(&all)?);
        }
        let mut names: Vec<&str> = wrong.iter().map(|(kernel, _)| kernel.as_str()).collect();
        names.dedup();
        match verdict {
            Verdict::Refused if kernel.is_none() => Ok(()),
            Verdict::Faster => Ok(()),
            right if right.is_right() && !self.is_json => Ok(()),
            right if right.is_right() => Err(Judged { verdict, why: String::new() }.into()),
            _ => Err(Judged { verdict, why: format!("{verdict}: {}", names.join(", ")) }.into()),
        }
    }
}

/// The verdict about a kernel that an error stands for, and the file and line to blame; `None` where the error is not
/// the kernel's.
pub(super) fn blamed(error: &RuntimeError) -> Option<(Verdict, Option<&TextError>)> {
    Some(match error {
        RuntimeError::TimedOut { .. } => (Verdict::Timeout, None),
        RuntimeError::DeviceLost { .. } | RuntimeError::OutOfMemory { .. } => (Verdict::Crashed, None),
        RuntimeError::Compile { .. } => (Verdict::Refused, None),
        RuntimeError::Plan(PlanError::Text(text)) => (Verdict::Refused, Some(text)),
        _ => return None,
    })
}

/// The file that a folder of kernels has wrong.
pub(super) fn broken_file(error: &LibraryError) -> Option<&TextError> {
    match error {
        LibraryError::Text(text) => Some(text),
        LibraryError::Folder(_) => None,
    }
}

impl Judgement {
    /// With the file and the line to blame.
    pub(super) fn at(self, text: &TextError) -> Self {
        Judgement { file: Some(format!("{}.wgsl", text.path)), line: Some(text.line), ..self }
    }
}
