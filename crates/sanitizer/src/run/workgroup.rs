//! A workgroup while it runs: its invocations, its memory, and what it knows of others.

use super::Machine;
use super::clock::Knowledge;
use super::findings::{Site, Who};
use super::store::Store;
use crate::error::SanitizerError;
use crate::program::{Builtin, Op, Program, Register, Space};
use crate::report::{AccessKind, FindingKind};

/// Whether an invocation can go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It can; if it has waited, once others have done something.
    #[default]
    Ready,
    AtBarrier,
    AtCollective,
    Ended,
}

/// An invocation.
#[derive(Debug, Default)]
pub(super) struct Invocation {
    pub(super) number: u32,
    pub(super) pc: u32,
    pub(super) registers: Vec<u32>,
    pub(super) calls: Vec<u32>,
    pub(super) state: State,
    /// What it has seen in atomic operations since it last jumped back, and what until then.
    pub(super) sight: u64,
    pub(super) sight_before: u64,
    /// The last atomic operation.
    pub(super) looked_at: u32,
}

impl Invocation {
    /// Where it is, with every call and every iteration of a loop at which invocations meet: equal for those that are
    /// at a place together.
    pub(super) fn path(&self, program: &Program) -> u64 {
        let mut hash = 1u64;
        let mut add = |value: u32| hash = (hash.rotate_left(23) ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for op in self.calls.iter().map(|after| after - 1).chain([self.pc]) {
            let loops = match &program.ops[op as usize] {
                Op::Call { loops, .. } | Op::Barrier { loops, .. } => *loops,
                Op::Collective(collective) => collective.loops,
                _ => 0,
            };
            add(op);
            let counters: &[Register] = &program.loops[loops as usize];
            counters.iter().for_each(|counter| add(self.registers[*counter as usize]));
        }
        hash
    }
}

/// A workgroup.
#[derive(Debug)]
pub(super) struct Workgroup {
    pub(super) number: u32,
    pub(super) invocations: Vec<Invocation>,
    pub(super) stores: Vec<Store>,
    pub(super) workgroup_epoch: u32,
    pub(super) storage_epoch: u32,
    pub(super) barriers: u32,
    pub(super) knowledge: Knowledge,
}

impl Workgroup {
    pub(super) fn new(machine: &Machine<'_>, number: u32) -> Self {
        let program = machine.program;
        let size = program.workgroup_size;
        let threads: u32 = size.iter().product();
        let grid = machine.grid;
        let id = [number % grid[0], number / grid[0] % grid[1], number / (grid[0] * grid[1])];
        let invocations = (0..threads).map(|local| {
            let mut registers = program.registers.clone();
            let place = [local % size[0], local / size[0] % size[1], local / (size[0] * size[1])];
            let global = [0, 1, 2].map(|i| id[i] * size[i] + place[i]);
            for (at, builtin) in &program.builtins {
                let lanes = program.subgroup_size;
                let values: &[u32] = match builtin {
                    Builtin::WorkgroupId => &id,
                    Builtin::NumWorkgroups => &grid,
                    Builtin::WorkgroupSize => &size,
                    Builtin::LocalId => &place,
                    Builtin::GlobalId => &global,
                    Builtin::LocalIndex => &[local],
                    Builtin::SubgroupId => &[local / lanes],
                    Builtin::NumSubgroups => &[threads.div_ceil(lanes)],
                    Builtin::SubgroupLane => &[local % lanes],
                    Builtin::SubgroupSize => &[lanes],
                };
                registers[*at as usize..][..values.len()].copy_from_slice(values);
            }
            Invocation { number: local, pc: program.entry, registers, ..Invocation::default() }
        });
        let own = program.variables.iter().filter(|v| v.space == Space::Workgroup);
        let store =
            |bytes: usize, granule: u32| Store::watched(vec![0; bytes], Some(vec![false; bytes]), granule as usize);
        Workgroup {
            number,
            invocations: invocations.collect(),
            stores: own.map(|v| store(v.bytes as usize, v.granule)).collect(),
            workgroup_epoch: 1,
            storage_epoch: 1,
            barriers: 0,
            knowledge: Knowledge::default(),
        }
    }

    fn has(&self, state: State) -> bool {
        self.invocations.iter().any(|invocation| invocation.state == state)
    }
}

/// What became of a workgroup's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Ended,
    /// It passed a barrier.
    Passed,
    /// What is left of it waits for other workgroups.
    Waits,
}

impl Machine<'_> {
    /// Runs a workgroup until it has passed a barrier, is done, or waits.
    pub(super) fn turn(&mut self, group: &mut Workgroup) -> Result<Turn, SanitizerError> {
        let lanes = self.program.subgroup_size as usize;
        let threads = group.invocations.len();
        for subgroup in self.permuted(threads.div_ceil(lanes)) {
            let range = subgroup * lanes..((subgroup + 1) * lanes).min(threads);
            loop {
                for lane in self.permuted(range.len()) {
                    if group.invocations[range.start + lane].state == State::Ready {
                        self.advance(group, range.start + lane)?;
                    }
                }
                let has_ready = group.invocations[range.clone()].iter().any(|i| i.state == State::Ready);
                if has_ready || !self.collective(group, range.clone()) {
                    break;
                }
            }
        }
        if group.has(State::Ready) {
            return Ok(Turn::Waits);
        }
        if !group.has(State::AtBarrier) {
            return Ok(Turn::Ended);
        }
        self.pass_barrier(group);
        Ok(Turn::Passed)
    }

    /// Lets all that wait at barriers go on, and says if they are not there together.
    fn pass_barrier(&mut self, group: &mut Workgroup) {
        let at_barrier = |i: &&Invocation| i.state == State::AtBarrier;
        let Some(first) = group.invocations.iter().find(at_barrier) else { return };
        let path = first.path(self.program);
        let site = |i: &Invocation, kind| Site { op: i.pc, who: Who::invocation(group.number, i.number), kind };
        let here = site(first, AccessKind::Barrier);
        let apart = group.invocations.iter().filter(at_barrier).find(|i| i.path(self.program) != path);
        if let Some(other) = apart {
            let detail = || match other.pc == first.pc {
                true => "in different iterations or calls".to_owned(),
                false => "invocations wait at different barriers".to_owned(),
            };
            let second = Some(site(other, AccessKind::Barrier));
            self.findings.add(FindingKind::DivergentBarrier, None, here, second, detail);
        }
        if let Some(ended) = group.invocations.iter().find(|i| i.state == State::Ended) {
            let count = group.invocations.iter().filter(|i| i.state == State::Ended).count();
            let detail = || format!("{count} of {} invocations have ended", group.invocations.len());
            let second = Some(site(ended, AccessKind::Elsewhere));
            self.findings.add(FindingKind::DivergentBarrier, None, here, second, detail);
        }
        let (is_storage, is_workgroup) = match self.program.ops[first.pc as usize] {
            Op::Barrier { is_storage, is_workgroup, .. } => (is_storage, is_workgroup),
            _ => (false, false),
        };
        group.barriers += 1;
        group.workgroup_epoch += u32::from(is_workgroup);
        group.knowledge.barrier(group.number, group.storage_epoch, is_storage);
        group.storage_epoch += u32::from(is_storage);
        self.events += 1;
        for invocation in group.invocations.iter_mut().filter(|i| i.state == State::AtBarrier) {
            invocation.pc += 1;
            invocation.state = State::Ready;
        }
    }
}
