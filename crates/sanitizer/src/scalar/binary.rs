//! Operations on two scalars.

use super::float;
use naga::{BinaryOperator as Operator, ScalarKind};

/// An operation on two scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    AddFloat,
    SubtractFloat,
    MultiplyFloat,
    DivideFloat,
    RemainderFloat,
    Add,
    Subtract,
    Multiply,
    DivideSigned,
    DivideUnsigned,
    RemainderSigned,
    RemainderUnsigned,
    Equal,
    NotEqual,
    EqualFloat,
    NotEqualFloat,
    LessFloat,
    LessEqualFloat,
    LessSigned,
    LessEqualSigned,
    LessUnsigned,
    LessEqualUnsigned,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRightSigned,
    ShiftRightUnsigned,
    MinFloat,
    MaxFloat,
    MinSigned,
    MaxSigned,
    MinUnsigned,
    MaxUnsigned,
    Power,
    Step,
    Atan2,
    Ldexp,
}

impl Binary {
    /// The operation of an operator on scalars of a kind, and whether its operands change places.
    pub(crate) fn of(operator: Operator, kind: ScalarKind) -> (Binary, bool) {
        use Binary::*;
        let pick = |float, signed, unsigned| match kind {
            ScalarKind::Float => float,
            ScalarKind::Sint => signed,
            _ => unsigned,
        };
        let less = pick(LessFloat, LessSigned, LessUnsigned);
        let less_equal = pick(LessEqualFloat, LessEqualSigned, LessEqualUnsigned);
        match operator {
            Operator::Add => (pick(AddFloat, Add, Add), false),
            Operator::Subtract => (pick(SubtractFloat, Subtract, Subtract), false),
            Operator::Multiply => (pick(MultiplyFloat, Multiply, Multiply), false),
            Operator::Divide => (pick(DivideFloat, DivideSigned, DivideUnsigned), false),
            Operator::Modulo => (pick(RemainderFloat, RemainderSigned, RemainderUnsigned), false),
            Operator::Equal => (pick(EqualFloat, Equal, Equal), false),
            Operator::NotEqual => (pick(NotEqualFloat, NotEqual, NotEqual), false),
            Operator::Less => (less, false),
            Operator::LessEqual => (less_equal, false),
            Operator::Greater => (less, true),
            Operator::GreaterEqual => (less_equal, true),
            Operator::And | Operator::LogicalAnd => (And, false),
            Operator::InclusiveOr | Operator::LogicalOr => (Or, false),
            Operator::ExclusiveOr => (Xor, false),
            Operator::ShiftLeft => (ShiftLeft, false),
            Operator::ShiftRight => (pick(ShiftRightUnsigned, ShiftRightSigned, ShiftRightUnsigned), false),
        }
    }

    /// Whether its result is a boolean that says which of two is less: what a bounds test is made of.
    pub(crate) fn is_order(self) -> bool {
        use Binary::*;
        let orders = [LessFloat, LessEqualFloat, LessSigned, LessEqualSigned, LessUnsigned, LessEqualUnsigned];
        orders.contains(&self)
    }

    /// Divisions by zero and shifts past the width are as WGSL has them.
    #[inline(always)]
    pub(crate) fn apply(self, a: u32, b: u32) -> u32 {
        use Binary::*;
        let (x, y) = (float(a), float(b));
        let (i, j) = (a as i32, b as i32);
        match self {
            AddFloat => (x + y).to_bits(),
            SubtractFloat => (x - y).to_bits(),
            MultiplyFloat => (x * y).to_bits(),
            DivideFloat => (x / y).to_bits(),
            RemainderFloat => (x % y).to_bits(),
            Add => a.wrapping_add(b),
            Subtract => a.wrapping_sub(b),
            Multiply => a.wrapping_mul(b),
            DivideSigned if j == 0 => a,
            DivideSigned => i.wrapping_div(j) as u32,
            DivideUnsigned => a.checked_div(b).unwrap_or(a),
            RemainderSigned if j == 0 => 0,
            RemainderSigned => i.wrapping_rem(j) as u32,
            RemainderUnsigned => a.checked_rem(b).unwrap_or(0),
            Equal => u32::from(a == b),
            NotEqual => u32::from(a != b),
            EqualFloat => u32::from(x == y),
            NotEqualFloat => u32::from(x != y),
            LessFloat => u32::from(x < y),
            LessEqualFloat => u32::from(x <= y),
            LessSigned => u32::from(i < j),
            LessEqualSigned => u32::from(i <= j),
            LessUnsigned => u32::from(a < b),
            LessEqualUnsigned => u32::from(a <= b),
            And => a & b,
            Or => a | b,
            Xor => a ^ b,
            ShiftLeft => a.wrapping_shl(b),
            ShiftRightSigned => i.wrapping_shr(b) as u32,
            ShiftRightUnsigned => a.wrapping_shr(b),
            MinFloat => x.min(y).to_bits(),
            MaxFloat => x.max(y).to_bits(),
            MinSigned => i.min(j) as u32,
            MaxSigned => i.max(j) as u32,
            MinUnsigned => a.min(b),
            MaxUnsigned => a.max(b),
            Power => x.powf(y).to_bits(),
            Step => f32::from(u8::from(x <= y)).to_bits(),
            Atan2 => x.atan2(y).to_bits(),
            Ldexp => (x * (j as f32).exp2()).to_bits(),
        }
    }
}
