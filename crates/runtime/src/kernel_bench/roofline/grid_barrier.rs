//! A grid barrier: how many workgroups can wait for one another, and what that costs.

use super::figure::{Figure, Quantity};
use super::instrument::{DURING, Instrument, Loaded};
use crate::RuntimeError;
use wgoose_kernels::probes::{Params, Probe};

/// Looks at the counter before a workgroup gives up: tens of milliseconds, where a barrier takes microseconds.
const SPINS: u32 = 20_000;

/// Barriers that workgroups must pass to be counted as resident.
const TRIAL: u32 = 64;

/// Most workgroups that are tried.
const MOST: u32 = 1 << 14;

/// Threads of a workgroup (must match `kernels-wgsl/device/probes/grid_barrier.wgsl`).
const WIDTH: u32 = 256;

/// Most barriers in a sample.
const MOST_BARRIERS: u32 = 1 << 14;

/// How a dispatch with barriers went.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    ns: f64,
    /// Whether a wait timed out.
    timed_out: bool,
    /// Times a workgroup did not see what another wrote before the barrier.
    unseen: u32,
    /// Barriers passed, added up over the workgroups.
    passed: u32,
}

impl Outcome {
    fn held(&self, workgroups: u32, rounds: u32) -> bool {
        !self.timed_out && self.unseen == 0 && self.passed == workgroups * rounds
    }
}

/// The most workgroups that can wait for one another.
fn most(instrument: &Instrument, probe: &Loaded) -> Result<Option<u32>, RuntimeError> {
    resident(&mut |workgroups| {
        let params = Params { rounds: TRIAL, workgroups, spins: SPINS, elements: 0 };
        Ok(wait(instrument, probe, workgroups, params)?.held(workgroups, TRIAL))
    })
}

/// How many workgroups can wait for one another, and what a barrier costs among them.
///
/// # Errors
/// The device fails.
pub(super) fn costs(instrument: &Instrument) -> Result<Vec<Figure>, RuntimeError> {
    let quantities = [Quantity::ResidentWorkgroups, Quantity::GridBarrierEighth, Quantity::GridBarrierAll];
    let none = |why: &str| Ok(quantities.map(|q| Figure::missing(q, why)).to_vec());
    if instrument.device.is_cpu() {
        return none("software devices cut long loops and need not run workgroups at once");
    }
    let probe = probe(instrument)?;
    let wait = |workgroups, rounds| {
        let params = Params { rounds, workgroups, spins: SPINS, elements: 0 };
        wait(instrument, &probe, workgroups, params)
    };
    let Some(most) = most(instrument, &probe)? else {
        return none("not even one workgroup passes its own barrier");
    };
    let how = "doubled, then halved in on, until a wait for the others times out";
    let mut figures = vec![Figure::new(Quantity::ResidentWorkgroups, &[f64::from(most)], how)];
    for (quantity, workgroups) in [(quantities[1], most.div_ceil(8)), (quantities[2], most)] {
        let mut held = true;
        let (ns, rounds) = instrument.sample(MOST_BARRIERS, &mut |rounds| {
            let outcome = wait(workgroups, rounds)?;
            held &= outcome.held(workgroups, rounds);
            Ok(outcome.ns)
        })?;
        let us: Vec<f64> = ns.iter().map(|ns| ns / 1e3).collect();
        figures.push(match held {
            true => Figure::new(
                quantity,
                &us,
                format!("{workgroups} workgroups of {WIDTH}, {rounds} barriers in a dispatch"),
            ),
            false => Figure::missing(quantity, format!("a wait of {workgroups} workgroups timed out in a longer run")),
        });
    }
    Ok(figures)
}

/// The largest number that holds, if those that do are the smaller ones; `None` if not even 1 does.
fn resident(holds: &mut dyn FnMut(u32) -> Result<bool, RuntimeError>) -> Result<Option<u32>, RuntimeError> {
    if !holds(1)? {
        return Ok(None);
    }
    let mut good = 1;
    while good < MOST && holds(2 * good)? {
        good *= 2;
    }
    if good >= MOST {
        return Ok(Some(good));
    }
    let mut bad = 2 * good;
    while bad - good > 1 {
        let middle = good.midpoint(bad);
        if holds(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(Some(good))
}

/// The probe, on any buffer for now.
fn probe(instrument: &Instrument) -> Result<Loaded, RuntimeError> {
    let device = &instrument.device;
    Loaded::new(device, Probe::GridBarrier, None, &device.storage("y", 32), Params::default(), 1)
}

/// Lets `workgroups` workgroups pass barriers at which they wait for `params.workgroups`.
fn wait(instrument: &Instrument, probe: &Loaded, workgroups: u32, params: Params) -> Result<Outcome, RuntimeError> {
    let device = &instrument.device;
    // New, and so zero: four counters, then a note of each workgroup.
    let y = device.storage("y", 16 + 4 * u64::from(workgroups.max(params.workgroups)));
    let probe = probe.with(device, None, &y, workgroups);
    probe.set(device, params);
    let ns = instrument.clock.time(DURING, &|pass| probe.encode(pass))?;
    let words: Vec<u32> = bytemuck::pod_collect_to_vec(&device.read(&y, 0, 16, DURING)?);
    Ok(Outcome { ns, timed_out: words[1] != 0, unseen: words[2], passed: words[3] })
}

#[cfg(test)]
mod tests {
    use super::super::scale::Scale;
    use super::*;
    use crate::Device;

    #[test]
    fn a_complete_grid_passes_and_an_incomplete_grid_times_out() {
        let device = Device::open(None).unwrap();
        let instrument = Instrument::new(&device, Scale::tiny()).unwrap();
        let probe = probe(&instrument).unwrap();
        let one_of = |workgroups| {
            let params = Params { rounds: 100, workgroups, spins: 1000, elements: 0 };
            wait(&instrument, &probe, 1, params).unwrap()
        };
        let alone = one_of(1);
        assert!(alone.held(1, 100), "{alone:?}");
        let in_vain = one_of(2);
        assert!(in_vain.timed_out && in_vain.passed == 0 && !in_vain.held(1, 100), "{in_vain:?}");
    }

    #[test]
    fn the_most_resident_workgroups_are_found() {
        for limit in [1, 2, 3, 100, 1056, MOST] {
            assert_eq!(resident(&mut |n| Ok(n <= limit)).unwrap(), Some(limit));
        }
        assert_eq!(resident(&mut |_| Ok(false)).unwrap(), None);
    }
}
