//! What kernels are tuned with, and for.

use crate::ledger::LedgerError;
use crate::space::{InstanceGroup, Scope};
use std::sync::Arc;
use std::time::Duration;
use wgoose_kernels::{Catalogue, Config, Limits, PlanError, Variant};
use wgoose_runtime::lab::Clock;
use wgoose_runtime::{Device, RuntimeError};

/// What stops the tuning of kernels for good.
#[derive(Debug, thiserror::Error)]
pub enum KernelTuningError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The device, beyond one candidate's failure.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The default kernel.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The grid of a persistent kernel: what its stages must suit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PersistentGrid {
    /// Workgroups.
    pub(crate) workgroups: u32,
    /// Threads of each.
    pub(crate) threads: u32,
}

impl PersistentGrid {
    /// Whether a kernel may suit, as far as its tunables say: as wide or a part as wide, and, if its grid is fixed, with as
    /// many of its workgroups for each of these.
    pub(super) fn admits(self, variant: &Variant, config: &Config, limits: &Limits) -> bool {
        let number = |name: &str| variant.tunable(config, name, limits);
        number("WG").is_none_or(|width| self.threads.is_multiple_of(width))
            && number("GRID").is_none_or(|grid| grid.is_multiple_of(self.workgroups))
    }
}

/// What kernels are tuned with.
pub struct KernelTuner<'a> {
    /// The device.
    pub device: &'a Arc<Device>,
    /// Its clock.
    pub clock: &'a Clock,
    /// The variants.
    pub catalogue: &'a Catalogue,
    /// What of the space is tried; `exhaustive` also tries every configuration.
    pub scope: Scope,
    /// Bytes of weights to rotate over, so that they stream from memory.
    pub rotate_bytes: u64,
    /// How long a device is kept busy before it is measured, so that its clocks are up.
    pub warm_up: Duration,
}

impl KernelTuner<'_> {
    /// So many copies of the operands that weights stream, as far as the bytes to rotate over go.
    pub(super) fn copies(&self, group: &InstanceGroup) -> usize {
        (self.rotate_bytes / group.instance.held_bytes().max(1)).clamp(1, 16) as usize
    }
}
