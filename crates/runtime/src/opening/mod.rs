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

/// The adapter that [`Device::open`] would open, without opening it.
///
/// # Errors
/// No adapter, or none that matches.
pub fn find_adapter(wanted: Option<&str>) -> Result<AdapterSummary, RuntimeError> {
    let (adapters, wanted) = among(wanted);
    Ok(summary(&adapters[position(&adapters, wanted)?]))
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
        Device::open_checked(options, restrict, &matrix_check::run)
    }

    /// As [`Device::open_limited`], with how matrix units are checked.
    fn open_checked(
        options: &DeviceOptions,
        restrict: &dyn Fn(&mut Limits),
        run: &matrix_check::Run<'_>,
    ) -> Result<Arc<Device>, RuntimeError> {
        let options = &DeviceOptions { limits: options.limits.or_of_environment()?, ..options.clone() };
        let timeline = options.timeline.clone();
        let (mut adapters, wanted) = {
            let _span = timeline.span(Track::Device, "adapters");
            among(options.adapter.as_deref())
        };
        let _span = timeline.span(Track::Device, "open");
        let adapter = adapters.swap_remove(position(&adapters, wanted)?);
        let mut summary = summary(&adapter);
        summary.limits = options.limits.of(summary.limits);
        restrict(&mut summary.limits);
        // The driver takes its time; the checks' kernels are made meanwhile.
        let (device, checks) = std::thread::scope(|scope| {
            let checks = scope.spawn(|| matrix_check::checks(&summary.limits));
            (Device::connect(&adapter, summary.clone(), options), checks.join())
        });
        let (mut device, checks) = (device?, checks.unwrap_or_else(|panic| resume_unwind(panic)));
        let kept = options.cache.as_deref().map(|cache| Store::checks(cache, &summary.fingerprint));
        if matrix_check::settle(&mut device, checks, kept.as_ref(), run) {
            device = Device::connect(&adapter, device.summary, options)?;
        }
        Ok(Arc::new(device))
    }
}
