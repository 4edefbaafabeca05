//! Keeps times comparable: a device that is idle, or busy for a tenth of the time, lowers its clocks, by steps on which
//! times are steady, so that a plateau alone says nothing. After 2 s without work kernels of an H200 take 3.9, then 3.0
//! times as long, for 330 ms of work; after 6 s 5.3 times, for 240 ms.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_runtime::kernel_bench::{Bench, Clock};
use wgoose_runtime::{Device, RuntimeError};

/// What the first warm-up lasts: nothing is known yet of how fast the device is.
const FIRST: Duration = Duration::from_millis(700);

/// The longest of the later ones. What is not as fast by then does not get as fast any more: clocks are held down, or
/// it was fast once by luck.
const LONGEST: Duration = Duration::from_millis(900);

/// As fast as ever, but for so much.
const TOLERANCE: f64 = 1.03;

/// What the least time grows by from one warm-up to the next: a device that got hot is not as fast as it was.
const FORGET: f64 = 1.0002;

/// Nanoseconds of one look.
const LOOK_NS: f64 = 2e6;

/// A kernel that never changes, run until it is as fast as it ever was.
pub(super) struct Pulse {
    device: Arc<Device>,
    bench: Bench,
    /// Dispatches of a look.
    repeats: u32,
    /// Least nanoseconds of a dispatch.
    least: Option<f64>,
    /// Those of the last look.
    last: Option<f64>,
}

impl Pulse {
    /// Of a kernel.
    pub(super) fn new(device: &Arc<Device>, bench: Bench) -> Self {
        Pulse { device: Arc::clone(device), bench, repeats: 1, least: None, last: None }
    }

    /// Keeps the device busy until its clocks are up. An emulated device has none of its own.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn raise(&mut self, clock: &Clock) -> Result<(), RuntimeError> {
        if self.device.is_cpu() {
            return Ok(());
        }
        if self.least.is_none() {
            // One dispatch takes another time than one of many: it only says how many a look has.
            self.repeats = repeats(self.bench.time(clock, 1)?.ns);
        }
        let (begun, mut rise) = (Instant::now(), Rise::after(self.least, self.last));
        loop {
            let ns = self.bench.time(clock, self.repeats)?.ns;
            (self.repeats, self.last) = (repeats(ns), Some(ns));
            if let Some(least) = rise.look(ns, begun.elapsed()) {
                self.least = Some(least);
                return Ok(());
            }
        }
    }
}

/// How many dispatches of so many nanoseconds make a look.
fn repeats(ns: f64) -> u32 {
    ((LOOK_NS / ns.max(1.0)).ceil() as u32).clamp(1, 2000)
}

/// A warm-up: how fast the kernel ever was, and how fast it is now. Two looks in a row must say so: one alone may be
/// lucky.
struct Rise {
    is_first: bool,
    least: f64,
    /// The least of this warm-up.
    now: f64,
    /// The look before, be it in another warm-up.
    before: Option<f64>,
}

impl Rise {
    /// One that begins after others found that the kernel takes no less.
    fn after(least: Option<f64>, before: Option<f64>) -> Self {
        let (is_first, now) = (least.is_none(), f64::INFINITY);
        Rise { is_first, least: least.map_or(f64::INFINITY, |ns| ns * FORGET), now, before }
    }

    /// Takes the time of a look that ended so long after the beginning; the least that the kernel takes, once clocks
    /// are up.
    fn look(&mut self, ns: f64, spent: Duration) -> Option<f64> {
        if let Some(before) = self.before.replace(ns) {
            self.now = self.now.min(ns.max(before));
            self.least = self.least.min(self.now);
        }
        if ns <= self.least * TOLERANCE && (!self.is_first || spent >= FIRST) {
            return Some(self.least).filter(|least| least.is_finite());
        }
        (spent >= LONGEST).then_some(self.now).filter(|now| now.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Milliseconds of a warm-up and the least time it finds; `ns` is the kernel's time after so many milliseconds.
    fn rise(least: Option<f64>, ns: impl Fn(u64) -> f64) -> (u64, f64) {
        let mut rise = Rise::after(least, least);
        (1..).map(|i| 2 * i).find_map(|ms| Some((ms, rise.look(ns(ms), Duration::from_millis(ms))?))).unwrap()
    }

    #[test]
    fn a_warm_up_ends_when_the_kernel_is_as_fast_as_ever() {
        assert_eq!(rise(Some(100.0), |_| 102.0), (2, 100.0 * FORGET));
        assert_eq!(rise(Some(100.0), |ms| if ms < 330 { 300.0 } else { 100.0 }), (330, 100.0 * FORGET));
        assert_eq!(rise(None, |ms| if ms < 330 { 300.0 } else { 100.0 }), (700, 100.0));
    }

    #[test]
    fn a_lost_speed_is_waited_for_once() {
        let (ms, least) = rise(Some(80.0), |_| 100.0);
        assert_eq!((ms, least), (900, 100.0));
        assert_eq!(rise(Some(least), |_| 100.0).0, 2);
        // However often it is warm at once, what it is held against stays where it is.
        let often = (0..500).fold(100.0, |least, _| rise(Some(least), |_| 100.0).1);
        assert!(often < 100.1, "{often}");
        assert_eq!(rise(Some(100.0), |ms| if ms == 4 { 80.0 } else { 110.0 }), (4, 100.0 * FORGET), "one lucky look");
    }
}
