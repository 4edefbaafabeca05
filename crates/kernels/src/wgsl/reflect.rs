//! A text, parsed and validated by naga, and what its module says. No GPU needed.

use super::{Text, TextError, bounds};
use crate::{Access, Arithmetic, Binding, Element, Facts, Feature, Precision};
use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{AddressSpace, Binding as Io, BuiltIn, Expression, Module, StorageAccess, TypeInner};
use std::collections::BTreeSet;

/// The variable that the stages of a persistent kernel share, one after another.
pub(crate) const SCRATCH: &str = "scratch";

/// The function that a stage calls once it has issued all loads that depend on no other stage.
pub(crate) const DEPENDENCY_WAIT: &str = "grid_dependency_wait";

/// What kernels are validated with: all that naga knows, subgroups too.
fn validator() -> Validator {
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    validator
}

/// Parses and validates; positions in errors are those of the files, not of the expanded text.
///
/// # Errors
/// What naga says, and where.
pub(crate) fn module(text: &Text) -> Result<(Module, ModuleInfo), TextError> {
    bounds::of_text(text)?;
    // An error without a place is one of the kernel.
    let error = |location: Option<naga::SourceLocation>, why| match location {
        Some(location) => text.error_at(location.line_number as usize, why),
        None => text.error_of_kernel(why),
    };
    let module = naga::front::wgsl::parse_str(text.text())
        .map_err(|e| error(e.location(text.text()), e.message().to_owned()))?;
    bounds::of_module(&module)
        .map_err(|(span, why)| error(span.is_defined().then(|| span.location(text.text())), why))?;
    let info = validator().validate(&module).map_err(|e| {
        let mut why = e.as_inner().to_string();
        let mut cause = std::error::Error::source(e.as_inner());
        while let Some(inner) = cause {
            why = format!("{why}: {inner}");
            cause = inner.source();
        }
        error(e.location(text.text()), why)
    })?;
    Ok((module, info))
}

/// The facts of a text. `operand` is the operand that is bound at a number, where that is not what the variable is called;
/// `needs` are the features that its files name, of which it may use no other.
///
/// # Errors
/// What naga says, no entry point `main`, or a feature that no file names.
pub(crate) fn reflect(
    text: &Text,
    precision: Precision,
    operand: &dyn Fn(u32) -> Option<String>,
    needs: &BTreeSet<Feature>,
) -> Result<Facts, TextError> {
    let (module, _) = module(text)?;
    let entry = module.entry_points.iter().find(|e| e.name == "main");
    let entry = entry.ok_or_else(|| text.error_of_kernel("there is no entry point 'main'".to_owned()))?;
    let mut facts = Facts {
        bindings: Vec::new(),
        workgroup_size: entry.workgroup_size,
        workgroup_memory: 0,
        scratch: 0,
        features: BTreeSet::new(),
        precision,
        arithmetic: Arithmetic::F32,
        has_dependency_wait: module.functions.iter().any(|(_, f)| f.name.as_deref() == Some(DEPENDENCY_WAIT)),
    };
    for (_, variable) in module.global_variables.iter() {
        let access = match variable.space {
            AddressSpace::Uniform => Access::Uniform,
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => Access::ReadWrite,
            AddressSpace::Storage { .. } => Access::Read,
            AddressSpace::WorkGroup => {
                let bytes = module.types[variable.ty].inner.size(module.to_ctx());
                // Past 32 bits it is beyond the limits of any device all the same.
                facts.workgroup_memory = facts.workgroup_memory.saturating_add(bytes);
                facts.scratch += if variable.name.as_deref() == Some(SCRATCH) { bytes / 16 } else { 0 };
                continue;
            }
            _ => continue,
        };
        if variable.memory_decorations.contains(naga::MemoryDecorations::COHERENT) {
            facts.features.insert(Feature::CoherentMemory);
        }
        if let (Some(name), Some(binding)) = (&variable.name, &variable.binding) {
            facts.bindings.push(Binding {
                name: operand(binding.binding).unwrap_or_else(|| name.clone()),
                number: binding.binding,
                access,
                element: element(&module, variable.ty),
            });
        }
    }
    facts.bindings.sort_by_key(|b| b.number);
    types(&module, &mut facts);
    module.functions.iter().for_each(|(_, f)| function(f, &mut facts));
    module.entry_points.iter().for_each(|e| function(&e.function, &mut facts));
    match facts.features.difference(needs).next() {
        Some(feature) => {
            Err(text.error_of_kernel(format!("it uses {feature}, which no file names: '// needs: {}'", feature.name())))
        }
        None => Ok(facts),
    }
}

fn types(module: &Module, facts: &mut Facts) {
    for (_, ty) in module.types.iter() {
        match &ty.inner {
            // WGSL has square ones of two sizes.
            TypeInner::CooperativeMatrix { columns, .. } => {
                facts.features.insert(match columns {
                    naga::CooperativeSize::Eight => Feature::CooperativeMatrix8,
                    naga::CooperativeSize::Sixteen => Feature::CooperativeMatrix,
                });
            }
            TypeInner::Scalar(s) | TypeInner::Vector { scalar: s, .. } | TypeInner::Matrix { scalar: s, .. }
                if *s == naga::Scalar::F16 =>
            {
                facts.features.insert(Feature::F16);
            }
            TypeInner::Struct { members, .. } if members.iter().any(|m| is_subgroup(m.binding.as_ref())) => {
                facts.features.insert(Feature::Subgroups);
            }
            _ => {}
        }
    }
}

fn is_subgroup(binding: Option<&Io>) -> bool {
    let io = [BuiltIn::NumSubgroups, BuiltIn::SubgroupId, BuiltIn::SubgroupSize, BuiltIn::SubgroupInvocationId];
    matches!(binding, Some(Io::BuiltIn(builtin)) if io.contains(builtin))
}

fn function(function: &naga::Function, facts: &mut Facts) {
    if function.arguments.iter().any(|a| is_subgroup(a.binding.as_ref())) {
        facts.features.insert(Feature::Subgroups);
    }
    for (_, expression) in function.expressions.iter() {
        match expression {
            Expression::SubgroupBallotResult | Expression::SubgroupOperationResult { .. } => {
                facts.features.insert(Feature::Subgroups);
            }
            Expression::CooperativeMultiplyAdd { .. } => facts.arithmetic = Arithmetic::Matrix,
            Expression::Math { fun: naga::MathFunction::Dot4I8Packed, .. } if facts.arithmetic == Arithmetic::F32 => {
                facts.arithmetic = Arithmetic::Int8;
            }
            _ => {}
        }
    }
}

/// What an array type is made of.
fn element(module: &Module, ty: naga::Handle<naga::Type>) -> Option<Element> {
    use naga::{Scalar as S, TypeInner as T, VectorSize as V};
    let T::Array { base, stride, .. } = module.types[ty].inner else { return None };
    let wgsl = match module.types[base].inner {
        T::Scalar(S::F32) => "f32",
        T::Scalar(S::U32) => "u32",
        T::Scalar(S::I32) => "i32",
        T::Vector { size: V::Bi, scalar: S::F32 } => "vec2<f32>",
        T::Vector { size: V::Quad, scalar: S::F32 } => "vec4<f32>",
        T::Vector { size: V::Bi, scalar: S::U32 } => "vec2<u32>",
        T::Vector { size: V::Quad, scalar: S::U32 } => "vec4<u32>",
        T::Vector { size: V::Quad, scalar: S::F16 } => "vec4<f16>",
        _ => return None,
    };
    Some(Element { wgsl, bytes: stride })
}
