//! Runs a program for all workgroups of a dispatch, and watches what they do.

mod clock;
mod collective;
mod findings;
mod invocation;
mod matrix;
mod memory;
mod schedule;
mod store;
mod watch;
mod workgroup;

pub(crate) use findings::{Findings, Found};
use findings::{MAX_INVOCATIONS, MAX_WORKGROUPS};

use crate::dispatch::{Buffer, BufferRange, Dispatch, Order};
use crate::error::SanitizerError;
use crate::program::{Program, Space, Variable};
use clock::Releases;
use std::collections::BTreeSet;
use store::Store;

/// Where a variable is.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Of the dispatch, or of each workgroup.
    store: usize,
    is_workgroup: bool,
    is_coherent: bool,
    offset: usize,
    len: usize,
}

/// A dispatch while it runs.
pub(crate) struct Machine<'p> {
    program: &'p Program,
    grid: [u32; 3],
    order: Order,
    random: fastrand::Rng,
    stores: Vec<Store>,
    windows: Vec<Window>,
    releases: Releases,
    findings: Findings,
    /// Instructions whose reads give NaN where they race.
    poisoned: BTreeSet<u32>,
    /// Steps of all invocations.
    steps: u64,
    max_steps: u64,
    /// Whatever may end a wait: stores that change something, barriers, ends.
    events: u64,
}

/// What a dispatch left.
pub(crate) struct Outcome {
    pub(crate) findings: Findings,
    pub(crate) buffers: Vec<Buffer>,
    /// The instruction that wrote each byte of each buffer last, and who, where it is known.
    pub(crate) writers: Writers,
    pub(crate) is_complete: bool,
    pub(crate) steps: u64,
}

/// Who wrote to buffers last.
pub(crate) struct Writers(Vec<Store>);

impl Writers {
    /// The last write of a byte of a buffer.
    pub(crate) fn of(&self, buffer: usize, byte: usize) -> Option<findings::Site> {
        let store = self.0.get(buffer)?;
        let mark = store.cells.get(byte / store.granule)?.write;
        let kind = crate::report::AccessKind::Write;
        mark.is_there().then_some(findings::Site { op: mark.op & !store::Mark::ATOMIC, who: mark.who, kind })
    }
}

/// Runs a dispatch, with NaN for what the reads of some instructions race for.
pub(crate) fn run(program: &Program, dispatch: &Dispatch, poisoned: BTreeSet<u32>) -> Result<Outcome, SanitizerError> {
    let mut machine = Machine::new(program, dispatch)?;
    machine.poisoned = poisoned;
    let is_complete = machine.schedule(dispatch.resident.max(1))?;
    let mut stores = machine.stores;
    let buffers = stores.iter_mut().map(|store| {
        let written = store.written_by_now();
        Buffer { bytes: std::mem::take(&mut store.bytes), written }
    });
    let buffers = buffers.collect();
    Ok(Outcome { findings: machine.findings, buffers, writers: Writers(stores), is_complete, steps: machine.steps })
}

impl<'p> Machine<'p> {
    fn new(program: &'p Program, dispatch: &Dispatch) -> Result<Self, SanitizerError> {
        let invocations: u64 = program.workgroup_size.iter().map(|n| u64::from(*n)).product();
        let workgroups = dispatch.workgroups.iter().try_fold(1u32, |n, side| n.checked_mul(*side));
        if invocations > u64::from(MAX_INVOCATIONS) {
            return Err(SanitizerError::TooMany(format!("{invocations} invocations of a workgroup")));
        }
        if workgroups.is_none_or(|n| n > MAX_WORKGROUPS) {
            return Err(SanitizerError::TooMany(format!("{:?} workgroups", dispatch.workgroups)));
        }
        let bound: Vec<(&Variable, Option<BufferRange>)> = program
            .variables
            .iter()
            .map(|variable| Ok((variable, bound(variable, dispatch)?)))
            .collect::<Result<_, SanitizerError>>()?;
        let stores = dispatch.buffers.iter().enumerate().map(|(number, buffer)| {
            let of_buffer = || bound.iter().filter(|(_, range)| range.is_some_and(|r| r.buffer == number));
            let is_writable = |v: &Variable| v.space == Space::Storage { is_writable: true };
            let (bytes, written) = (buffer.bytes.clone(), buffer.written.clone());
            match of_buffer().any(|(variable, _)| is_writable(variable)) {
                true => {
                    let granule = of_buffer().map(|(variable, _)| variable.granule).min().unwrap_or(4);
                    Store::watched(bytes, written, granule as usize)
                }
                false => Store::constant(bytes, written),
            }
        });
        let stores = stores.collect();
        let mut own = 0..;
        let windows = bound.iter().map(|(variable, range)| match range {
            Some(BufferRange { buffer, offset, len }) => Window {
                store: *buffer,
                is_workgroup: false,
                is_coherent: variable.is_coherent,
                offset: *offset,
                len: *len,
            },
            None => Window {
                store: own.next().unwrap_or_default(),
                is_workgroup: true,
                is_coherent: false,
                offset: 0,
                len: variable.bytes as usize,
            },
        });
        let windows = windows.collect();
        let seed = if let Order::Random { seed } = dispatch.order { seed } else { 0 };
        Ok(Machine {
            program,
            grid: dispatch.workgroups,
            order: dispatch.order,
            random: fastrand::Rng::with_seed(seed),
            stores,
            windows,
            releases: Releases::default(),
            findings: Findings::default(),
            poisoned: BTreeSet::new(),
            steps: 0,
            max_steps: dispatch.max_steps,
            events: 0,
        })
    }
}

/// What a variable is bound to; `None` for one of workgroups.
fn bound(variable: &Variable, dispatch: &Dispatch) -> Result<Option<BufferRange>, SanitizerError> {
    if variable.space == Space::Workgroup {
        return Ok(None);
    }
    let (group, binding) = variable.binding.unwrap_or_default();
    let range = dispatch.bindings.get(&(group, binding));
    let name = || variable.name.clone();
    let range = *range.ok_or_else(|| SanitizerError::Unbound { variable: name(), group, binding })?;
    let there = dispatch.buffers.get(range.buffer).map_or(0, |buffer| buffer.bytes.len());
    let is_inside = range.offset.checked_add(range.len).is_some_and(|end| end <= there);
    let (need, bytes) = (u64::from(variable.bytes), if is_inside { range.len as u64 } else { 0 });
    match bytes < need {
        true => Err(SanitizerError::TooShort { variable: name(), need, bytes }),
        false => Ok(Some(range)),
    }
}
