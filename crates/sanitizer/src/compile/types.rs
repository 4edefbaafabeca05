//! Types in registers and in memory.

use super::{Compiler, Root};
use crate::error::Unknown;
use crate::program::{DYNAMIC, Layout, Width};
use naga::{ArraySize, Scalar, ScalarKind, TypeInner};

impl<'m> Compiler<'m> {
    /// Registers that a value of a type takes.
    pub(super) fn len(&self, ty: &TypeInner) -> Result<u32, Unknown> {
        Ok(match ty {
            TypeInner::Scalar(_) | TypeInner::Atomic(_) => 1,
            TypeInner::Vector { size, .. } => *size as u32,
            TypeInner::Matrix { columns, rows, .. } => *columns as u32 * *rows as u32,
            TypeInner::CooperativeMatrix { columns, rows, .. } => {
                (*columns as u32 * *rows as u32).div_ceil(self.program.subgroup_size)
            }
            TypeInner::Array { base, size: ArraySize::Constant(n), .. } => n.get() * self.len(self.inner(*base))?,
            TypeInner::Struct { members, .. } => {
                members.iter().try_fold(0, |sum, member| Ok(sum + self.len(self.inner(member.ty))?))?
            }
            TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => 1,
            other => return Err(Unknown::new(format!("values of the type {other:?}"))),
        })
    }

    /// Where the scalars of a type are in memory.
    pub(super) fn layout(&self, ty: &TypeInner) -> Result<Layout, Unknown> {
        let mut layout = Layout::new();
        self.lay_out(ty, 0, &mut layout)?;
        Ok(layout)
    }

    fn lay_out(&self, ty: &TypeInner, at: u32, layout: &mut Layout) -> Result<(), Unknown> {
        match ty {
            TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => layout.push((at, width(*scalar)?)),
            TypeInner::Vector { size, scalar } => {
                let width = width(*scalar)?;
                layout.extend((0..*size as u32).map(|i| (at + i * u32::from(scalar.width), width)));
            }
            TypeInner::Matrix { columns, rows, scalar } => {
                let width = width(*scalar)?;
                for column in 0..*columns as u32 {
                    let first = at + column * column_stride(*rows as u32, *scalar);
                    layout.extend((0..*rows as u32).map(|row| (first + row * u32::from(scalar.width), width)));
                }
            }
            TypeInner::Array { base, size: ArraySize::Constant(n), stride } => {
                for i in 0..n.get() {
                    self.lay_out(self.inner(*base), at + i * stride, layout)?;
                }
            }
            TypeInner::Struct { members, .. } => {
                for member in members {
                    self.lay_out(self.inner(member.ty), at + member.offset, layout)?;
                }
            }
            other => return Err(Unknown::new(format!("memory of the type {other:?}"))),
        }
        Ok(())
    }

    /// Bytes of the smallest scalar of a type, 4 at most.
    pub(super) fn granule(&self, ty: &TypeInner) -> u32 {
        match ty {
            TypeInner::Array { base, .. } => self.granule(self.inner(*base)),
            TypeInner::Struct { members, .. } => {
                members.iter().map(|member| self.granule(self.inner(member.ty))).min().unwrap_or(4)
            }
            other => scalar(other).map_or(4, |scalar| u32::from(scalar.width).clamp(1, 4)),
        }
    }

    /// Distance and number of the elements behind a pointer, in bytes or registers.
    pub(super) fn elements(&self, ty: &TypeInner, root: Root) -> Result<(u32, u32), Unknown> {
        let is_memory = matches!(root, Root::Variable(_));
        Ok(match ty {
            TypeInner::Array { base, size, stride } => {
                let count = match size {
                    ArraySize::Constant(n) => n.get(),
                    ArraySize::Dynamic => DYNAMIC,
                    ArraySize::Pending(_) => return Err(Unknown::new("an array whose length is an override")),
                };
                (if is_memory { *stride } else { self.len(self.inner(*base))? }, count)
            }
            TypeInner::Vector { size, scalar } => (if is_memory { scalar.width.into() } else { 1 }, *size as u32),
            TypeInner::Matrix { columns, rows, scalar } => {
                let registers = *rows as u32;
                (if is_memory { column_stride(registers, *scalar) } else { registers }, *columns as u32)
            }
            other => return Err(Unknown::new(format!("elements of the type {other:?}"))),
        })
    }

    /// The type behind a pointer.
    pub(super) fn pointee(&self, ty: &TypeInner) -> Result<TypeInner, Unknown> {
        Ok(match ty {
            TypeInner::Pointer { base, .. } => self.inner(*base).clone(),
            TypeInner::ValuePointer { size: None, scalar, .. } => TypeInner::Scalar(*scalar),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => {
                TypeInner::Vector { size: *size, scalar: *scalar }
            }
            other => return Err(Unknown::new(format!("a pointer of the type {other:?}"))),
        })
    }
}

/// The scalars of a type that has one kind of them.
pub(super) fn scalar(ty: &TypeInner) -> Result<Scalar, Unknown> {
    match ty {
        TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => Ok(*scalar),
        TypeInner::Vector { scalar, .. } | TypeInner::Matrix { scalar, .. } => Ok(*scalar),
        TypeInner::CooperativeMatrix { scalar, .. } => Ok(*scalar),
        other => Err(Unknown::new(format!("arithmetic on the type {other:?}"))),
    }
}

fn width(scalar: Scalar) -> Result<Width, Unknown> {
    match (scalar.kind, scalar.width) {
        (ScalarKind::Bool, _) => Ok(Width::Byte),
        (ScalarKind::Float, 2) => Ok(Width::Half),
        (_, 4) => Ok(Width::Word),
        _ => Err(Unknown::new(format!("{:?} of {} bits", scalar.kind, 8 * scalar.width))),
    }
}

fn column_stride(rows: u32, scalar: Scalar) -> u32 {
    (if rows == 2 { 2 } else { 4 }) * u32::from(scalar.width)
}
