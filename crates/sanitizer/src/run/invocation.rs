//! Runs an invocation until it meets others, waits or ends.

use super::Machine;
use super::findings::{Site, Who};
use super::memory::{AccessBy, NOWHERE};
use super::workgroup::{Invocation, State, Workgroup};
use crate::error::SanitizerError;
use crate::program::{Change, DYNAMIC, IN_REGISTERS, Op, Place};
use crate::report::{AccessKind, FindingKind};
use crate::scalar::{Packing, float, insert_bits};

/// Steps after which the budget is looked at, within one turn.
const STEPS_AT_ONCE: u64 = 1 << 26;

fn place(registers: &[u32], at: Place) -> u32 {
    registers[at.base as usize].wrapping_add(at.offset)
}

impl Machine<'_> {
    pub(super) fn advance(&mut self, group: &mut Workgroup, lane: usize) -> Result<(), SanitizerError> {
        let mut invocation = std::mem::take(&mut group.invocations[lane]);
        let mut steps = self.go_on(group, &mut invocation);
        while steps >= STEPS_AT_ONCE && self.steps + steps <= self.max_steps {
            self.steps += steps;
            steps = self.go_on(group, &mut invocation);
        }
        self.steps += steps;
        let at = invocation.pc;
        group.invocations[lane] = invocation;
        // The place in the text is filled in by the shader.
        (self.steps <= self.max_steps).then_some(()).ok_or(SanitizerError::TooLong { steps: self.steps, line: at })
    }

    /// The steps that it took.
    fn go_on(&mut self, group: &mut Workgroup, invocation: &mut Invocation) -> u64 {
        let program = self.program;
        let who = Who::invocation(group.number, invocation.number);
        let mut pc = invocation.pc;
        let mut steps = 0;
        let r = &mut invocation.registers[..];
        loop {
            steps += 1;
            let by = |variable: u32| AccessBy { who, op: pc, variable };
            match &program.ops[pc as usize] {
                Op::Copy { to, from, len: 1 } => r[*to as usize] = r[*from as usize],
                Op::Copy { to, from, len } => r.copy_within(*from as usize..(*from + *len) as usize, *to as usize),
                Op::Zero { to, len } => r[*to as usize..(*to + *len) as usize].fill(0),
                Op::Splat { to, from, len } => {
                    let value = r[*from as usize];
                    r[*to as usize..(*to + *len) as usize].fill(value);
                }
                Op::Unary { op, len, to, a } => {
                    for i in 0..*len as usize {
                        r[*to as usize + i] = op.apply(r[*a as usize + i]);
                    }
                }
                Op::Binary { op, len, to, a, b, a_step, b_step } => {
                    let (a_step, b_step) = (*a_step as usize, *b_step as usize);
                    for i in 0..*len as usize {
                        r[*to as usize + i] = op.apply(r[*a as usize + i * a_step], r[*b as usize + i * b_step]);
                    }
                }
                Op::Ternary { op, len, to, a, b, c, b_step, c_step } => {
                    let (b_step, c_step) = (*b_step as usize, *c_step as usize);
                    for i in 0..*len as usize {
                        let (b, c) = (r[*b as usize + i * b_step], r[*c as usize + i * c_step]);
                        r[*to as usize + i] = op.apply(r[*a as usize + i], b, c);
                    }
                }
                Op::InsertBits { len, to, value, new, offset, count } => {
                    let (offset, count) = (r[*offset as usize], r[*count as usize]);
                    for i in 0..*len as usize {
                        let (value, new) = (r[*value as usize + i], r[*new as usize + i]);
                        r[*to as usize + i] = insert_bits(value, new, offset, count);
                    }
                }
                Op::Select { len, to, condition, accept, reject, condition_step } => {
                    for i in 0..*len as usize {
                        let condition = r[*condition as usize + i * *condition_step as usize];
                        r[*to as usize + i] = r[if condition != 0 { *accept } else { *reject } as usize + i];
                    }
                }
                Op::Dot { is_float, len, to, a, b } => {
                    let pairs = (0..*len as usize).map(|i| (r[*a as usize + i], r[*b as usize + i]));
                    r[*to as usize] = match is_float {
                        true => pairs.map(|(a, b)| float(a) * float(b)).sum::<f32>().to_bits(),
                        false => pairs.fold(0u32, |sum, (a, b)| sum.wrapping_add(a.wrapping_mul(b))),
                    };
                }
                Op::MatrixProduct { to, a, b, rows, inner, columns } => {
                    let (rows, inner) = (*rows as usize, *inner as usize);
                    for column in 0..*columns as usize {
                        for row in 0..rows {
                            let term = |k: usize| {
                                float(r[*a as usize + k * rows + row]) * float(r[*b as usize + column * inner + k])
                            };
                            let sum = (0..inner).map(term).sum::<f32>();
                            r[*to as usize + column * rows + row] = sum.to_bits();
                        }
                    }
                }
                Op::Transpose { to, from, rows, columns } => {
                    for (row, column) in (0..*rows).flat_map(|row| (0..*columns).map(move |column| (row, column))) {
                        r[(to + row * columns + column) as usize] = r[(from + column * rows + row) as usize];
                    }
                }
                Op::DotBytes { is_signed, to, a, b } => {
                    r[*to as usize] = Packing::dot_bytes(r[*a as usize], r[*b as usize], *is_signed);
                }
                Op::Packing { op, to, from } => op.apply(r, *to as usize, *from as usize),
                Op::AllOrAny { is_any, to, from, len } => {
                    let mut all = r[*from as usize..(*from + *len) as usize].iter().map(|x| *x != 0);
                    r[*to as usize] = u32::from(if *is_any { all.any(|x| x) } else { all.all(|x| x) });
                }
                Op::Element { to, at, index, stride, count, variable } => {
                    let (base, index) = (place(r, *at), r[*index as usize]);
                    let count = match *count {
                        _ if base >= NOWHERE => 0,
                        DYNAMIC => (self.windows[*variable as usize].len as u32).saturating_sub(base) / stride,
                        count => count,
                    };
                    r[*to as usize] = if index < count { base + index * stride } else { NOWHERE };
                    if index >= count && base < NOWHERE {
                        self.index_out_of_bounds(pc, who, *variable, index, count);
                    }
                }
                Op::Pick { to, from, index, len, count } => {
                    let index = r[*index as usize];
                    if index < *count {
                        let from = (*from + index * len) as usize;
                        r.copy_within(from..from + *len as usize, *to as usize);
                    } else {
                        r[*to as usize..(*to + *len) as usize].fill(0);
                        self.index_out_of_bounds(pc, who, IN_REGISTERS, index, *count);
                    }
                }
                Op::LoadRegisters { to, at, len } => match place(r, *at) {
                    NOWHERE.. => r[*to as usize..(*to + *len) as usize].fill(0),
                    from => r.copy_within(from as usize..(from + len) as usize, *to as usize),
                },
                Op::StoreRegisters { at, from, len } => {
                    let to = place(r, *at);
                    if to < NOWHERE {
                        r.copy_within(*from as usize..(*from + *len) as usize, to as usize);
                    }
                }
                Op::LoadWords { to, variable, at, len } => {
                    let at = place(r, *at);
                    self.load_words(group, by(*variable), at, &mut r[*to as usize..(*to + *len) as usize]);
                }
                Op::StoreWords { from, variable, at, len } => {
                    let at = place(r, *at);
                    self.store_words(group, by(*variable), at, &r[*from as usize..(*from + *len) as usize]);
                }
                Op::Load { to, variable, at, layout } => {
                    let (at, layout) = (place(r, *at), &program.layouts[*layout as usize]);
                    self.load(group, by(*variable), at, layout, &mut r[*to as usize..]);
                }
                Op::Store { from, variable, at, layout } => {
                    let (at, layout) = (place(r, *at), &program.layouts[*layout as usize]);
                    self.store(group, by(*variable), at, layout, &r[*from as usize..]);
                }
                Op::AtomicLoad { to, variable, at } => {
                    let at = place(r, *at);
                    r[*to as usize] = self.atomic_load(group, by(*variable), at);
                    invocation.sight = look(invocation.sight, pc, at, r[*to as usize]);
                    invocation.looked_at = pc;
                }
                Op::AtomicStore { from, variable, at } => {
                    self.atomic_store(group, by(*variable), place(r, *at), r[*from as usize]);
                }
                Op::AtomicChange { change, to, variable, at, value, compare } => {
                    let (at, with) = (place(r, *at), (r[*value as usize], r[*compare as usize]));
                    let old = self.atomic_change(group, by(*variable), at, *change, with);
                    r[*to as usize] = old;
                    if *change == Change::CompareExchange {
                        r[*to as usize + 1] = u32::from(old == with.1);
                    }
                    invocation.sight = look(invocation.sight, pc, at, old);
                    invocation.looked_at = pc;
                }
                Op::ArrayLength { to, variable, offset, stride } => {
                    let bound = self.windows[*variable as usize].len as u32;
                    r[*to as usize] = bound.saturating_sub(*offset) / stride;
                }
                Op::Jump { target } => {
                    if *target <= pc {
                        let sight = std::mem::take(&mut invocation.sight);
                        let is_vain = sight != 0 && sight == invocation.sight_before;
                        invocation.sight_before = sight;
                        if is_vain || steps >= STEPS_AT_ONCE {
                            pc = *target;
                            break;
                        }
                    }
                    pc = *target;
                    continue;
                }
                Op::JumpUnless { condition, target } => {
                    if r[*condition as usize] == 0 {
                        let is_back = *target <= pc;
                        pc = *target;
                        if is_back && steps >= STEPS_AT_ONCE {
                            break;
                        }
                        continue;
                    }
                }
                Op::JumpUnlessEqual { a, value, target } => {
                    if r[*a as usize] != *value {
                        pc = *target;
                        continue;
                    }
                }
                Op::Count { counter } => r[*counter as usize] += 1,
                Op::Call { function, .. } => {
                    invocation.calls.push(pc + 1);
                    pc = *function;
                    continue;
                }
                Op::Return => match invocation.calls.pop() {
                    Some(after) => {
                        pc = after;
                        continue;
                    }
                    None => {
                        invocation.state = State::Ended;
                        break;
                    }
                },
                Op::End => {
                    invocation.state = State::Ended;
                    self.events += 1;
                    break;
                }
                Op::Barrier { .. } => {
                    invocation.state = State::AtBarrier;
                    self.events += 1;
                    break;
                }
                Op::Collective(_) => {
                    invocation.state = State::AtCollective;
                    self.events += 1;
                    break;
                }
                Op::Nothing => {}
            }
            pc += 1;
        }
        invocation.pc = pc;
        steps
    }

    fn index_out_of_bounds(&mut self, op: u32, who: Who, variable: u32, index: u32, count: u32) {
        let site = Site { op, who, kind: AccessKind::Index };
        let variable = (variable != IN_REGISTERS).then_some(variable);
        let detail = || format!("index {index} of {count} elements");
        self.findings.add(FindingKind::OutOfBounds, variable, site, None, detail);
    }
}

/// What an invocation has seen, with one more look.
fn look(sight: u64, op: u32, at: u32, value: u32) -> u64 {
    let place = (u64::from(op) << 32) | u64::from(at);
    ((sight ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ u64::from(value)) | 1
}
