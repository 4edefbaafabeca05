//! Values that are known beforehand.

use super::Compiler;
use crate::error::Unknown;
use naga::{Arena, Expression, Handle, Literal};

impl<'m> Compiler<'m> {
    /// Adds the registers of a constant expression.
    pub(super) fn constant(
        &self,
        arena: &'m Arena<Expression>,
        handle: Handle<Expression>,
        bits: &mut Vec<u32>,
    ) -> Result<(), Unknown> {
        let unknown = |what: String| Unknown::new(what).at(arena.get_span(handle));
        match &arena[handle] {
            Expression::Literal(value) => {
                bits.push(literal(value).ok_or_else(|| unknown(format!("the literal {value:?}")))?);
            }
            Expression::Constant(constant) => {
                self.constant(&self.module.global_expressions, self.module.constants[*constant].init, bits)?;
            }
            Expression::ZeroValue(ty) => bits.resize(bits.len() + self.len(self.inner(*ty))? as usize, 0),
            Expression::Compose { components, .. } => {
                for component in components {
                    self.constant(arena, *component, bits)?;
                }
            }
            Expression::Splat { size, value } => {
                for _ in 0..*size as u32 {
                    self.constant(arena, *value, bits)?;
                }
            }
            other => return Err(unknown(format!("the constant {other:?}"))),
        }
        Ok(())
    }
}

fn literal(value: &Literal) -> Option<u32> {
    Some(match value {
        Literal::F32(x) => x.to_bits(),
        Literal::F16(x) => x.to_f32().to_bits(),
        Literal::U32(x) => *x,
        Literal::I32(x) => *x as u32,
        Literal::Bool(x) => u32::from(*x),
        _ => return None,
    })
}
