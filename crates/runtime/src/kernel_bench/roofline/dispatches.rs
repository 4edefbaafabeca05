//! The cost of a dispatch: tiny ones that wait for one another, and tiny ones that do not.

use super::figure::{Figure, Quantity};
use super::instrument::{DURING, Instrument, Loaded};
use crate::RuntimeError;
use wgoose_kernels::probes::{Params, Probe};

/// Dispatches on one buffer, each of which waits for the one before; on buffers of their own, none of which does; and
/// the difference, from samples taken in turn.
///
/// # Errors
/// The device fails.
pub(super) fn costs(instrument: &Instrument) -> Result<Vec<Figure>, RuntimeError> {
    let (device, n) = (&instrument.device, instrument.scale.dispatches);
    let params = Params { rounds: 1, ..Params::default() };
    // A buffer that was written before would be waited for, however long ago that was: one for each dispatch.
    let tick = Loaded::new(device, Probe::Tick, None, &device.storage("y", 16), params, 1)?;
    let ticks: Vec<Loaded> = (0..n).map(|_| tick.with(device, None, &device.storage("y", 16), 1)).collect();
    device.check("preparing a measurement")?;
    let independent = || instrument.clock.time(DURING, &|pass| ticks.iter().for_each(|tick| tick.encode(pass)));
    let dependent = || instrument.clock.time(DURING, &|pass| (0..n).for_each(|_| tick.encode(pass)));
    instrument.sample(1, &mut |_| Ok(dependent()? + independent()?))?;
    let (mut waiting, mut free) = (Vec::new(), Vec::new());
    for _ in 0..instrument.scale.samples {
        waiting.push(dependent()? / f64::from(n) / 1e3);
        free.push(independent()? / f64::from(n) / 1e3);
    }
    let boundary: Vec<f64> = waiting.iter().zip(&free).map(|(waiting, free)| waiting - free).collect();
    let each = format!("{n} dispatches of one thread in one pass");
    Ok(vec![
        Figure::new(Quantity::DispatchDependent, &waiting, format!("{each}, all on one buffer")),
        Figure::new(Quantity::DispatchIndependent, &free, format!("{each}, each on a buffer of its own")),
        Figure::new(Quantity::DispatchBoundary, &boundary, "dependent less independent, samples taken in turn"),
    ])
}
