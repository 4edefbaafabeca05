//! From naga's IR to a [`Program`].

mod collective;
mod constants;
mod expression;
mod function;
mod math;
mod pointer;
mod statement;
mod types;

use crate::error::Unknown;
use crate::program::{Builtin, Op, Place, Program, Register, Space, Variable, ZERO};
use function::{Code, Signature};
use naga::proc::Layouter;
use naga::valid::ModuleInfo;
use naga::{AddressSpace, Function, GlobalVariable, Handle, Module, TypeInner};
use std::collections::HashMap;

/// What is behind a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Root {
    Variable(u32),
    Registers,
}

/// A pointer, as far as it is known beforehand.
#[derive(Clone, Copy, Debug)]
struct Pointer {
    root: Root,
    at: Place,
    /// Whether it goes through an alias, whose elements have 16 bytes whatever its type says.
    is_alias: bool,
}

/// What an expression is.
#[derive(Clone, Copy, Debug)]
enum Value {
    Register(Register),
    Pointer(Pointer),
}

/// A function, and of each pointer that it is called with what is behind it and whether it goes through an alias.
type Instantiation = (Handle<Function>, Vec<(Root, bool)>);

/// The module that is compiled, and the program so far.
struct Compiler<'m> {
    module: &'m Module,
    info: &'m ModuleInfo,
    layouter: Layouter,
    aliases: &'m [String],
    program: Program,
    globals: Vec<Option<Pointer>>,
    literals: HashMap<u32, Register>,
    functions: Vec<Code>,
    signatures: HashMap<Instantiation, Signature>,
}

/// Compiles the first compute entry point for subgroups of that size. `aliases` are endings of names: a variable of the
/// workgroup `NAME_ENDING` stands for the memory of `NAME`.
pub(crate) fn compile(
    module: &Module,
    info: &ModuleInfo,
    entry: usize,
    subgroup_size: u32,
    aliases: &[String],
) -> Result<Program, Unknown> {
    let mut layouter = Layouter::default();
    layouter.update(module.to_ctx()).map_err(|e| Unknown::new(e.to_string()))?;
    let point = &module.entry_points[entry];
    let program = Program {
        workgroup_size: point.workgroup_size,
        subgroup_size,
        // Register 0 is always 0; set 0 of loops is empty.
        registers: vec![0],
        loops: vec![Vec::new()],
        ..Program::default()
    };
    let mut compiler = Compiler {
        module,
        info,
        layouter,
        aliases,
        program,
        globals: Vec::new(),
        literals: HashMap::new(),
        functions: Vec::new(),
        signatures: HashMap::new(),
    };
    for (handle, global) in module.global_variables.iter() {
        let pointer = compiler.global(global).map_err(|e| e.at(module.global_variables.get_span(handle)))?;
        compiler.globals.push(pointer);
    }
    let main = compiler.entry_point(&point.function, info.get_entry_point(entry))?;
    Ok(compiler.linked(main))
}

