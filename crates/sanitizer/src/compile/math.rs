//! Built-in functions.

use super::function::Frame;
use super::types::scalar;
use crate::error::Unknown;
use crate::program::{Guard, Op, Register};
use crate::scalar::{Binary, Packing, Ternary, Unary};
use naga::{Expression, Handle, MathFunction, ScalarKind, Span, TypeInner};

impl Frame<'_, '_> {
    pub(super) fn math(
        &mut self,
        span: Span,
        ty: &TypeInner,
        function: MathFunction,
        arguments: &[Handle<Expression>],
    ) -> Result<Register, Unknown> {
        let kind = scalar(self.type_of(arguments[0]))?.kind;
        let len = self.compiler.len(ty)?;
        let mut registers = Vec::new();
        for argument in arguments {
            registers.push(self.register(*argument)?);
        }
        let unknown = || Unknown::new(format!("the function {function:?}"));
        let (a, arity) = (registers[0], registers.len());
        if let Some(op) = unary(function, kind) {
            let to = self.unary(span, op, len, a);
            return self.rounded(span, ty, to);
        }
        if let Some(op) = packing(function) {
            let to = self.compiler.allocate(len);
            self.push(span, Op::Packing { op, to, from: a });
            return Ok(to);
        }
        if let (Some(op), [a, b]) = (binary(function, kind), &registers[..]) {
            let (a, b, to) = (*a, *b, self.compiler.allocate(len));
            let at = self.push(span, Op::Binary { op, len, to, a, b, a_step: 1, b_step: 1 });
            self.guard(at, op == Binary::MinUnsigned || op == Binary::MinSigned);
            return self.rounded(span, ty, to);
        }
        if let (Some(op), [a, b, c]) = (ternary(function, kind), &registers[..]) {
            let (a, b, c, to) = (*a, *b, *c, self.compiler.allocate(len));
            let is_extract = function == MathFunction::ExtractBits;
            let step = |of: &Self, i: usize| Ok(u8::from(of.len_of(arguments[i])? > 1 && !is_extract));
            let (b_step, c_step) = (step(self, 1)?, step(self, 2)?);
            let at = self.push(span, Op::Ternary { op, len, to, a, b, c, b_step, c_step });
            self.guard(at, op == Ternary::ClampUnsigned || op == Ternary::ClampSigned);
            return self.rounded(span, ty, to);
        }
        let inner = self.len_of(arguments[0])?;
        match (function, arity) {
            (MathFunction::Abs, 1) => Ok(a),
            (MathFunction::InsertBits, 4) => {
                let to = self.compiler.allocate(len);
                let [value, new, offset, count] = [registers[0], registers[1], registers[2], registers[3]];
                self.push(span, Op::InsertBits { len, to, value, new, offset, count });
                Ok(to)
            }
            (MathFunction::Dot, 2) => {
                let to = self.dot(span, kind, inner, a, registers[1]);
                self.rounded(span, ty, to)
            }
            (MathFunction::Dot4I8Packed | MathFunction::Dot4U8Packed, 2) => {
                let (to, is_signed) = (self.compiler.allocate(1), function == MathFunction::Dot4I8Packed);
                self.push(span, Op::DotBytes { is_signed, to, a, b: registers[1] });
                Ok(to)
            }
            (MathFunction::Length, 1) => Ok(self.length(span, inner, a)),
            (MathFunction::Distance, 2) => {
                let difference = self.elementwise(span, Binary::SubtractFloat, inner, a, registers[1], 1);
                Ok(self.length(span, inner, difference))
            }
            (MathFunction::Normalize, 1) => {
                let length = self.length(span, inner, a);
                let to = self.elementwise(span, Binary::DivideFloat, inner, a, length, 0);
                self.rounded(span, ty, to)
            }
            (MathFunction::Transpose, 1) => match self.type_of(arguments[0]) {
                TypeInner::Matrix { columns, rows, .. } => {
                    let to = self.compiler.allocate(len);
                    self.push(span, Op::Transpose { to, from: a, rows: *rows as u32, columns: *columns as u32 });
                    Ok(to)
                }
                _ => Err(unknown()),
            },
            _ => Err(unknown()),
        }
    }

    /// Notes what a mutation can take away.
    fn guard(&mut self, at: usize, is_clamp: bool) {
        if is_clamp {
            self.code.guards.push((at as u32, Guard::Clamp));
        }
    }

    fn elementwise(&mut self, span: Span, op: Binary, len: u32, a: Register, b: Register, b_step: u8) -> Register {
        let to = self.compiler.allocate(len);
        self.push(span, Op::Binary { op, len, to, a, b, a_step: 1, b_step });
        to
    }

    fn dot(&mut self, span: Span, kind: ScalarKind, len: u32, a: Register, b: Register) -> Register {
        let to = self.compiler.allocate(1);
        self.push(span, Op::Dot { is_float: kind == ScalarKind::Float, len, to, a, b });
        to
    }

    fn length(&mut self, span: Span, len: u32, a: Register) -> Register {
        let square = self.dot(span, ScalarKind::Float, len, a, a);
        self.unary(span, Unary::Sqrt, 1, square)
    }
}

