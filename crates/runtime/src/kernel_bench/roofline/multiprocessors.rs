//! How many multiprocessors a device has: what no API says.
//!
//! A workgroup that computes all the time keeps one multiprocessor busy, and devices give each one of theirs before any
//! has two. So n workgroups take as long as one, up to the number that is looked for; one more takes twice as long.

use super::figure::{Figure, Quantity};
use super::instrument::{DURING, Instrument, Loaded, operands};
use super::scale::Scale;
use crate::{Device, DeviceOptions, RuntimeError};
use std::sync::Arc;
use std::time::Duration;
use wgoose_kernels::Limits;
use wgoose_kernels::probes::{Params, Probe};

/// Most workgroups that are tried.
const MOST: u32 = 1 << 12;

/// A dispatch that takes so many times as long as that of one workgroup has multiprocessors with two.
const LONGER: f64 = 1.5;

/// Times of which the shortest counts.
const TIMES: u32 = 3;

/// Tries, of which two must agree.
const TRIES: usize = 3;

/// Opens a device for measuring: its multiprocessors are counted if it does not say, since kernels of a fixed grid are
/// multiples of them. Devices opened in other ways have the number that their plan was made with.
///
/// # Errors
/// No adapter, none that matches, or the device fails.
pub fn open_measured(options: &DeviceOptions) -> Result<Arc<Device>, RuntimeError> {
    let device = Device::open_with(options)?;
    if device.is_cpu() || device.limits().multiprocessors != Limits::SOME_MULTIPROCESSORS {
        return Ok(device);
    }
    let scale = Scale { warm_up: Duration::from_millis(20), least: Duration::from_millis(1), ..Scale::of(&device) };
    let counted = count(&Instrument::new(&device, scale)?)?;
    Ok(match counted {
        Some((multiprocessors, _)) => device.with_multiprocessors(multiprocessors),
        None => device,
    })
}

/// The figure of a roofline.
pub(super) fn figure(instrument: &Instrument) -> Result<Figure, RuntimeError> {
    let quantity = Quantity::Multiprocessors;
    if instrument.device.is_cpu() {
        return Ok(Figure::missing(quantity, "a software device has threads of the CPU"));
    }
    Ok(match count(instrument)? {
        None => Figure::missing(quantity, "no number of workgroups takes twice as long as one"),
        Some((n, rounds)) => {
            let how = format!("the most workgroups that take as long as one, of {rounds} rounds of multiply-adds");
            Figure::new(quantity, &[f64::from(n)], how)
        }
    })
}

/// The number that two counts agree on, and rounds of a workgroup; `None` if there is no such step.
fn count(instrument: &Instrument) -> Result<Option<(u32, u32)>, RuntimeError> {
    let device = &instrument.device;
    let (x, y) = (operands(device), device.storage("y", 4096));
    let one = Loaded::new(device, Probe::FmaF32, Some(&x), &y, Params::default(), 1)?;
    let (ns, rounds) = instrument.rounds(&one, Params::default())?;
    let alone = ns.into_iter().fold(f64::INFINITY, f64::min) * f64::from(rounds);
    let mut counts: Vec<Option<u32>> = Vec::new();
    for _ in 0..TRIES {
        let counted = last_within(&mut |workgroups| {
            let probe = one.with(device, Some(&x), &y, workgroups);
            probe.set(device, Params { rounds, ..Params::default() });
            let mut shortest = f64::INFINITY;
            for _ in 0..TIMES {
                shortest = shortest.min(instrument.clock.time(DURING, &|pass| probe.encode(pass))?);
            }
            Ok(shortest < LONGER * alone)
        })?;
        if counts.contains(&counted) {
            return Ok(counted.map(|n| (n, rounds)));
        }
        counts.push(counted);
    }
    Ok(None)
}

/// The largest number that is within the limit, if those that are are the smaller ones; `None` if 1 is not, or all are.
fn last_within(is_within: &mut dyn FnMut(u32) -> Result<bool, RuntimeError>) -> Result<Option<u32>, RuntimeError> {
    let (mut good, mut bad) = (0, 1);
    while is_within(bad)? {
        if bad >= MOST {
            return Ok(None);
        }
        (good, bad) = (bad, 2 * bad);
    }
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if is_within(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok((good > 0).then_some(good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_multiprocessors_is_found() {
        for multiprocessors in [1, 2, 15, 132, 1000] {
            assert_eq!(last_within(&mut |n| Ok(n <= multiprocessors)).unwrap(), Some(multiprocessors));
        }
        assert_eq!(last_within(&mut |_| Ok(true)).unwrap(), None);
        assert_eq!(last_within(&mut |_| Ok(false)).unwrap(), None);
    }

    #[test]
    fn a_software_device_has_the_threads_of_the_cpu() {
        let device = open_measured(&DeviceOptions::default()).unwrap();
        if device.is_cpu() {
            let threads = std::thread::available_parallelism().unwrap().get() as u32;
            assert_eq!(device.limits().multiprocessors, threads);
        }
        let other = Arc::clone(&device).with_multiprocessors(7);
        assert_eq!(other.limits().multiprocessors, device.limits().multiprocessors, "others hold it");
    }
}
