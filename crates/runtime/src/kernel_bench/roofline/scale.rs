//! How much is measured: enough to be right on a GPU, little enough to be quick on a CPU that plays one.

use crate::Device;
use std::time::Duration;

/// Sizes of the measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Bytes over which bandwidth is measured, if the device binds that many: far more than any cache. A power of two.
    pub(super) bytes: u64,
    /// Workgroups of 256 that move them; a power of two.
    pub(super) movers: u32,
    /// Workgroups that compute: so many that the last, partly filled wave of them counts for little.
    pub(super) computers: u32,
    /// Dispatches in a pass, where dispatches are what is measured.
    pub(super) dispatches: u32,
    /// A sample takes at least this long, where repetition can stretch it.
    pub(super) least: Duration,
    /// Work before the first sample of a figure.
    pub(super) warm_up: Duration,
    /// Samples of a figure.
    pub(super) samples: usize,
}

impl Scale {
    /// The sizes for a device.
    pub fn of(device: &Device) -> Self {
        let gpu = Scale {
            bytes: 1 << 30,
            movers: 2048,
            computers: 50_000,
            dispatches: 2048,
            least: Duration::from_millis(2),
            warm_up: Duration::from_millis(100),
            samples: 21,
        };
        if !device.is_cpu() {
            return gpu;
        }
        // A CPU runs a thread to its end before the next: one tile for each, or it would hop from page to page.
        Scale { bytes: 64 << 20, movers: 4096, computers: 64, dispatches: 128, samples: 9, ..gpu }
    }

    /// The least that goes through every measurement: for tests. The figures mean nothing.
    #[cfg(test)]
    pub(super) fn tiny() -> Self {
        Scale {
            bytes: 1 << 20,
            movers: 16,
            computers: 4,
            dispatches: 8,
            least: Duration::from_micros(10),
            warm_up: Duration::ZERO,
            samples: 3,
        }
    }
}
