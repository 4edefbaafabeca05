//! Functions: frames, arguments and results. A function with pointers as arguments is compiled once for each choice of
//! what is behind them.

use super::{Compiler, Pointer, Root, Value};
use crate::error::Unknown;
use crate::program::{Guard, Op, Place, Register};
use naga::valid::FunctionInfo;
use naga::{AddressSpace, Expression, Function, Handle, LocalVariable, Span, TypeInner};
use std::collections::HashMap;

/// The instructions of a function. Targets count from its first.
#[derive(Default)]
pub(super) struct Code {
    pub(super) name: String,
    pub(super) ops: Vec<Op>,
    pub(super) spans: Vec<Span>,
    pub(super) guards: Vec<(u32, Guard)>,
}

/// How a compiled function is called.
#[derive(Clone)]
pub(super) struct Signature {
    pub(super) number: usize,
    pub(super) arguments: Vec<Value>,
    pub(super) result: Register,
}

/// Jumps out of a loop or switch, still without their targets.
#[derive(Default)]
pub(super) struct Exits {
    pub(super) breaks: Vec<usize>,
    pub(super) continues: Vec<usize>,
    pub(super) is_loop: bool,
}

/// A function while it is compiled.
pub(super) struct Frame<'c, 'm> {
    pub(super) compiler: &'c mut Compiler<'m>,
    pub(super) function: &'m Function,
    pub(super) info: &'m FunctionInfo,
    pub(super) values: Vec<Option<Value>>,
    pub(super) locals: HashMap<Handle<LocalVariable>, Register>,
    pub(super) arguments: Vec<Value>,
    pub(super) result: Register,
    pub(super) exits: Vec<Exits>,
    /// Counters of the loops around the next instruction.
    pub(super) counters: Vec<Register>,
    pub(super) is_entry: bool,
    pub(super) code: Code,
}

impl<'m> Compiler<'m> {
    pub(super) fn entry_point(&mut self, function: &'m Function, info: &'m FunctionInfo) -> Result<usize, Unknown> {
        let mut arguments = Vec::new();
        for argument in &function.arguments {
            let ty = self.inner(argument.ty);
            let at = self.allocate(self.len(ty)?);
            self.builtin(argument.binding.as_ref(), ty, at)?;
            arguments.push(Value::Register(at));
        }
        self.body(function, info, arguments, 0, true)
    }

    /// A function for what its pointers have behind them, compiled if it is not yet.
    pub(super) fn signature(&mut self, handle: Handle<Function>, pointers: Vec<Pointer>) -> Result<Signature, Unknown> {
        let key = (handle, pointers.iter().map(|p| (p.root, p.is_alias)).collect::<Vec<_>>());
        if let Some(signature) = self.signatures.get(&key) {
            return Ok(signature.clone());
        }
        let function = &self.module.functions[handle];
        let mut arguments = Vec::new();
        let mut behind = pointers.into_iter();
        for argument in &function.arguments {
            let ty = self.inner(argument.ty);
            let at = self.allocate(self.len(ty)?);
            arguments.push(match ty {
                TypeInner::Pointer { space, .. } | TypeInner::ValuePointer { space, .. } => {
                    let pointer = behind.next().filter(|_| *space != AddressSpace::Handle);
                    let pointer = pointer.ok_or_else(|| Unknown::new("a pointer of this kind as an argument"))?;
                    Value::Pointer(Pointer { at: Place { base: at, offset: 0 }, ..pointer })
                }
                _ => Value::Register(at),
            });
        }
        let result = match &function.result {
            Some(result) => self.allocate(self.len(self.inner(result.ty))?),
            None => 0,
        };
        let number = self.body(function, &self.info[handle], arguments.clone(), result, false)?;
        let signature = Signature { number, arguments, result };
        self.signatures.insert(key, signature.clone());
        Ok(signature)
    }

    fn body(
        &mut self,
        function: &'m Function,
        info: &'m FunctionInfo,
        arguments: Vec<Value>,
        result: Register,
        is_entry: bool,
    ) -> Result<usize, Unknown> {
        let name = function.name.clone().unwrap_or_else(|| "main".to_owned());
        let mut frame = Frame {
            compiler: self,
            function,
            info,
            values: vec![None; function.expressions.len()],
            locals: HashMap::new(),
            arguments,
            result,
            exits: Vec::new(),
            counters: Vec::new(),
            is_entry,
            code: Code { name, ..Code::default() },
        };
        frame.local_variables()?;
        frame.block(&function.body)?;
        frame.leave(Span::UNDEFINED);
        let code = frame.code;
        self.functions.push(code);
        Ok(self.functions.len() - 1)
    }
}

