//! What naga knows of a kernel: validated, its bindings, its workgroup size and memory. No GPU needed.

use crate::SpecialiseError;
use crate::specialise::Specialised;
use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, StorageAccess};

/// What a kernel binds, by operand name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The WGSL variable: an operand's name, `y` or `params`.
    pub name: String,
    /// Binding number in group 0.
    pub number: u32,
    /// How it is accessed.
    pub access: Access,
    /// What it is an array of, if it is one of scalars or vectors.
    pub element: Option<Element>,
}

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Element {
    /// As WGSL writes it.
    pub wgsl: &'static str,
    /// Bytes from one to the next.
    pub bytes: u32,
}

/// How a binding is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The uniform block.
    Uniform,
    /// A read-only storage buffer.
    Read,
    /// A storage buffer that is written.
    ReadWrite,
}

/// A validated kernel's interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    /// In order of their numbers.
    pub bindings: Vec<Binding>,
    /// Invocations of a workgroup.
    pub workgroup_size: [u32; 3],
    /// Bytes of workgroup memory.
    pub workgroup_memory: u32,
    /// Elements of 16 bytes of the variable `room`, which the stages of a persistent step share.
    pub room: u32,
}

/// What kernels are validated with: all that naga knows, subgroups too.
pub fn validator() -> Validator {
    let mut validator = Validator::new(ValidationFlags::all(), Capabilities::all());
    validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE);
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    validator
}

/// Parses and validates; positions in errors are those of the files, not of the expanded text.
pub(crate) fn reflect(specialised: &Specialised) -> Result<Reflection, SpecialiseError> {
    let locate = |line: u32| specialised.origin.get(line.saturating_sub(1) as usize).copied().unwrap_or(("?", 0));
    let text = specialised.text.as_str();
    let module = naga::front::wgsl::parse_str(text).map_err(|e| {
        let line = e.location(text).map_or(0, |l| l.line_number);
        SpecialiseError::at(locate(line), e.message().to_owned())
    })?;
    validator().validate(&module).map_err(|e| {
        let line = e.location(text).map_or(0, |l| l.line_number);
        let mut why = e.as_inner().to_string();
        let mut cause = std::error::Error::source(e.as_inner());
        while let Some(inner) = cause {
            why = format!("{why}: {inner}");
            cause = inner.source();
        }
        SpecialiseError::at(locate(line), why)
    })?;

    let mut bindings = Vec::new();
    let (mut workgroup_memory, mut room) = (0, 0);
    let gctx = module.to_ctx();
    for (_, variable) in module.global_variables.iter() {
        let access = match variable.space {
            AddressSpace::Uniform => Access::Uniform,
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => Access::ReadWrite,
            AddressSpace::Storage { .. } => Access::Read,
            AddressSpace::WorkGroup => {
                let bytes = module.types[variable.ty].inner.size(gctx);
                workgroup_memory += bytes;
                room += if variable.name.as_deref() == Some("room") { bytes / 16 } else { 0 };
                continue;
            }
            _ => continue,
        };
        if let (Some(name), Some(binding)) = (&variable.name, &variable.binding) {
            bindings.push(Binding {
                name: name.clone(),
                number: binding.binding,
                access,
                element: element(&module, variable.ty),
            });
        }
    }
    bindings.sort_by_key(|b| b.number);
    let entry = module.entry_points.iter().find(|e| e.name == "main");
    let workgroup_size = entry.map(|e| e.workgroup_size).ok_or_else(|| {
        SpecialiseError::at(
            specialised.origin.last().copied().unwrap_or(("?", 0)),
            "there is no entry point 'main'".into(),
        )
    })?;
    Ok(Reflection { bindings, workgroup_size, workgroup_memory, room })
}

/// What an array type is made of.
fn element(module: &naga::Module, ty: naga::Handle<naga::Type>) -> Option<Element> {
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
