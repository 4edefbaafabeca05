//! The roofline of a device: what it can do at most through this API, measured, and kept to say how far a kernel is
//! from it (Williams, Waterman and Patterson 2009).

mod arithmetic;
mod ceiling;
mod dispatches;
mod figure;
mod grid_barrier;
mod host;
mod instrument;
mod memory;
mod multiprocessors;
mod scale;
mod store;

pub use ceiling::{Ceiling, Impossible};
pub use figure::{Figure, Quantity, Spread};
pub use multiprocessors::open_measured;
pub use scale::Scale;
pub use store::{load, path, save};

use crate::{Device, RuntimeError};
use instrument::Instrument;
use memory::Buffers;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wgoose_kernels::{DeviceFingerprint, PlanError};

/// Version of the file; another one is as good as none.
pub const SCHEMA: u32 = 2;

/// What a device can do at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The device.
    pub device: DeviceFingerprint,
    /// What it was measured with, unless a figure says otherwise.
    pub clock: String,
    /// Every quantity once, in the order of [`Quantity::ALL`].
    pub figures: Vec<Figure>,
}

impl Roofline {
    /// The median of a figure, in its unit; `None` if it could not be measured.
    pub fn median(&self, quantity: Quantity) -> Option<f64> {
        self.figures.iter().find(|f| f.quantity == quantity)?.value.map(|spread| spread.median)
    }
}

/// Measures a device. `seen` is shown every figure as soon as it is there.
///
/// # Errors
/// The device fails.
pub fn measure(device: &Arc<Device>, scale: Scale, seen: &mut dyn FnMut(&Figure)) -> Result<Roofline, RuntimeError> {
    let instrument = Instrument::new(device, scale)?;
    let mut figures = Vec::new();
    let mut keep = |new: Vec<Figure>| {
        new.iter().for_each(&mut *seen);
        figures.extend(new);
    };
    {
        let buffers = Buffers::new(&instrument)?;
        keep(vec![buffers.read(&instrument)?]);
        keep(vec![buffers.copy(&instrument)?]);
        keep(vec![buffers.command(&instrument)?]);
    }
    for (quantity, probe) in arithmetic::RATES {
        keep(vec![unless_refused(quantity, arithmetic::rate(&instrument, quantity, probe))?]);
    }
    keep(dispatches::costs(&instrument)?);
    keep(host::costs(&instrument)?);
    keep(vec![multiprocessors::figure(&instrument)?]);
    keep(grid_barrier::costs(&instrument)?);
    let (fingerprint, clock) = (device.fingerprint().clone(), instrument.clock_name());
    Ok(Roofline { schema: SCHEMA, device: fingerprint, clock, figures })
}

/// A device that cannot run a probe has no such figure; all other failures are failures.
fn unless_refused(quantity: Quantity, result: Result<Figure, RuntimeError>) -> Result<Figure, RuntimeError> {
    match result {
        Err(RuntimeError::Plan(PlanError::NotRunnable { refusal, .. })) => {
            Ok(Figure::missing(quantity, refusal.to_string()))
        }
        Err(RuntimeError::Compile { why, .. }) => Ok(Figure::missing(quantity, why)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_there_and_finite() {
        let device = Device::open(None).unwrap();
        let mut seen = Vec::new();
        let roofline = measure(&device, Scale::tiny(), &mut |figure| seen.push(figure.clone())).unwrap();
        assert_eq!(seen, roofline.figures);
        assert_eq!(roofline.figures.iter().map(|f| f.quantity).collect::<Vec<_>>(), Quantity::ALL);
        for figure in &roofline.figures {
            assert!(!figure.how.is_empty() && figure.unit == figure.quantity.unit(), "{figure:?}");
            let Some(value) = figure.value else { continue };
            assert!(value.min <= value.median && value.median <= value.max && value.n > 0, "{figure:?}");
            assert!([value.min, value.max].iter().all(|x| x.is_finite()), "{figure:?}");
            // A difference of two times may be anything.
            assert!(value.min > 0.0 || figure.quantity == Quantity::DispatchBoundary, "{figure:?}");
        }
        for always in [Quantity::ReadBandwidth, Quantity::FmaF32, Quantity::DotInt8, Quantity::SubmitEmpty] {
            assert!(roofline.median(always).is_some(), "{always:?}");
        }
        let text = serde_json::to_string(&roofline).unwrap();
        assert_eq!(serde_json::from_str::<Roofline>(&text).unwrap(), roofline);
    }

    #[test]
    fn figures_without_their_feature_give_the_reason() {
        let restrict = |limits: &mut wgoose_kernels::Limits| limits.features.clear();
        let device = Device::open_limited(&crate::DeviceOptions::default(), &restrict).unwrap();
        let instrument = Instrument::new(&device, Scale::tiny()).unwrap();
        for (quantity, probe) in arithmetic::RATES {
            let figure = unless_refused(quantity, arithmetic::rate(&instrument, quantity, probe)).unwrap();
            let lacks = [Quantity::FmaF16x2, Quantity::FmaF16x4, Quantity::MatrixF16].contains(&quantity);
            assert_eq!(figure.value.is_none(), lacks, "{figure:?}");
            assert_eq!(figure.how.contains("the device has no"), lacks, "{figure:?}");
        }
    }
}
