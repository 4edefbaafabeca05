//! Pointers, loads and stores.

use super::function::Frame;
use super::{Pointer, Root, Value};
use crate::error::Unknown;
use crate::program::{DYNAMIC, IN_REGISTERS, Op, Place, Register, Width};
use naga::{Expression, Handle, Span, TypeInner};

/// Bytes of an element of memory that is read through an alias.
const ALIAS_STRIDE: u32 = 16;

impl Frame<'_, '_> {
    /// The element of `base` at an index that is known when it runs.
    pub(super) fn access(&mut self, span: Span, base: Handle<Expression>, index: Register) -> Result<Value, Unknown> {
        match self.value(base)? {
            Value::Pointer(pointer) => {
                let target = self.compiler.pointee(self.type_of(base))?;
                let (stride, count) = self.elements(&target, pointer)?;
                Ok(self.element(span, pointer, index, stride, count))
            }
            Value::Register(from) => {
                let (len, count) = self.compiler.elements(self.type_of(base), Root::Registers)?;
                let to = self.compiler.allocate(len);
                self.push(span, Op::Pick { to, from, index, len, count });
                Ok(Value::Register(to))
            }
        }
    }

    /// The element or member of `base` at an index that is known now.
    pub(super) fn access_index(&mut self, span: Span, base: Handle<Expression>, index: u32) -> Result<Value, Unknown> {
        let ty = self.type_of(base);
        match self.value(base)? {
            Value::Pointer(pointer) => {
                let target = self.compiler.pointee(ty)?;
                let offset = match (&target, pointer.root) {
                    (TypeInner::Struct { members, .. }, Root::Variable(_)) => members[index as usize].offset,
                    (TypeInner::Struct { members, .. }, Root::Registers) => self.member(members, index)?,
                    _ => {
                        let (stride, count) = self.elements(&target, pointer)?;
                        // It may be past what is bound.
                        if count == DYNAMIC || pointer.is_alias {
                            let index = self.compiler.literal(index);
                            return Ok(self.element(span, pointer, index, stride, count));
                        }
                        index * stride
                    }
                };
                let at = Place { offset: pointer.at.offset + offset, ..pointer.at };
                Ok(Value::Pointer(Pointer { at, ..pointer }))
            }
            Value::Register(from) => Ok(Value::Register(match ty {
                TypeInner::Struct { members, .. } => from + self.member(members, index)?,
                _ => from + index * self.compiler.elements(ty, Root::Registers)?.0,
            })),
        }
    }

    /// Registers before a member.
    fn member(&self, members: &[naga::StructMember], index: u32) -> Result<u32, Unknown> {
        let before = &members[..index as usize];
        before.iter().try_fold(0, |sum, member| Ok(sum + self.compiler.len(self.compiler.inner(member.ty))?))
    }

    fn elements(&self, target: &TypeInner, pointer: Pointer) -> Result<(u32, u32), Unknown> {
        match pointer.root {
            Root::Variable(number) if pointer.is_alias => {
                Ok((ALIAS_STRIDE, self.compiler.program.variables[number as usize].bytes / ALIAS_STRIDE))
            }
            root => self.compiler.elements(target, root),
        }
    }

    fn element(&mut self, span: Span, pointer: Pointer, index: Register, stride: u32, count: u32) -> Value {
        let variable = match pointer.root {
            Root::Variable(number) => number,
            Root::Registers => IN_REGISTERS,
        };
        let to = self.compiler.allocate(1);
        self.push(span, Op::Element { to, at: pointer.at, index, stride, count, variable });
        Value::Pointer(Pointer { at: Place { base: to, offset: 0 }, ..pointer })
    }

    pub(super) fn load(&mut self, span: Span, handle: Handle<Expression>) -> Result<Register, Unknown> {
        let pointer = self.pointer(handle)?;
        let target = self.compiler.pointee(self.type_of(handle))?;
        let (len, at) = (self.compiler.len(&target)?, pointer.at);
        let to = self.compiler.allocate(len);
        let op = match (pointer.root, &target) {
            (Root::Registers, _) => Op::LoadRegisters { to, at, len },
            (Root::Variable(variable), TypeInner::Atomic(_)) => Op::AtomicLoad { to, variable, at },
            (Root::Variable(variable), _) => match self.layout(&target)? {
                Some(layout) => Op::Load { to, variable, at, layout },
                None => Op::LoadWords { to, variable, at, len },
            },
        };
        self.push(span, op);
        Ok(to)
    }

    pub(super) fn store(
        &mut self,
        span: Span,
        handle: Handle<Expression>,
        value: Handle<Expression>,
    ) -> Result<(), Unknown> {
        let (pointer, from) = (self.pointer(handle)?, self.register(value)?);
        let target = self.compiler.pointee(self.type_of(handle))?;
        let (len, at) = (self.compiler.len(&target)?, pointer.at);
        let op = match (pointer.root, &target) {
            (Root::Registers, _) => Op::StoreRegisters { at, from, len },
            (Root::Variable(variable), TypeInner::Atomic(_)) => Op::AtomicStore { from, variable, at },
            (Root::Variable(variable), _) => match self.layout(&target)? {
                Some(layout) => Op::Store { from, variable, at, layout },
                None => Op::StoreWords { from, variable, at, len },
            },
        };
        self.push(span, op);
        Ok(())
    }

    /// The number of a type's layout; `None` if it is words that follow each other.
    fn layout(&mut self, ty: &TypeInner) -> Result<Option<u32>, Unknown> {
        let layout = self.compiler.layout(ty)?;
        if layout.iter().enumerate().all(|(i, scalar)| *scalar == (4 * i as u32, Width::Word)) {
            return Ok(None);
        }
        let layouts = &mut self.compiler.program.layouts;
        let number = layouts.iter().position(|known| *known == layout).unwrap_or_else(|| {
            layouts.push(layout);
            layouts.len() - 1
        });
        Ok(Some(number as u32))
    }
}
