//! Statements: control flow, stores, atomic operations, barriers, calls.

use super::function::{Exits, Frame};
use super::types::scalar;
use super::{Pointer, Root, Value};
use crate::error::Unknown;
use crate::program::{Change, Guard, Op, ZERO};
use crate::scalar::Binary;
use naga::{
    AtomicFunction, Barrier, Block, Expression, Function, Handle, ScalarKind, Span, Statement, SwitchCase, SwitchValue,
};

impl<'m> Frame<'_, 'm> {
    pub(super) fn block(&mut self, block: &'m Block) -> Result<(), Unknown> {
        block.span_iter().try_for_each(|(statement, span)| self.statement(statement, *span).map_err(|e| e.at(*span)))
    }

    fn statement(&mut self, statement: &'m Statement, span: Span) -> Result<(), Unknown> {
        match statement {
            Statement::Emit(range) => range.clone().try_for_each(|handle| self.emit(handle))?,
            Statement::Block(block) => self.block(block)?,
            Statement::If { condition, accept, reject } => self.branch(span, *condition, accept, reject)?,
            Statement::Switch { selector, cases } => self.switch(span, *selector, cases)?,
            Statement::Loop { body, continuing, break_if } => self.repeat(span, body, continuing, *break_if)?,
            Statement::Break => {
                let jump = self.push(span, Op::Jump { target: 0 });
                self.exits.last_mut().ok_or_else(|| Unknown::new("a break outside of a loop"))?.breaks.push(jump);
            }
            Statement::Continue => {
                let jump = self.push(span, Op::Jump { target: 0 });
                let innermost = self.exits.iter_mut().rev().find(|exits| exits.is_loop);
                innermost.ok_or_else(|| Unknown::new("a continue outside of a loop"))?.continues.push(jump);
            }
            Statement::Return { value } => {
                if let Some(value) = value {
                    let (len, from) = (self.len_of(*value)?, self.register(*value)?);
                    self.push(span, Op::Copy { to: self.result, from, len });
                }
                self.leave(span);
            }
            Statement::ControlBarrier(barrier) => {
                let known = Barrier::STORAGE | Barrier::WORK_GROUP;
                if barrier.is_empty() || !known.contains(*barrier) {
                    return Err(Unknown::new(format!("the barrier {barrier:?}")));
                }
                self.barrier(span, barrier.contains(Barrier::STORAGE), barrier.contains(Barrier::WORK_GROUP));
            }
            Statement::Store { pointer, value } => self.store(span, *pointer, *value)?,
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(span, *pointer, fun, *value, *result)?;
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.barrier(span, false, true);
                let to = self.load(span, *pointer)?;
                self.barrier(span, false, true);
                self.values[result.index()] = Some(Value::Register(to));
            }
            Statement::Call { function, arguments, result } => self.call(span, *function, arguments, *result)?,
            Statement::CooperativeStore { target, data } => self.matrix_store(span, *target, data)?,
            other => self.subgroup(span, other)?,
        }
        Ok(())
    }

    fn barrier(&mut self, span: Span, is_storage: bool, is_workgroup: bool) {
        let loops = self.loops();
        self.push(span, Op::Barrier { is_storage, is_workgroup, loops });
    }

    fn branch(
        &mut self,
        span: Span,
        condition: Handle<Expression>,
        accept: &'m Block,
        reject: &'m Block,
    ) -> Result<(), Unknown> {
        let compares = match &self.function.expressions[condition] {
            Expression::Binary { op, left, .. } => Binary::of(*op, scalar(self.type_of(*left))?.kind).0.is_order(),
            _ => false,
        };
        let condition = self.register(condition)?;
        let to_reject = self.push(span, Op::JumpUnless { condition, target: 0 });
        if compares && reject.is_empty() {
            let leaves = |s: &Statement| matches!(s, Statement::Return { .. } | Statement::Break | Statement::Continue);
            let guard = if accept.last().is_some_and(leaves) { Guard::Exit } else { Guard::Around };
            self.code.guards.push((to_reject as u32, guard));
        }
        self.block(accept)?;
        if reject.is_empty() {
            self.land(to_reject);
            return Ok(());
        }
        let to_end = self.push(span, Op::Jump { target: 0 });
        self.land(to_reject);
        self.block(reject)?;
        self.land(to_end);
        Ok(())
    }

    /// All tests, then all bodies.
    fn switch(&mut self, span: Span, selector: Handle<Expression>, cases: &'m [SwitchCase]) -> Result<(), Unknown> {
        let a = self.register(selector)?;
        let mut to_bodies = Vec::new();
        for case in cases {
            let value = match case.value {
                SwitchValue::I32(value) => value as u32,
                SwitchValue::U32(value) => value,
                SwitchValue::Default => {
                    to_bodies.push(None);
                    continue;
                }
            };
            let skip = self.push(span, Op::JumpUnlessEqual { a, value, target: 0 });
            to_bodies.push(Some(self.push(span, Op::Jump { target: 0 })));
            self.land(skip);
        }
        let to_default = self.push(span, Op::Jump { target: 0 });
        self.exits.push(Exits::default());
        let mut has_default = false;
        for (case, to_body) in cases.iter().zip(to_bodies) {
            has_default |= to_body.is_none();
            self.land(to_body.unwrap_or(to_default));
            self.block(&case.body)?;
            if !case.fall_through {
                let jump = self.push(span, Op::Jump { target: 0 });
                self.exits.iter_mut().last().into_iter().for_each(|exits| exits.breaks.push(jump));
            }
        }
        if !has_default {
            self.land(to_default);
        }
        let exits = self.exits.pop().unwrap_or_default();
        exits.breaks.into_iter().for_each(|jump| self.land(jump));
        Ok(())
    }

    fn repeat(
        &mut self,
        span: Span,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Result<(), Unknown> {
        // Where invocations meet they have to be in one iteration.
        let is_counted = self.meets(body) || self.meets(continuing);
        if is_counted {
            let counter = self.compiler.allocate(1);
            self.push(span, Op::Zero { to: counter, len: 1 });
            self.counters.push(counter);
        }
        let start = self.here();
        if let Some(counter) = self.counters.last().copied().filter(|_| is_counted) {
            self.push(span, Op::Count { counter });
        }
        self.exits.push(Exits { is_loop: true, ..Exits::default() });
        self.block(body)?;
        let continues = self.exits.last_mut().map(|exits| std::mem::take(&mut exits.continues));
        continues.into_iter().flatten().for_each(|jump| self.land(jump));
        self.block(continuing)?;
        let back = match break_if {
            Some(condition) => Op::JumpUnless { condition: self.register(condition)?, target: start },
            None => Op::Jump { target: start },
        };
        self.push(span, back);
        let exits = self.exits.pop().unwrap_or_default();
        exits.breaks.into_iter().for_each(|jump| self.land(jump));
        if is_counted {
            self.counters.pop();
        }
        Ok(())
    }

    /// Whether a block has something at which invocations meet.
    fn meets(&self, block: &Block) -> bool {
        block.iter().any(|statement| match statement {
            Statement::Emit(range) => range.clone().any(|handle| {
                let expression = &self.function.expressions[handle];
                let matrix = matches!(expression, Expression::CooperativeLoad { .. });
                matrix || matches!(expression, Expression::CooperativeMultiplyAdd { .. })
            }),
            Statement::Block(block) => self.meets(block),
            Statement::If { accept, reject, .. } => self.meets(accept) || self.meets(reject),
            Statement::Switch { cases, .. } => cases.iter().any(|case| self.meets(&case.body)),
            Statement::Loop { body, continuing, .. } => self.meets(body) || self.meets(continuing),
            Statement::Return { .. } | Statement::Break | Statement::Continue => false,
            Statement::Store { .. } | Statement::Atomic { .. } => false,
            _ => true,
        })
    }

    fn atomic(
        &mut self,
        span: Span,
        place: Handle<Expression>,
        function: &AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Result<(), Unknown> {
        let pointer = self.pointer(place)?;
        let Root::Variable(variable) = pointer.root else {
            return Err(Unknown::new("an atomic operation on registers"));
        };
        let ty = scalar(&self.compiler.pointee(self.type_of(place))?)?;
        if ty.width != 4 || ty.kind == ScalarKind::Float {
            return Err(Unknown::new(format!("atomic operations on {:?} of {} bits", ty.kind, 8 * ty.width)));
        }
        let is_signed = ty.kind == ScalarKind::Sint;
        let mut compare = ZERO;
        let change = match function {
            AtomicFunction::Add => Change::Add,
            AtomicFunction::Subtract => Change::Subtract,
            AtomicFunction::And => Change::And,
            AtomicFunction::ExclusiveOr => Change::Xor,
            AtomicFunction::InclusiveOr => Change::Or,
            AtomicFunction::Min if is_signed => Change::MinSigned,
            AtomicFunction::Min => Change::MinUnsigned,
            AtomicFunction::Max if is_signed => Change::MaxSigned,
            AtomicFunction::Max => Change::MaxUnsigned,
            AtomicFunction::Exchange { compare: None } => Change::Exchange,
            AtomicFunction::Exchange { compare: Some(handle) } => {
                compare = self.register(*handle)?;
                Change::CompareExchange
            }
        };
        let value = self.register(value)?;
        let to = self.compiler.allocate(2);
        self.push(span, Op::AtomicChange { change, to, variable, at: pointer.at, value, compare });
        if let Some(result) = result {
            self.values[result.index()] = Some(Value::Register(to));
        }
        Ok(())
    }

    fn call(
        &mut self,
        span: Span,
        function: Handle<Function>,
        arguments: &[Handle<Expression>],
        result: Option<Handle<Expression>>,
    ) -> Result<(), Unknown> {
        let mut values = Vec::new();
        for argument in arguments {
            values.push(self.value(*argument)?);
        }
        let behind = |value: &Value| match value {
            Value::Pointer(pointer) => Some(*pointer),
            Value::Register(_) => None,
        };
        let pointers: Vec<Pointer> = values.iter().filter_map(behind).collect();
        let signature = self.compiler.signature(function, pointers)?;
        for ((value, to), argument) in values.into_iter().zip(&signature.arguments).zip(arguments) {
            match (value, *to) {
                (Value::Register(from), Value::Register(to)) => {
                    let len = self.len_of(*argument)?;
                    self.push(span, Op::Copy { to, from, len });
                }
                (Value::Pointer(Pointer { at, .. }), Value::Pointer(to)) => {
                    let (to, b) = (to.at.base, self.compiler.literal(at.offset));
                    let op = Binary::Add;
                    self.push(span, Op::Binary { op, len: 1, to, a: at.base, b, a_step: 1, b_step: 1 });
                }
                _ => return Err(Unknown::new("an argument that is both a value and a pointer")),
            }
        }
        let loops = self.loops();
        self.push(span, Op::Call { function: signature.number as u32, loops });
        if let Some(result) = result {
            let len = self.len_of(result)?;
            let to = self.compiler.allocate(len);
            self.push(span, Op::Copy { to, from: signature.result, len });
            self.values[result.index()] = Some(Value::Register(to));
        }
        Ok(())
    }
}
