//! Opening a device: the adapter asked for, with the features that pass their check.

mod matrix_check;

use crate::device::{AdapterIdentity, backend, enumerate, identity, identity_of, summary};
use crate::pipelines::Store;
use crate::timeline::Track;
use crate::{AdapterSummary, Device, DeviceOptions, RuntimeError};
use std::panic::resume_unwind;
use std::sync::Arc;
use wgoose_kernels::Limits;

/// The adapters among which one is wanted, and what is wanted of them: a back end by its name, else as [`position`] has it.
fn among(wanted: Option<&str>) -> (Vec<wgpu::Adapter>, Option<&str>) {
    match wanted.and_then(backend) {
        Some(only) => (enumerate(Some(only)), None),
        None => (enumerate(None), wanted),
    }
}

/// Where the adapter is that is meant; the first if none is.
fn position(adapters: &[wgpu::Adapter], wanted: Option<&str>) -> Result<usize, RuntimeError> {
    let identities: Vec<AdapterIdentity> = adapters.iter().map(identity_of).collect();
    identity::position(&identities, wanted)
}

impl Device {
    /// Opens an adapter: by index, PCI address, UUID, an unambiguous part of its name, back end, or the most capable one.
    ///
    /// # Errors
    /// No adapter, none that matches, or the driver refuses.
    pub fn open(wanted: Option<&str>) -> Result<Arc<Device>, RuntimeError> {
        Device::open_with(&DeviceOptions { adapter: wanted.map(str::to_owned), ..DeviceOptions::default() })
    }

    /// As [`Device::open`], with options.
    ///
    /// # Errors
    /// No adapter, none that matches, or the driver refuses.
    pub fn open_with(options: &DeviceOptions) -> Result<Arc<Device>, RuntimeError> {
        Device::open_limited(options, &|_| {})
    }

    /// As [`Device::open_with`], pretending that the device can do less: how a model runs on a lesser one.
    ///
    /// # Errors
    /// No adapter, none that matches, or the driver refuses.
    pub fn open_limited(options: &DeviceOptions, restrict: &dyn Fn(&mut Limits)) -> Result<Arc<Device>, RuntimeError> {
        FoundAdapter::find_limited(options, restrict)?.open()
    }
}

/// An adapter that was found and is not open yet: what a plan is chosen by is known while the driver opens it.
pub struct FoundAdapter {
    adapter: wgpu::Adapter,
    summary: AdapterSummary,
    options: DeviceOptions,
}

impl FoundAdapter {
    /// The adapter that [`Device::open_with`] would open.
    ///
    /// # Errors
    /// No adapter, or none that matches.
    pub fn find(options: &DeviceOptions) -> Result<FoundAdapter, RuntimeError> {
        FoundAdapter::find_limited(options, &|_| {})
    }

    /// As [`FoundAdapter::find`], pretending that it can do less.
    fn find_limited(options: &DeviceOptions, restrict: &dyn Fn(&mut Limits)) -> Result<FoundAdapter, RuntimeError> {
        let options = DeviceOptions { limits: options.limits.or_of_environment()?, ..options.clone() };
        let (adapter, mut summary) = {
            let _span = options.timeline.span(Track::Device, "adapters");
            let (mut adapters, wanted) = among(options.adapter.as_deref());
            let adapter = adapters.swap_remove(position(&adapters, wanted)?);
            let summary = summary(&adapter);
            (adapter, summary)
        };
        summary.limits = options.limits.of(summary.limits);
        restrict(&mut summary.limits);
        Ok(FoundAdapter { adapter, summary, options })
    }

    /// What it can do, as it says: matrix units that do not stand their check are still listed.
    pub fn summary(&self) -> &AdapterSummary {
        &self.summary
    }

    /// Opens it.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn open(self) -> Result<Arc<Device>, RuntimeError> {
        self.open_checked(&matrix_check::run)
    }

    /// As [`FoundAdapter::open`], with how matrix units are checked.
    fn open_checked(self, run: &matrix_check::Run<'_>) -> Result<Arc<Device>, RuntimeError> {
        let FoundAdapter { adapter, summary, options } = self;
        let _span = options.timeline.span(Track::Device, "open");
        // The driver takes its time; the checks' kernels are made meanwhile.
        let (device, checks) = std::thread::scope(|scope| {
            let checks = scope.spawn(|| matrix_check::checks(&summary.limits));
            (Device::connect(&adapter, summary.clone(), &options), checks.join())
        });
        let (mut device, checks) = (device?, checks.unwrap_or_else(|panic| resume_unwind(panic)));
        let kept = options.cache.as_deref().map(|cache| Store::checks(cache, &summary.fingerprint));
        if matrix_check::settle(&mut device, checks, kept.as_ref(), run) {
            device = Device::connect(&adapter, device.summary, &options)?;
        }
        Ok(Arc::new(device))
    }
}