fn unary(function: MathFunction, kind: ScalarKind) -> Option<Unary> {
    use MathFunction as Function;
    Some(match (function, kind) {
        (Function::Abs, ScalarKind::Float) => Unary::AbsFloat,
        (Function::Abs, ScalarKind::Sint) => Unary::AbsSigned,
        (Function::Ceil, _) => Unary::Ceil,
        (Function::Floor, _) => Unary::Floor,
        (Function::Round, _) => Unary::Round,
        (Function::Fract, _) => Unary::Fract,
        (Function::Trunc, _) => Unary::Trunc,
        (Function::Exp, _) => Unary::Exp,
        (Function::Exp2, _) => Unary::Exp2,
        (Function::Log, _) => Unary::Log,
        (Function::Log2, _) => Unary::Log2,
        (Function::Sqrt, _) => Unary::Sqrt,
        (Function::InverseSqrt, _) => Unary::InverseSqrt,
        (Function::Sin, _) => Unary::Sin,
        (Function::Cos, _) => Unary::Cos,
        (Function::Tan, _) => Unary::Tan,
        (Function::Sinh, _) => Unary::Sinh,
        (Function::Cosh, _) => Unary::Cosh,
        (Function::Tanh, _) => Unary::Tanh,
        (Function::Asin, _) => Unary::Asin,
        (Function::Acos, _) => Unary::Acos,
        (Function::Atan, _) => Unary::Atan,
        (Function::Asinh, _) => Unary::Asinh,
        (Function::Acosh, _) => Unary::Acosh,
        (Function::Atanh, _) => Unary::Atanh,
        (Function::Radians, _) => Unary::Radians,
        (Function::Degrees, _) => Unary::Degrees,
        (Function::Sign, ScalarKind::Float) => Unary::SignFloat,
        (Function::Sign, _) => Unary::SignSigned,
        (Function::CountLeadingZeros, _) => Unary::LeadingZeros,
        (Function::CountTrailingZeros, _) => Unary::TrailingZeros,
        (Function::CountOneBits, _) => Unary::CountOnes,
        (Function::ReverseBits, _) => Unary::ReverseBits,
        (Function::FirstLeadingBit, ScalarKind::Sint) => Unary::FirstLeadingBitSigned,
        (Function::FirstLeadingBit, _) => Unary::FirstLeadingBit,
        (Function::FirstTrailingBit, _) => Unary::FirstTrailingBit,
        (Function::Saturate, _) => Unary::Saturate,
        (Function::QuantizeToF16, _) => Unary::RoundToHalf,
        _ => return None,
    })
}

fn binary(function: MathFunction, kind: ScalarKind) -> Option<Binary> {
    use MathFunction as Function;
    Some(match (function, kind) {
        (Function::Min, ScalarKind::Float) => Binary::MinFloat,
        (Function::Min, ScalarKind::Sint) => Binary::MinSigned,
        (Function::Min, _) => Binary::MinUnsigned,
        (Function::Max, ScalarKind::Float) => Binary::MaxFloat,
        (Function::Max, ScalarKind::Sint) => Binary::MaxSigned,
        (Function::Max, _) => Binary::MaxUnsigned,
        (Function::Pow, _) => Binary::Power,
        (Function::Step, _) => Binary::Step,
        (Function::Atan2, _) => Binary::Atan2,
        (Function::Ldexp, _) => Binary::Ldexp,
        _ => return None,
    })
}

fn ternary(function: MathFunction, kind: ScalarKind) -> Option<Ternary> {
    use MathFunction as Function;
    Some(match (function, kind) {
        (Function::Fma, _) => Ternary::MultiplyAdd,
        (Function::Clamp, ScalarKind::Float) => Ternary::ClampFloat,
        (Function::Clamp, ScalarKind::Sint) => Ternary::ClampSigned,
        (Function::Clamp, _) => Ternary::ClampUnsigned,
        (Function::Mix, _) => Ternary::Mix,
        (Function::SmoothStep, _) => Ternary::SmoothStep,
        (Function::ExtractBits, ScalarKind::Sint) => Ternary::ExtractSigned,
        (Function::ExtractBits, _) => Ternary::ExtractUnsigned,
        _ => return None,
    })
}

fn packing(function: MathFunction) -> Option<Packing> {
    use MathFunction as Function;
    Some(match function {
        Function::Pack2x16float => Packing::PackHalves,
        Function::Unpack2x16float => Packing::UnpackHalves,
        Function::Pack4xI8 | Function::Pack4xU8 => Packing::PackBytes,
        Function::Pack4xI8Clamp => Packing::PackBytesClampedSigned,
        Function::Pack4xU8Clamp => Packing::PackBytesClampedUnsigned,
        Function::Unpack4xI8 => Packing::UnpackBytesSigned,
        Function::Unpack4xU8 => Packing::UnpackBytesUnsigned,
        Function::Pack4x8snorm => Packing::PackNormSigned8,
        Function::Pack4x8unorm => Packing::PackNormUnsigned8,
        Function::Unpack4x8snorm => Packing::UnpackNormSigned8,
        Function::Unpack4x8unorm => Packing::UnpackNormUnsigned8,
        Function::Pack2x16snorm => Packing::PackNormSigned16,
        Function::Pack2x16unorm => Packing::PackNormUnsigned16,
        Function::Unpack2x16snorm => Packing::UnpackNormSigned16,
        Function::Unpack2x16unorm => Packing::UnpackNormUnsigned16,
        _ => return None,
    })
}
