//! A run of named steps: a heading before each, and at the end what passed, failed or was left out, and how long it took.

use crate::shell::{Error, Result};
use std::time::{Duration, Instant};

/// How a step ended.
enum Outcome {
    Passed(Duration),
    Failed(Duration, Error),
    Skipped(&'static str),
}

/// The steps so far, in order.
#[derive(Default)]
pub(crate) struct Steps(Vec<(&'static str, Outcome)>);

impl Steps {
    /// Runs a step and keeps its outcome; the result, unless it failed.
    pub(crate) fn run<T>(&mut self, name: &'static str, step: impl FnOnce() -> Result<T>) -> Option<T> {
        println!("\n== {name}");
        let start = Instant::now();
        let result = step();
        let took = start.elapsed();
        match result {
            Ok(value) => {
                self.0.push((name, Outcome::Passed(took)));
                Some(value)
            }
            Err(error) => {
                println!("{name} failed: {error}");
                self.0.push((name, Outcome::Failed(took, error)));
                None
            }
        }
    }

    /// Notes a step that is left out, with the reason.
    pub(crate) fn skip(&mut self, name: &'static str, reason: &'static str) {
        println!("\n== {name}\nskipped: {reason}");
        self.0.push((name, Outcome::Skipped(reason)));
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// Names the steps that failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n== summary\n{}", self.summary());
        let failed = self.0.iter().filter(|(_, outcome)| matches!(outcome, Outcome::Failed(..)));
        let failed: Vec<_> = failed.map(|(name, _)| *name).collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::Other(format!("failed: {}", failed.join(", ")))) }
    }

    fn summary(&self) -> String {
        let lines = self.0.iter().map(|(name, outcome)| match outcome {
            Outcome::Passed(took) => format!("{name:<16} {:>7.1} s  ok", took.as_secs_f64()),
            Outcome::Failed(took, error) => format!("{name:<16} {:>7.1} s  FAILED: {error}", took.as_secs_f64()),
            Outcome::Skipped(reason) => format!("{name:<16} {:>9}  skipped: {reason}", "-"),
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_remembered_and_later_steps_still_run() {
        let mut steps = Steps::default();
        assert!(steps.run("one", || Err::<(), _>(Error::Other("broken".into()))).is_none());
        assert_eq!(steps.run("two", || Ok(2)), Some(2));
        steps.skip("three", "--no-three");
        let summary = steps.summary();
        assert!(summary.contains("FAILED: broken") && summary.contains("skipped: --no-three"), "{summary}");
        assert_eq!(steps.finish().unwrap_err().to_string(), "failed: one");
    }

    #[test]
    fn success_and_skips_are_no_failure() {
        let mut steps = Steps::default();
        steps.run("one", || Ok(()));
        steps.skip("two", "not today");
        assert!(steps.finish().is_ok());
    }
}
