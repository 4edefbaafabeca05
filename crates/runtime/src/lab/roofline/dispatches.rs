//! What a dispatch costs: tiny ones that wait for one another, and tiny ones that do not.

use super::figure::{Figure, Quantity};
use super::instrument::{Instrument, Loaded};
use crate::RuntimeError;
use wgoose_kernels::probes::{Params, Probe};

/// Dispatches on one buffer, each of which waits for the one before; on buffers of their own, none of which does; and the
/// difference, from samples taken in turn.
///
/// # Errors
/// The device fails.
pub(super) fn costs(instrument: &Instrument) -> Result<[Figure; 3], RuntimeError> {
    let (device, n) = (&instrument.device, instrument.scale.dispatches);
    let params = Params { rounds: 1, ..Params::default() };
    // A buffer that was written before would be waited for, however long ago that was: one for each dispatch.
    let ticks = (0..n)
        .map(|_| Loaded::new(device, Probe::Tick, None, &device.storage("y", 16), params, 1))
        .collect::<Result<Vec<_>, _>>()?;
    let independent = || instrument.clock.time(&|pass| ticks.iter().for_each(|tick| tick.encode(pass)));
    let dependent = || instrument.clock.time(&|pass| ticks.iter().for_each(|_| ticks[0].encode(pass)));
    instrument.sample(1, &mut |_| Ok(dependent()? + independent()?))?;
    let mut samples: [Vec<f64>; 3] = Default::default();
    for _ in 0..instrument.scale.samples {
        let [waiting, free] = [dependent()?, independent()?].map(|ns| ns / f64::from(n) / 1e3);
        samples[0].push(waiting);
        samples[1].push(free);
        samples[2].push(waiting - free);
    }
    let each = format!("{n} dispatches of one invocation in one pass");
    let hows = [format!("{each}, all on one buffer"), format!("{each}, each on a buffer of its own"), {
        "dependent less independent, samples taken in turn".to_owned()
    }];
    let quantities = [Quantity::DispatchDependent, Quantity::DispatchIndependent, Quantity::DispatchBoundary];
    let mut of = quantities.into_iter().zip(samples).zip(hows);
    Ok(std::array::from_fn(|i| match of.next() {
        Some(((quantity, samples), how)) => Figure::new(quantity, &samples, how),
        None => Figure::missing(quantities[i], "not measured"),
    }))
}
