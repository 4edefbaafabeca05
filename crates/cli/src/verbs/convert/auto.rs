//! `--to auto`: formats that are chosen for each matrix.

use crate::failure::{Failure, WrongUsage};
use crate::options::{RunOptions, size};
use crate::progress::{Moving, note};
use bytesize::ByteSize;
use indicatif::HumanDuration;
use std::io::Read;
use std::num::{NonZeroU64, NonZeroUsize};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use wgoose_loader::adapter::AdapterSource;
use wgoose_loader::writer::{Mix, UnknownMix};
use wgoose_session::bit_allocation::{
    Allocation, AllocationError, AllocationGoal, AllocationOptions, AllocationStep, allocate,
};
use wgoose_session::eval::EvalError;
use wgoose_session::{ConvertFileOptions, VocabularyChoice};

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A mix with a name.
    Mix(Mix),
    /// A format for each matrix.
    Auto,
}

impl To {
    pub(super) fn mix(self) -> Option<Mix> {
        match self {
            To::Mix(mix) => Some(mix),
            To::Auto => None,
        }
    }
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.eq_ignore_ascii_case("auto") {
            true => Ok(To::Auto),
            false => text.parse().map(To::Mix).map_err(|e: UnknownMix| format!("{e}, auto")),
        }
    }
}

/// What formats are chosen for, and by what.
#[derive(clap::Args)]
#[command(next_help_heading = "Formats chosen for each matrix (--to auto)")]
pub(super) struct AutoOptions {
    /// Write the smallest file whose measured divergence from the source (mean KL, in nats per token) is at most this,
    /// such as 0.005.
    #[arg(long, value_name = "NATS", conflicts_with = "budget_bytes")]
    target_kl: Option<f64>,
    /// Write the file with the least divergence that is at most this size (400MiB, 2GB, ...).
    #[arg(long, value_name = "SIZE", value_parser = size)]
    budget_bytes: Option<ByteSize>,
    /// Text file to measure on, read as bytes. Default: text that the model generates.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Most tokens to measure on. More tokens are slower and more precise. Default: 1024.
    #[arg(long, value_name = "TOKENS")]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    run: RunOptions,
}

impl AutoOptions {
    /// Where models run.
    pub(super) fn run(&self) -> &RunOptions {
        &self.run
    }

    /// Most tokens that a new file is measured on.
    pub(super) fn measured_tokens(&self) -> Option<NonZeroU64> {
        NonZeroU64::try_from(self.limit.unwrap_or(AllocationOptions::TOKENS)).ok()
    }

    /// Where a GGUF file has its vocabulary from if the source has none.
    pub(super) fn vocabulary(&self) -> VocabularyChoice {
        self.run.vocab.clone().unwrap_or_default()
    }

    /// Whether tensors that no op reads are left out.
    pub(super) fn ignore_unknown(&self) -> bool {
        self.run.ignore_unknown
    }

    /// The adapter to be merged into the source.
    pub(super) fn adapter(&self) -> Option<AdapterSource> {
        self.run.adapter()
    }

    /// The formats; `None` where none are to be chosen.
    pub(super) fn allocation(
        &self,
        to: Option<To>,
        source: &Path,
        out: &Path,
        file: &ConvertFileOptions,
        is_measured: bool,
    ) -> Result<Option<Allocation>, Failure> {
        let goal = match (self.target_kl, self.budget_bytes) {
            (Some(kl), _) => Some(AllocationGoal::Divergence(kl)),
            (None, bytes) => bytes.map(|bytes| AllocationGoal::Bytes(bytes.as_u64())),
        };
        let goal = match (to == Some(To::Auto), goal) {
            (true, Some(goal)) => goal,
            (true, None) => {
                let text = "--to auto needs a goal: --target-kl NATS, or --budget-bytes SIZE";
                return Err(WrongUsage(text.into()).into());
            }
            (false, None) if self.text.is_none() && (is_measured || self.limit.is_none()) => return Ok(None),
            (false, _) => {
                let text = "--target-kl, --budget-bytes, --text and --limit choose formats: they go with --to auto";
                return Err(WrongUsage(text.into()).into());
            }
        };
        let tokens = self.limit.unwrap_or(AllocationOptions::TOKENS);
        let fail = |path: &Path, e: &dyn std::fmt::Display| Failure::from(format!("{}: {e}", path.display()));
        let mut text = match &self.text {
            Some(path) => Some(wgoose_files::open_text(path).map_err(|e| fail(path, &e))?),
            None => None,
        };
        let bar = Moving::bar(0, "{pos}/{len} {elapsed} (left: {left}) {wide_msg}")?;
        let options = AllocationOptions { goal, tokens };
        let text = text.as_mut().map(|text| text as &mut dyn Read);
        let chosen = allocate(source, out, file, &options, self.run.session()?, text, &mut |step| {
            show(&bar, step);
            ControlFlow::Continue(())
        });
        chosen.map(Some).map_err(|error| match (&self.text, error) {
            (Some(path), AllocationError::Eval(e @ (EvalError::Text(_) | EvalError::Empty))) => fail(path, &e),
            (_, other) => other.into(),
        })
    }
}

fn show(bar: &Moving, step: AllocationStep) {
    match step {
        AllocationStep::Text { done, total } => {
            bar.done_of(done as u64, total as u64);
            bar.say("tokens to measure on");
        }
        AllocationStep::Measurements { total, each } => {
            note(&estimate(total, each));
            bar.restart();
        }
        AllocationStep::Tensor { weight, format, done, total } => {
            bar.done_of(done as u64, total as u64);
            bar.say(&format!("{weight} in {format}"));
        }
        AllocationStep::Mix { bytes } => bar.say(&format!("a mix of {}", ByteSize::b(bytes))),
    }
}

/// How long the measurements take, before they begin.
fn estimate(measurements: usize, each: Duration) -> String {
    let all = HumanDuration(each.saturating_mul(measurements.try_into().unwrap_or(u32::MAX)));
    format!("{measurements} measurements, about {all} in all; fewer tokens (--limit) take less time")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_for_all_measurements() {
        let minute = Duration::from_secs(60);
        assert_eq!(
            estimate(224, minute),
            "224 measurements, about 4 hours in all; fewer tokens (--limit) take less time"
        );
        assert!(estimate(2, Duration::from_secs(10)).contains("about 20 seconds"));
    }
}
