//! A run of named steps: a heading before each, and at the end what passed, failed or was left out, and how long it took.

use crate::shell::{Error, Result};
use std::time::{Duration, Instant};

/// How a step ended.
enum Outcome {
    Passed(Duration),
    Failed(Duration, Error),
    Skipped(String),
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
        self.note(name, start.elapsed(), result)
    }

    /// Runs a step where it can be prepared, or says why it cannot be.
    pub(crate) fn run_where<T>(
        &mut self,
        name: &'static str,
        prepare: impl FnOnce() -> std::result::Result<T, String>,
        step: impl FnOnce(T) -> Result<()>,
    ) {
        println!("\n== {name}");
        let start = Instant::now();
        match prepare() {
            Ok(prepared) => {
                let result = step(prepared);
                self.note(name, start.elapsed(), result);
            }
            Err(reason) => {
                println!("skipped: {reason}");
                self.0.push((name, Outcome::Skipped(reason)));
            }
        }
    }

    fn note<T>(&mut self, name: &'static str, took: Duration, result: Result<T>) -> Option<T> {
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

    /// What a step needs of an earlier one; where that failed, the step is left out.
    pub(crate) fn with<'a, T>(&mut self, built: &'a Option<T>, name: &'static str) -> Option<&'a T> {
        if built.is_none() {
            self.skip(name, "the build failed");
        }
        built.as_ref()
    }

    /// Notes a step that is left out, with the reason.
    pub(crate) fn skip(&mut self, name: &'static str, reason: &str) {
        println!("\n== {name}\nskipped: {reason}");
        self.0.push((name, Outcome::Skipped(reason.to_owned())));
    }

    /// Prints the summary.
    ///
    /// # Errors
    /// Names the steps that failed, with the reasons.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n== summary\n{}", self.summary());
        let failed = self.0.iter().filter_map(|(name, outcome)| match outcome {
            Outcome::Failed(_, error) => Some(format!("{name}: {error}")),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if failed.is_empty() { Ok(()) } else { Err(Error::Other(failed.join("\n"))) }
    }

    fn summary(&self) -> String {
        let lines = self.0.iter().map(|(name, outcome)| match outcome {
            Outcome::Passed(took) => format!("{name:<16} {:>7.1} s  ok", took.as_secs_f64()),
            Outcome::Failed(took, _) => format!("{name:<16} {:>7.1} s  FAILED", took.as_secs_f64()),
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
        assert!(summary.contains("FAILED") && summary.contains("skipped: --no-three"), "{summary}");
        assert_eq!(steps.finish().unwrap_err().to_string(), "one: broken");
    }

    #[test]
    fn success_and_skips_are_no_failure() {
        let mut steps = Steps::default();
        steps.run("one", || Ok(()));
        steps.skip("two", "not today");
        steps.run_where("three", || Err::<(), _>("not here".to_owned()), |()| Err(Error::Other("broken".into())));
        let summary = steps.summary();
        assert!(summary.contains("skipped: not here"), "{summary}");
        assert!(steps.finish().is_ok());
    }

    #[test]
    fn a_step_that_fails_after_its_preparation_is_reported() {
        let mut steps = Steps::default();
        steps.run_where("one", || Ok(1), |one| if one == 1 { Err(Error::Other("broken".into())) } else { Ok(()) });
        assert_eq!(steps.finish().unwrap_err().to_string(), "one: broken");
    }
}
