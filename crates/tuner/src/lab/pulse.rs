//! Keeps times comparable: a device that is idle, or busy for a tenth of the time, lowers its clocks, by steps on which times are
//! steady, so that a plateau alone says nothing. After 2 s without work kernels of an H200 take 3.9, then 3.0 times as long, for
//! 330 ms of work; after 6 s 5.3 times, for 240 ms.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_runtime::lab::{Bench, Clock};
use wgoose_runtime::{Device, RuntimeError};

/// What the first warm-up lasts: nobody knows yet how fast the device is.
const FIRST: Duration = Duration::from_millis(700);

/// The longest of the later ones: clocks may be held down.
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
}

impl Pulse {
    /// Of a kernel.
    pub(super) fn new(device: &Arc<Device>, bench: Bench) -> Self {
        Pulse { device: Arc::clone(device), bench, repeats: 1, least: None }
    }

    /// Keeps the device busy until its clocks are up. An emulated device has none of its own.
    ///
    /// # Errors
    /// The device fails.
    pub(super) fn raise(&mut self, clock: &Clock) -> Result<(), RuntimeError> {
        let is_first = self.least.is_none();
        if self.device.is_cpu() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut least = self.least.map_or(f64::INFINITY, |ns| ns * FORGET);
        loop {
            let ns = self.bench.time(clock, self.repeats)?.ns;
            self.repeats = ((LOOK_NS / ns.max(1.0)).ceil() as u32).clamp(1, 2000);
            least = least.min(ns);
            let spent = begun.elapsed();
            if spent >= LONGEST || (ns <= least * TOLERANCE && (!is_first || spent >= FIRST)) {
                break;
            }
        }
        self.least = Some(least);
        Ok(())
    }
}