impl<'m> Frame<'_, 'm> {
    fn local_variables(&mut self) -> Result<(), Unknown> {
        for (handle, local) in self.function.local_variables.iter() {
            let len = self.compiler.len(self.compiler.inner(local.ty))?;
            let to = self.compiler.allocate(len);
            self.locals.insert(handle, to);
            let span = self.function.local_variables.get_span(handle);
            let op = match local.init {
                Some(init) => Op::Copy { to, from: self.register(init)?, len },
                None => Op::Zero { to, len },
            };
            self.push(span, op);
        }
        Ok(())
    }

    /// Adds an instruction; its place in the function.
    pub(super) fn push(&mut self, span: Span, op: Op) -> usize {
        self.code.ops.push(op);
        self.code.spans.push(span);
        self.code.ops.len() - 1
    }

    /// Where the next instruction will be.
    pub(super) fn here(&self) -> u32 {
        self.code.ops.len() as u32
    }

    /// Has a jump lead to the next instruction.
    pub(super) fn land(&mut self, jump: usize) {
        let here = self.here();
        if let Op::Jump { target } | Op::JumpUnless { target, .. } | Op::JumpUnlessEqual { target, .. } =
            &mut self.code.ops[jump]
        {
            *target = here;
        }
    }

    pub(super) fn leave(&mut self, span: Span) {
        self.push(span, if self.is_entry { Op::End } else { Op::Return });
    }

    pub(super) fn type_of(&self, handle: Handle<Expression>) -> &'m TypeInner {
        self.info[handle].ty.inner_with(&self.compiler.module.types)
    }

    /// Registers that an expression takes.
    pub(super) fn len_of(&self, handle: Handle<Expression>) -> Result<u32, Unknown> {
        self.compiler.len(self.type_of(handle))
    }

    /// What an expression is. One that was not evaluated yet is a constant, a variable, or a pointer of a matrix
    /// operation, which naga does not list among what is evaluated.
    pub(super) fn value(&mut self, handle: Handle<Expression>) -> Result<Value, Unknown> {
        if let Some(value) = self.values[handle.index()] {
            return Ok(value);
        }
        let value = match &self.function.expressions[handle] {
            Expression::FunctionArgument(number) => self.arguments[*number as usize],
            Expression::GlobalVariable(global) => {
                let pointer = self.compiler.globals[global.index()];
                Value::Pointer(pointer.ok_or_else(|| Unknown::new("images and samplers"))?)
            }
            Expression::LocalVariable(local) => {
                let at = Place { base: crate::program::ZERO, offset: self.locals[local] };
                Value::Pointer(Pointer { root: Root::Registers, at, is_alias: false })
            }
            Expression::Access { .. } | Expression::AccessIndex { .. } => return self.evaluated(handle),
            _ => {
                let mut bits = Vec::new();
                self.compiler.constant(&self.function.expressions, handle, &mut bits)?;
                Value::Register(self.compiler.literals(&bits))
            }
        };
        self.values[handle.index()] = Some(value);
        Ok(value)
    }

    pub(super) fn register(&mut self, handle: Handle<Expression>) -> Result<Register, Unknown> {
        match self.value(handle)? {
            Value::Register(register) => Ok(register),
            Value::Pointer(_) => Err(Unknown::new("a pointer as a value")),
        }
    }

    pub(super) fn pointer(&mut self, handle: Handle<Expression>) -> Result<Pointer, Unknown> {
        match self.value(handle)? {
            Value::Pointer(pointer) => Ok(pointer),
            Value::Register(_) => Err(Unknown::new("a value as a pointer")),
        }
    }

    /// The number of the set of counters of the loops around.
    pub(super) fn loops(&mut self) -> u32 {
        let sets = &mut self.compiler.program.loops;
        let number = sets.iter().position(|set| *set == self.counters).unwrap_or_else(|| {
            sets.push(self.counters.clone());
            sets.len() - 1
        });
        number as u32
    }
}
