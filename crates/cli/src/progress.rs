//! A progress line on stderr, drawn only on a terminal, and the text that is printed above it.

use crate::failure::Failure;
use crate::wrapped::wrapped;
use console::Term;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The line that is shown now, if any.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// A line that moves until this is dropped.
pub(crate) struct Moving(ProgressBar);

impl Moving {
    /// A spinner, and what is going on.
    pub(crate) fn spinner(text: &str) -> Result<Self, Failure> {
        let bar =
            ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {elapsed:>4} {wide_msg}")?);
        bar.set_message(text.to_owned());
        Ok(Moving::show(bar))
    }

    /// A bar of this many steps; `after` is the rest of indicatif's template behind it, in which `{left}` is the time
    /// that is left.
    pub(crate) fn bar(len: u64, after: &str) -> Result<Self, Failure> {
        let style = ProgressStyle::with_template(&format!("{{spinner}} {{bar:20}} {after}"))?.with_key(
            "left",
            |state: &ProgressState, text: &mut dyn std::fmt::Write| {
                // A template has nowhere to report an error.
                let _ = text.write_str(&left(state.pos(), state.eta()));
            },
        );
        Ok(Moving::show(ProgressBar::new(len).with_style(style)))
    }

    /// A bar of bytes.
    pub(crate) fn bytes() -> Result<Self, Failure> {
        Moving::bar(0, "{bytes}/{total_bytes} {bytes_per_sec} (left: {left})")
    }

    /// Sets a bar to the bytes done and in total.
    pub(crate) fn progress(&self) -> impl FnMut(u64, u64) -> ControlFlow<()> {
        |done, total| {
            self.done_of(done, total);
            ControlFlow::Continue(())
        }
    }

    /// Something else begins: time is counted from here.
    pub(crate) fn restart(&self) {
        self.0.reset();
    }

    /// So many are done of so many.
    pub(crate) fn done_of(&self, steps: u64, len: u64) {
        self.0.set_length(len);
        self.0.set_position(steps);
    }

    fn show(bar: ProgressBar) -> Self {
        // One that is hidden has nothing to redraw.
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        Moving(bar)
    }

    /// What is going on now.
    pub(crate) fn say(&self, text: &str) {
        self.0.set_message(text.to_owned());
    }

    /// Says what a benchmark is doing, of what `name` says.
    pub(crate) fn watch(&self, name: &str) -> impl FnMut(wgoose_bench::BenchProgress<'_>) -> ControlFlow<()> {
        move |now| {
            self.say(&format!("{name}: {now}"));
            ControlFlow::Continue(())
        }
    }

    /// So many steps are done.
    pub(crate) fn done(&self, steps: u64) {
        self.0.set_position(steps);
    }
}

/// A bar that fills as time is spent, with the seconds that are left, until this is dropped.
pub(crate) struct Countdown {
    moving: Moving,
    begun: Instant,
    end: Arc<Mutex<Instant>>,
}

impl Countdown {
    /// A bar for so much time.
    pub(crate) fn show(begun: Instant, time: Duration) -> Result<Self, Failure> {
        // No budget is as long as a year.
        let end = Arc::new(Mutex::new(begun + time.min(Duration::from_secs(365 * 24 * 3600))));
        let of_bar = Arc::clone(&end);
        let style = ProgressStyle::with_template("{spinner} {bar:20} {left} {wide_msg}")?.with_key(
            "left",
            move |_: &ProgressState, text: &mut dyn std::fmt::Write| {
                // A template has nowhere to report an error.
                let _ = write!(text, "{:>4} s left ", left_until(&of_bar).as_secs());
            },
        );
        let moving = Moving::show(ProgressBar::new(time.as_secs().max(1)).with_style(style));
        Ok(Countdown { moving, begun, end })
    }

    /// Time until the end.
    pub(crate) fn left(&self) -> Duration {
        left_until(&self.end)
    }

    /// The end comes so much later.
    pub(crate) fn stand_still(&self, time: Duration) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) += time;
    }

    /// The end comes in about that time.
    pub(crate) fn ends_in(&self, time: Duration) {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    /// What is going on now.
    pub(crate) fn say(&self, text: &str) {
        let (spent, left) = (self.begun.elapsed(), self.left());
        self.moving.done_of(spent.as_secs(), (spent + left).as_secs().max(1));
        self.moving.say(text);
    }
}

/// The time that is left, unknown until a step is done.
fn left(steps: u64, time: Duration) -> String {
    match steps {
        0 => "?".to_owned(),
        _ => format!("{:#}", HumanDuration(time)),
    }
}

fn left_until(end: &Mutex<Instant>) -> Duration {
    let end = *end.lock().unwrap_or_else(PoisonError::into_inner);
    end.saturating_duration_since(Instant::now())
}

impl Drop for Moving {
    fn drop(&mut self) {
        *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.finish_and_clear();
    }
}

/// Prints a line on stderr, above what moves; on a terminal with breaks between words where it is too long.
pub(crate) fn note(line: &str) {
    let columns = Term::stderr().size_checked().map_or(usize::MAX, |(_, columns)| columns.into());
    aside(|| eprintln!("{}", wrapped(line, columns)));
}

/// Prints something while nothing moves.
pub(crate) fn aside<R>(print: impl FnOnce() -> R) -> R {
    match &*SHOWN.lock().unwrap_or_else(PoisonError::into_inner) {
        Some(bar) => bar.suspend(print),
        None => print(),
    }
}

/// Standard error, above what moves.
pub(crate) struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        aside(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_unknown_before_the_first_step() {
        assert_eq!((left(0, Duration::ZERO).as_str(), left(1, Duration::ZERO).as_str()), ("?", "0s"));
        assert_eq!(left(3, Duration::from_secs(7200)), "2h");
    }
}
