//! Expressions.

use super::function::Frame;
use super::types::scalar;
use super::{Root, Value};
use crate::error::Unknown;
use crate::program::{Op, Register};
use crate::scalar::{Binary, Packing, Unary};
use naga::{BinaryOperator, Expression, Handle, RelationalFunction, ScalarKind, Span, TypeInner, UnaryOperator};

impl Frame<'_, '_> {
    /// Evaluates an expression where naga says so.
    pub(super) fn emit(&mut self, handle: Handle<Expression>) -> Result<(), Unknown> {
        let span = self.function.expressions.get_span(handle);
        let value = self.evaluated(handle).map_err(|e| e.at(span))?;
        self.values[handle.index()] = Some(value);
        Ok(())
    }

    pub(super) fn evaluated(&mut self, handle: Handle<Expression>) -> Result<Value, Unknown> {
        let span = self.function.expressions.get_span(handle);
        let ty = self.type_of(handle);
        Ok(Value::Register(match &self.function.expressions[handle] {
            Expression::Access { base, index } => {
                let index = self.register(*index)?;
                return self.access(span, *base, index);
            }
            Expression::AccessIndex { base, index } => return self.access_index(span, *base, *index),
            Expression::Compose { components, .. } => {
                let to = self.compiler.allocate(self.compiler.len(ty)?);
                let mut next = to;
                for component in components {
                    let (len, from) = (self.len_of(*component)?, self.register(*component)?);
                    self.push(span, Op::Copy { to: next, from, len });
                    next += len;
                }
                to
            }
            Expression::Splat { size, value } => {
                let (len, from) = (*size as u32, self.register(*value)?);
                let to = self.compiler.allocate(len);
                self.push(span, Op::Splat { to, from, len });
                to
            }
            Expression::Swizzle { size, vector, pattern } => {
                let from = self.register(*vector)?;
                let to = self.compiler.allocate(*size as u32);
                for (place, component) in pattern[..*size as usize].iter().enumerate() {
                    let (to, from) = (to + place as u32, from + *component as u32);
                    self.push(span, Op::Copy { to, from, len: 1 });
                }
                to
            }
            Expression::Load { pointer } => self.load(span, *pointer)?,
            Expression::Unary { op, expr } => {
                let is_float = scalar(ty)?.kind == ScalarKind::Float;
                let op = match op {
                    UnaryOperator::Negate if is_float => Unary::NegateFloat,
                    UnaryOperator::Negate => Unary::Negate,
                    UnaryOperator::LogicalNot => Unary::Not,
                    UnaryOperator::BitwiseNot => Unary::Complement,
                };
                let a = self.register(*expr)?;
                self.unary(span, op, self.compiler.len(ty)?, a)
            }
            Expression::Binary { op, left, right } => self.operator(span, ty, *op, *left, *right)?,
            Expression::Select { condition, accept, reject } => {
                let condition_step = u8::from(self.len_of(*condition)? > 1);
                let (condition, accept) = (self.register(*condition)?, self.register(*accept)?);
                let (reject, len) = (self.register(*reject)?, self.compiler.len(ty)?);
                let to = self.compiler.allocate(len);
                self.push(span, Op::Select { len, to, condition, accept, reject, condition_step });
                to
            }
            Expression::Relational { fun, argument } => {
                let (from, len) = (self.register(*argument)?, self.len_of(*argument)?);
                match fun {
                    RelationalFunction::IsNan => self.unary(span, Unary::IsNan, len, from),
                    RelationalFunction::IsInf => self.unary(span, Unary::IsInfinite, len, from),
                    RelationalFunction::All | RelationalFunction::Any => {
                        let (to, is_any) = (self.compiler.allocate(1), *fun == RelationalFunction::Any);
                        self.push(span, Op::AllOrAny { is_any, to, from, len });
                        to
                    }
                }
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let others = [*arg1, *arg2, *arg3].into_iter().flatten();
                let arguments: Vec<Handle<Expression>> = std::iter::once(*arg).chain(others).collect();
                self.math(span, ty, *fun, &arguments)?
            }
            Expression::As { expr, kind, convert } => self.cast(span, ty, *expr, *kind, *convert)?,
            Expression::ArrayLength(array) => {
                let pointer = self.pointer(*array)?;
                let target = self.compiler.pointee(self.type_of(*array))?;
                let (stride, _) = self.compiler.elements(&target, pointer.root)?;
                let Root::Variable(variable) = pointer.root else {
                    return Err(Unknown::new("the length of an array in registers"));
                };
                let to = self.compiler.allocate(1);
                self.push(span, Op::ArrayLength { to, variable, offset: pointer.at.offset, stride });
                to
            }
            Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
                self.matrix(span, handle)?
            }
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::ZeroValue(_)
            | Expression::FunctionArgument(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_) => return self.value(handle),
            other => return Err(Unknown::new(format!("the expression {other:?}"))),
        }))
    }

    pub(super) fn unary(&mut self, span: Span, op: Unary, len: u32, a: Register) -> Register {
        let to = self.compiler.allocate(len);
        self.push(span, Op::Unary { op, len, to, a });
        to
    }

    /// Rounds what was computed if its type is f16: registers have f32.
    pub(super) fn rounded(&mut self, span: Span, ty: &TypeInner, to: Register) -> Result<Register, Unknown> {
        let scalar = scalar(ty)?;
        if scalar.kind == ScalarKind::Float && scalar.width == 2 {
            let len = self.compiler.len(ty)?;
            self.push(span, Op::Unary { op: Unary::RoundToHalf, len, to, a: to });
        }
        Ok(to)
    }

    fn operator(
        &mut self,
        span: Span,
        ty: &TypeInner,
        operator: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Register, Unknown> {
        let (left_type, right_type) = (self.type_of(left), self.type_of(right));
        let (a, b) = (self.register(left)?, self.register(right)?);
        let len = self.compiler.len(ty)?;
        let to = self.compiler.allocate(len);
        let shape = |ty: &TypeInner| match ty {
            TypeInner::Matrix { columns, rows, .. } => Some((*rows as u32, *columns as u32)),
            _ => None,
        };
        let is_vector = |ty: &TypeInner| matches!(ty, TypeInner::Vector { .. });
        if operator == BinaryOperator::Multiply {
            let product = match (shape(left_type), shape(right_type)) {
                (Some((rows, inner)), Some((_, columns))) => Some((rows, inner, columns)),
                (Some((rows, inner)), None) if is_vector(right_type) => Some((rows, inner, 1)),
                (None, Some((inner, columns))) if is_vector(left_type) => Some((1, inner, columns)),
                _ => None,
            };
            if let Some((rows, inner, columns)) = product {
                self.push(span, Op::MatrixProduct { to, a, b, rows, inner, columns });
                return self.rounded(span, ty, to);
            }
        }
        let (op, is_swapped) = Binary::of(operator, scalar(left_type)?.kind);
        let step = |of: &Self, ty: &TypeInner| Ok(u8::from(of.compiler.len(ty)? > 1 || len == 1));
        let (a_step, b_step) = (step(self, left_type)?, step(self, right_type)?);
        let op = match is_swapped {
            true => Op::Binary { op, len, to, a: b, b: a, a_step: b_step, b_step: a_step },
            false => Op::Binary { op, len, to, a, b, a_step, b_step },
        };
        self.push(span, op);
        self.rounded(span, ty, to)
    }

    /// A conversion, or with `convert` as `None` another reading of the same bits.
    fn cast(
        &mut self,
        span: Span,
        ty: &TypeInner,
        value: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<u8>,
    ) -> Result<Register, Unknown> {
        let (from, a) = (scalar(self.type_of(value))?, self.register(value)?);
        let (from_len, len) = (self.len_of(value)?, self.compiler.len(ty)?);
        let Some(width) = convert else {
            let is_half = [from, scalar(ty)?].map(|s| s.width == 2 && s.kind == ScalarKind::Float);
            return match is_half {
                [true, false] => self.packed(span, Packing::PackHalves, a, (len, 1, 2)),
                [false, true] => self.packed(span, Packing::UnpackHalves, a, (from_len, 2, 1)),
                _ => Ok(a),
            };
        };
        let op = match (from.kind, kind) {
            (ScalarKind::Float, ScalarKind::Float) if width == 2 && from.width == 4 => Unary::RoundToHalf,
            (ScalarKind::Float, ScalarKind::Sint) => Unary::FloatToSigned,
            (ScalarKind::Float, ScalarKind::Uint) => Unary::FloatToUnsigned,
            (ScalarKind::Sint, ScalarKind::Float) => Unary::SignedToFloat,
            (ScalarKind::Uint | ScalarKind::Bool, ScalarKind::Float) => Unary::UnsignedToFloat,
            (ScalarKind::Float, ScalarKind::Bool) => Unary::FloatToBool,
            (_, ScalarKind::Bool) => Unary::IntegerToBool,
            _ => return Ok(a),
        };
        let to = self.unary(span, op, len, a);
        self.rounded(span, ty, to)
    }

    /// So many words packed or unpacked, each of `(words, registers of a result, registers of an operand)`.
    fn packed(
        &mut self,
        span: Span,
        op: Packing,
        from: Register,
        (words, to_len, from_len): (u32, u32, u32),
    ) -> Result<Register, Unknown> {
        let to = self.compiler.allocate(words * to_len);
        for word in 0..words {
            self.push(span, Op::Packing { op, to: to + word * to_len, from: from + word * from_len });
        }
        Ok(to)
    }
}
