//! Subgroup operations: invocations meet, and each gets its result.

use super::Machine;
use super::findings::{Site, Who};
use super::workgroup::{Invocation, State, Workgroup};
use crate::program::{Collective, Inclusion, Op, Subgroup};
use crate::report::{AccessKind, FindingKind};
use crate::scalar::Binary;
use naga::{ScalarKind, SubgroupOperation};
use std::ops::Range;

/// What a shuffle from an invocation that is not there gives.
const NOBODY: u32 = 0x7fc0_dead;

impl Machine<'_> {
    /// Does the operation at which invocations of a subgroup wait; whether any did.
    pub(super) fn collective(&mut self, group: &mut Workgroup, subgroup: Range<usize>) -> bool {
        let program = self.program;
        let lanes = &group.invocations[subgroup.clone()];
        let waiting = lanes.iter().filter(|lane| lane.state == State::AtCollective);
        let Some(lead) = waiting.min_by_key(|lane| lane.pc) else { return false };
        let (pc, path) = (lead.pc, lead.path(program));
        let Op::Collective(operation) = &program.ops[pc as usize] else { return false };
        let is_here =
            |lane: &Invocation| lane.state == State::AtCollective && lane.pc == pc && lane.path(program) == path;
        let here: Vec<usize> = (0..lanes.len()).filter(|lane| is_here(&lanes[*lane])).collect();
        let site =
            |lane: &Invocation, kind| Site { op: lane.pc, who: Who::invocation(group.number, lane.number), kind };
        if here.len() < lanes.len() {
            let missing = (0..lanes.len()).find(|lane| !here.contains(lane));
            let (first, second) = (here.first(), missing.map(|lane| site(&lanes[lane], AccessKind::Elsewhere)));
            if let Some(first) = first.map(|lane| site(&lanes[*lane], AccessKind::Subgroup)) {
                let detail = || format!("{} of {} invocations are there", here.len(), lanes.len());
                self.findings.add(FindingKind::DivergentSubgroup, None, first, second, detail);
            }
        }
        self.events += 1;
        self.steps += here.len() as u64;
        match &operation.what {
            Subgroup::MatrixLoad(place) => self.load_matrix(group, subgroup.clone(), &here, pc, operation, place),
            Subgroup::MatrixStore(place) => self.store_matrix(group, subgroup.clone(), &here, pc, operation, place),
            Subgroup::MatrixMultiplyAdd { .. } => {
                self.multiply_add(&mut group.invocations[subgroup.clone()], operation);
            }
            _ => {
                let absent = exchange(&mut group.invocations[subgroup.clone()], &here, operation);
                if let Some((lane, from)) = absent {
                    let lane = &group.invocations[subgroup.start + lane];
                    let first =
                        Site { op: pc, who: Who::invocation(group.number, lane.number), kind: AccessKind::Subgroup };
                    let detail = || format!("a value of lane {from}, which is not there");
                    self.findings.add(FindingKind::DivergentSubgroup, None, first, None, detail);
                }
            }
        }
        for lane in here {
            let lane = &mut group.invocations[subgroup.start + lane];
            lane.pc += 1;
            lane.state = State::Ready;
        }
        true
    }
}

