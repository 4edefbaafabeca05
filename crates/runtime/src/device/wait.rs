//! Waiting for a device: never without end, and what fails says what ran.

use super::Device;
use crate::RuntimeError;
use std::fmt::Display;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for one submission: many times what a pass takes on any device that is worth its power.
const PATIENCE: Duration = Duration::from_secs(120);

/// The same where a CPU plays the device.
const CPU_PATIENCE: Duration = Duration::from_secs(3600);

/// What a device reports some time after it happened.
pub(super) enum Fault {
    OutOfMemory,
    Lost(String),
    Other(String),
}

/// How long to wait, and whether that was too short once.
pub(super) struct Patience {
    most: Duration,
    hangs: AtomicBool,
}

impl Patience {
    /// What was asked for, or what suits the device.
    pub(super) fn new(asked: Option<Duration>, is_cpu: bool) -> Self {
        let most = asked.unwrap_or(if is_cpu { CPU_PATIENCE } else { PATIENCE });
        Patience { most, hangs: AtomicBool::new(false) }
    }
}

impl Device {
    /// Waits until the device has done everything submitted; `during` says what that is.
    ///
    /// # Errors
    /// Whatever the device has failed at since the last call, or it does not end.
    pub(crate) fn wait(&self, during: impl Display) -> Result<(), RuntimeError> {
        self.wait_until(None, self.patience.most, &during)
    }

    /// As [`Device::wait`], for a submission.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub(crate) fn wait_for(&self, done: wgpu::SubmissionIndex, during: impl Display) -> Result<(), RuntimeError> {
        self.wait_until(Some(done), self.patience.most, &during)
    }

    /// As [`Device::wait_for`], for less time than a device is given otherwise.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub(super) fn wait_at_most(
        &self,
        most: Duration,
        done: wgpu::SubmissionIndex,
        during: impl Display,
    ) -> Result<(), RuntimeError> {
        self.wait_until(Some(done), most.min(self.patience.most), &during)
    }

    fn wait_until(
        &self,
        done: Option<wgpu::SubmissionIndex>,
        most: Duration,
        during: &dyn Display,
    ) -> Result<(), RuntimeError> {
        // What hung once is looked at, and not waited for again.
        let hung = self.patience.hangs.load(Ordering::Acquire);
        let timeout = if hung { Duration::ZERO } else { most };
        let wait = wgpu::PollType::Wait { submission_index: done, timeout: Some(timeout) };
        // wgpu panics if the device is lost meanwhile.
        let polled = catch_unwind(AssertUnwindSafe(|| self.device.poll(wait)));
        self.check(during)?;
        match polled {
            Ok(Ok(_)) => {
                self.patience.hangs.store(false, Ordering::Release);
                Ok(())
            }
            Ok(Err(wgpu::PollError::Timeout)) => {
                if !self.patience.hangs.swap(true, Ordering::AcqRel) {
                    // wgpu waits without end for a queue that is let go of.
                    forget((self.device.clone(), self.queue.clone()));
                }
                Err(RuntimeError::TimedOut { during: during.to_string(), seconds: most.as_secs() })
            }
            Ok(Err(wrong)) => Err(RuntimeError::Device { during: during.to_string(), why: wrong.to_string() }),
            Err(_) => {
                Err(RuntimeError::DeviceLost { during: during.to_string(), why: "the driver said no more".into() })
            }
        }
    }

    /// Whatever the device has failed at since the last call. A device that was lost stays so.
    ///
    /// # Errors
    /// That.
    pub(crate) fn check(&self, during: impl Display) -> Result<(), RuntimeError> {
        let mut fault = self.fault.lock();
        let Some(what) = fault.take() else { return Ok(()) };
        let during = during.to_string();
        Err(match what {
            Fault::OutOfMemory => RuntimeError::OutOfMemory { during },
            Fault::Other(why) => RuntimeError::Device { during, why },
            Fault::Lost(why) => {
                *fault = Some(Fault::Lost(why.clone()));
                RuntimeError::DeviceLost { during, why }
            }
        })
    }
}
