//! Operations that a subgroup does together.

use super::function::Frame;
use super::types::scalar;
use super::{Root, Value};
use crate::error::Unknown;
use crate::program::{Collective, Inclusion, MatrixPlace, Op, Register, Subgroup, Width, ZERO};
use naga::{CollectiveOperation, CooperativeData, Expression, GatherMode, Handle, Span, Statement, TypeInner};

impl Frame<'_, '_> {
    fn collective(&mut self, span: Span, what: Subgroup, from: Register, len: u32, to_len: u32) -> Register {
        let (to, loops) = (self.compiler.allocate(to_len), self.loops());
        self.push(span, Op::Collective(Box::new(Collective { what, to, from, len, loops })));
        to
    }

    /// A statement of a subgroup.
    pub(super) fn subgroup(&mut self, span: Span, statement: &Statement) -> Result<(), Unknown> {
        let (result, to) = match statement {
            Statement::SubgroupBallot { result, predicate } => {
                let from = match predicate {
                    Some(handle) => self.register(*handle)?,
                    None => self.compiler.literal(1),
                };
                (result, self.collective(span, Subgroup::Ballot, from, 1, 4))
            }
            Statement::SubgroupGather { mode, argument, result } => {
                let what = match mode {
                    GatherMode::BroadcastFirst => Subgroup::First,
                    GatherMode::Broadcast(lane) | GatherMode::Shuffle(lane) => Subgroup::Shuffle(self.register(*lane)?),
                    GatherMode::ShuffleXor(mask) => Subgroup::ShuffleXor(self.register(*mask)?),
                    GatherMode::ShuffleUp(by) => Subgroup::ShuffleUp(self.register(*by)?),
                    GatherMode::ShuffleDown(by) => Subgroup::ShuffleDown(self.register(*by)?),
                    GatherMode::QuadBroadcast(lane) => Subgroup::QuadBroadcast(self.register(*lane)?),
                    GatherMode::QuadSwap(direction) => Subgroup::QuadSwap(*direction as u32 + 1),
                };
                let (len, from) = (self.len_of(*argument)?, self.register(*argument)?);
                (result, self.collective(span, what, from, len, len))
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                let ty = self.type_of(*argument);
                let kind = scalar(ty)?.kind;
                let what = match collective_op {
                    CollectiveOperation::Reduce => Subgroup::Reduce(*op, kind),
                    CollectiveOperation::InclusiveScan => Subgroup::Scan(*op, kind, Inclusion::Inclusive),
                    CollectiveOperation::ExclusiveScan => Subgroup::Scan(*op, kind, Inclusion::Exclusive),
                };
                let (len, from) = (self.len_of(*argument)?, self.register(*argument)?);
                let to = self.collective(span, what, from, len, len);
                (result, self.rounded(span, ty, to)?)
            }
            other => return Err(Unknown::new(format!("the statement {other:?}"))),
        };
        self.values[result.index()] = Some(Value::Register(to));
        Ok(())
    }

    /// A load of a cooperative matrix, or a product.
    pub(super) fn matrix(&mut self, span: Span, handle: Handle<Expression>) -> Result<Register, Unknown> {
        let ty = self.type_of(handle);
        let len = self.compiler.len(ty)?;
        match &self.function.expressions[handle] {
            Expression::CooperativeLoad { data, .. } => {
                let place = self.matrix_place(data, ty)?;
                Ok(self.collective(span, Subgroup::MatrixLoad(place), ZERO, len, len))
            }
            Expression::CooperativeMultiplyAdd { a, b, c } => {
                let (rows, columns) = shape(ty)?;
                let (_, inner) = shape(self.type_of(*a))?;
                let (left, right, sum) = (self.register(*a)?, self.register(*b)?, self.register(*c)?);
                let is_half = scalar(ty)?.width == 2;
                let what = Subgroup::MatrixMultiplyAdd { right, sum, rows, columns, inner, is_half };
                Ok(self.collective(span, what, left, len, len))
            }
            other => Err(Unknown::new(format!("the expression {other:?}"))),
        }
    }

    pub(super) fn matrix_store(
        &mut self,
        span: Span,
        matrix: Handle<Expression>,
        data: &CooperativeData,
    ) -> Result<(), Unknown> {
        let ty = self.type_of(matrix);
        let place = self.matrix_place(data, ty)?;
        let (len, from) = (self.compiler.len(ty)?, self.register(matrix)?);
        self.collective(span, Subgroup::MatrixStore(place), from, len, 0);
        Ok(())
    }

    fn matrix_place(&mut self, data: &CooperativeData, ty: &TypeInner) -> Result<MatrixPlace, Unknown> {
        let pointer = self.pointer(data.pointer)?;
        let Root::Variable(variable) = pointer.root else {
            return Err(Unknown::new("a cooperative matrix in registers"));
        };
        let target = self.compiler.pointee(self.type_of(data.pointer))?;
        let element = scalar(&target)?;
        let stride_bytes = match &target {
            // An element of an alias has 16 bytes whatever its type says.
            _ if pointer.is_alias => 16,
            TypeInner::Vector { size, .. } => *size as u32 * u32::from(element.width),
            _ => u32::from(element.width),
        };
        let (rows, columns) = shape(ty)?;
        Ok(MatrixPlace {
            variable,
            at: pointer.at,
            stride: self.register(data.stride)?,
            stride_bytes,
            rows,
            columns,
            is_row_major: data.row_major,
            width: if element.width == 2 { Width::Half } else { Width::Word },
        })
    }
}

/// Rows and columns of a cooperative matrix.
fn shape(ty: &TypeInner) -> Result<(u32, u32), Unknown> {
    match ty {
        TypeInner::CooperativeMatrix { columns, rows, .. } => Ok((*rows as u32, *columns as u32)),
        other => Err(Unknown::new(format!("a matrix operation on the type {other:?}"))),
    }
}
