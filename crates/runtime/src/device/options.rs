//! How to open a device.

use crate::timeline::Timeline;
use std::path::PathBuf;
use std::time::Duration;

/// How to open a device; every option has a default.
#[derive(Clone, Debug, Default)]
pub struct DeviceOptions {
    /// An adapter's index, or a part of its name. `None`: the most capable one.
    pub adapter: Option<String>,
    /// Folder of the pipeline cache; made if it is not there. `None`: compiled pipelines are not kept, and matrix units are checked
    /// every time.
    pub cache: Option<PathBuf>,
    /// Where spans are collected.
    pub timeline: Timeline,
    /// Pretends that the device has no more than this many bytes of memory.
    pub memory: Option<u64>,
    /// Longest wait for work that was submitted at once; past it the call fails with
    /// [`TimedOut`](crate::RuntimeError::TimedOut). `None`: two minutes, an hour where a CPU plays the device.
    pub patience: Option<Duration>,
}