/// Hands values from lane to lane. A lane that reads from one that is not there, and which that is.
fn exchange(lanes: &mut [Invocation], here: &[usize], operation: &Collective) -> Option<(usize, usize)> {
    let (to, from, len) = (operation.to as usize, operation.from as usize, operation.len as usize);
    match &operation.what {
        Subgroup::Reduce(op, kind) => {
            for i in 0..len {
                let values = here.iter().map(|lane| lanes[*lane].registers[from + i]);
                let sum = values.reduce(|a, b| combined(*op, *kind, a, b)).unwrap_or_default();
                here.iter().for_each(|lane| lanes[*lane].registers[to + i] = sum);
            }
            None
        }
        Subgroup::Scan(op, kind, inclusion) => {
            for i in 0..len {
                let mut sum = identity(*op, *kind);
                for (place, lane) in here.iter().enumerate() {
                    let value = lanes[*lane].registers[from + i];
                    let before = sum;
                    sum = if place == 0 { value } else { combined(*op, *kind, sum, value) };
                    lanes[*lane].registers[to + i] = if *inclusion == Inclusion::Inclusive { sum } else { before };
                }
            }
            None
        }
        Subgroup::Ballot => {
            let mut mask = [0u32; 4];
            for lane in here.iter().filter(|lane| lanes[**lane].registers[from] != 0) {
                mask[lane / 32] |= 1 << (lane % 32);
            }
            here.iter().for_each(|lane| lanes[*lane].registers[to..to + 4].copy_from_slice(&mask));
            None
        }
        what => {
            let before: Vec<Vec<u32>> = lanes.iter().map(|lane| lane.registers[from..from + len].to_vec()).collect();
            let mut absent = None;
            for lane in here {
                let number = |register: &u32| lanes[*lane].registers[*register as usize] as usize;
                // Shuffles up and down leave the values at the ends undefined; kernels do not read them.
                let (source, may_be_absent) = match what {
                    Subgroup::First => (here[0], false),
                    Subgroup::Shuffle(from) => (number(from), false),
                    Subgroup::ShuffleXor(mask) => (lane ^ number(mask), false),
                    Subgroup::ShuffleUp(by) => (lane.wrapping_sub(number(by)), true),
                    Subgroup::ShuffleDown(by) => (lane.wrapping_add(number(by)), true),
                    Subgroup::QuadBroadcast(from) => (lane / 4 * 4 + number(from) % 4, false),
                    Subgroup::QuadSwap(mask) => (lane ^ *mask as usize, false),
                    _ => (*lane, false),
                };
                let target = &mut lanes[*lane].registers[to..to + len];
                if here.contains(&source) {
                    target.copy_from_slice(&before[source]);
                } else {
                    target.fill(NOBODY);
                    absent = absent.or((!may_be_absent).then_some((*lane, source)));
                }
            }
            absent
        }
    }
}

fn identity(op: SubgroupOperation, kind: ScalarKind) -> u32 {
    use SubgroupOperation as Operation;
    match (op, kind) {
        (Operation::Mul, ScalarKind::Float) => 1f32.to_bits(),
        (Operation::Mul, _) => 1,
        (Operation::Min, ScalarKind::Float) => f32::INFINITY.to_bits(),
        (Operation::Max, ScalarKind::Float) => f32::NEG_INFINITY.to_bits(),
        (Operation::Min, ScalarKind::Sint) => i32::MAX as u32,
        (Operation::Max, ScalarKind::Sint) => i32::MIN as u32,
        (Operation::Min | Operation::And, _) => u32::MAX,
        _ => 0,
    }
}

fn combined(op: SubgroupOperation, kind: ScalarKind, a: u32, b: u32) -> u32 {
    use SubgroupOperation as Operation;
    let pick = |float: Binary, signed: Binary, unsigned: Binary| match kind {
        ScalarKind::Float => float,
        ScalarKind::Sint => signed,
        _ => unsigned,
    };
    let binary = match op {
        Operation::All | Operation::And => Binary::And,
        Operation::Any | Operation::Or => Binary::Or,
        Operation::Xor => Binary::Xor,
        Operation::Add => pick(Binary::AddFloat, Binary::Add, Binary::Add),
        Operation::Mul => pick(Binary::MultiplyFloat, Binary::Multiply, Binary::Multiply),
        Operation::Min => pick(Binary::MinFloat, Binary::MinSigned, Binary::MinUnsigned),
        Operation::Max => pick(Binary::MaxFloat, Binary::MaxSigned, Binary::MaxUnsigned),
    };
    binary.apply(a, b)
}