impl<'m> Compiler<'m> {
    fn inner(&self, ty: Handle<naga::Type>) -> &'m TypeInner {
        &self.module.types[ty].inner
    }

    /// That many registers, which begin with 0.
    fn allocate(&mut self, len: u32) -> Register {
        let first = self.program.registers.len();
        self.program.registers.resize(first + len as usize, 0);
        first as Register
    }

    /// A register that has a value from the beginning.
    fn literal(&mut self, bits: u32) -> Register {
        if let Some(register) = self.literals.get(&bits) {
            return *register;
        }
        let register = self.allocate(1);
        self.program.registers[register as usize] = bits;
        self.literals.insert(bits, register);
        register
    }

    /// Registers that have values from the beginning.
    fn literals(&mut self, bits: &[u32]) -> Register {
        if let [one] = bits {
            return self.literal(*one);
        }
        let first = self.allocate(bits.len() as u32);
        self.program.registers[first as usize..][..bits.len()].copy_from_slice(bits);
        first
    }

    fn global(&mut self, global: &'m GlobalVariable) -> Result<Option<Pointer>, Unknown> {
        let name = global.name.clone().unwrap_or_default();
        let ty = self.inner(global.ty);
        let space = match global.space {
            AddressSpace::Private => return self.private(global).map(Some),
            AddressSpace::WorkGroup => Space::Workgroup,
            AddressSpace::Uniform => Space::Uniform,
            AddressSpace::Storage { access } => {
                Space::Storage { is_writable: access.contains(naga::StorageAccess::STORE) }
            }
            // An image or a sampler: unknown where it is used.
            _ => return Ok(None),
        };
        if let Some(original) = self.aliased(&name, space) {
            let at = Place { base: ZERO, offset: 0 };
            return Ok(Some(Pointer { root: Root::Variable(original), at, is_alias: true }));
        }
        self.program.variables.push(Variable {
            name,
            space,
            binding: global.binding.as_ref().map(|b| (b.group, b.binding)),
            bytes: self.layouter[global.ty].size,
            granule: self.granule(ty),
            is_coherent: global.memory_decorations.contains(naga::MemoryDecorations::COHERENT),
        });
        let root = Root::Variable(self.program.variables.len() as u32 - 1);
        Ok(Some(Pointer { root, at: Place { base: ZERO, offset: 0 }, is_alias: false }))
    }

    /// The variable for whose memory one of that name stands.
    fn aliased(&self, name: &str, space: Space) -> Option<u32> {
        let original = self.aliases.iter().find_map(|ending| name.strip_suffix(ending.as_str()))?;
        let is_original = |v: &Variable| space == Space::Workgroup && v.space == space && v.name == original;
        self.program.variables.iter().position(is_original).map(|at| at as u32)
    }

    fn private(&mut self, global: &'m GlobalVariable) -> Result<Pointer, Unknown> {
        let len = self.len(self.inner(global.ty))?;
        let first = match global.init {
            Some(init) => {
                let mut bits = Vec::new();
                self.constant(&self.module.global_expressions, init, &mut bits)?;
                let first = self.allocate(len);
                self.program.registers[first as usize..][..bits.len()].copy_from_slice(&bits);
                first
            }
            None => self.allocate(len),
        };
        Ok(Pointer { root: Root::Registers, at: Place { base: ZERO, offset: first }, is_alias: false })
    }

    fn builtin(&mut self, binding: Option<&naga::Binding>, ty: &'m TypeInner, at: Register) -> Result<(), Unknown> {
        if let Some(naga::Binding::BuiltIn(builtin)) = binding {
            use naga::BuiltIn;
            let builtin = match builtin {
                BuiltIn::WorkGroupId => Builtin::WorkgroupId,
                BuiltIn::NumWorkGroups => Builtin::NumWorkgroups,
                BuiltIn::WorkGroupSize => Builtin::WorkgroupSize,
                BuiltIn::LocalInvocationIndex => Builtin::LocalIndex,
                BuiltIn::LocalInvocationId => Builtin::LocalId,
                BuiltIn::GlobalInvocationId => Builtin::GlobalId,
                BuiltIn::SubgroupId => Builtin::SubgroupId,
                BuiltIn::NumSubgroups => Builtin::NumSubgroups,
                BuiltIn::SubgroupInvocationId => Builtin::SubgroupLane,
                BuiltIn::SubgroupSize => Builtin::SubgroupSize,
                other => return Err(Unknown::new(format!("the built-in value {other:?}"))),
            };
            self.program.builtins.push((at, builtin));
            return Ok(());
        }
        let TypeInner::Struct { members, .. } = ty else {
            return Err(Unknown::new("an argument of the entry point that is no built-in value"));
        };
        let mut at = at;
        for member in members {
            self.builtin(member.binding.as_ref(), self.inner(member.ty), at)?;
            at += self.len(self.inner(member.ty))?;
        }
        Ok(())
    }

    /// The functions behind each other, and their calls and jumps with the places that result.
    fn linked(self, main: usize) -> Program {
        let mut starts = Vec::new();
        let mut next = 0;
        for code in &self.functions {
            starts.push(next);
            next += code.ops.len() as u32;
        }
        let mut program = self.program;
        program.entry = starts[main];
        for (number, code) in self.functions.into_iter().enumerate() {
            let start = starts[number];
            for mut op in code.ops {
                match &mut op {
                    Op::Jump { target } | Op::JumpUnless { target, .. } | Op::JumpUnlessEqual { target, .. } => {
                        *target += start;
                    }
                    Op::Call { function, .. } => *function = starts[*function as usize],
                    _ => {}
                }
                program.ops.push(op);
            }
            program.guards.extend(code.guards.into_iter().map(|(at, guard)| (at + start, guard)));
            program.functions.resize(program.ops.len(), number as u32);
            program.spans.extend(code.spans);
            program.function_names.push(code.name);
        }
        program
    }
}
