//! Cooperative matrices. Element `e` of a matrix is in register `e / lanes` of lane `e % lanes`: a distribution as good
//! as any, as WGSL lets no shader see it.

use super::Machine;
use super::findings::{Site, Who};
use super::memory::{AccessBy, NOWHERE};
use super::workgroup::{Invocation, Workgroup};
use crate::program::{Collective, MatrixPlace, Subgroup};
use crate::report::{AccessKind, FindingKind};
use crate::scalar::{Unary, float};
use std::ops::Range;

impl Machine<'_> {
    pub(super) fn load_matrix(
        &mut self,
        group: &mut Workgroup,
        subgroup: Range<usize>,
        here: &[usize],
        op: u32,
        operation: &Collective,
        place: &MatrixPlace,
    ) {
        let (by, base, stride) = self.matrix(group, subgroup.start, here, op, place);
        for (element, at) in places(place, base, stride).enumerate() {
            let value = self.load_scalar(group, by, at, place.width);
            let (lane, register) = self.holder(element);
            if let Some(lane) = group.invocations[subgroup.clone()].get_mut(lane) {
                lane.registers[operation.to as usize + register] = value;
            }
        }
    }

    pub(super) fn store_matrix(
        &mut self,
        group: &mut Workgroup,
        subgroup: Range<usize>,
        here: &[usize],
        op: u32,
        operation: &Collective,
        place: &MatrixPlace,
    ) {
        let (by, base, stride) = self.matrix(group, subgroup.start, here, op, place);
        for (element, at) in places(place, base, stride).enumerate() {
            let (lane, register) = self.holder(element);
            let lane = group.invocations[subgroup.clone()].get(lane);
            let value = lane.map_or(0, |lane| lane.registers[operation.from as usize + register]);
            self.store_scalar(group, by, at, place.width, value);
        }
    }

    pub(super) fn multiply_add(&mut self, lanes: &mut [Invocation], operation: &Collective) {
        let Subgroup::MatrixMultiplyAdd { right, sum, rows, columns, inner, is_half } = operation.what else { return };
        let (rows, columns, inner) = (rows as usize, columns as usize, inner as usize);
        let matrix = |first: u32, len: usize| -> Vec<f32> {
            let holders = (0..len).map(|element| self.holder(element));
            let value = |(lane, register): (usize, usize)| {
                lanes.get(lane).map_or(0.0, |lane| float(lane.registers[first as usize + register]))
            };
            holders.map(value).collect()
        };
        let (left, right) = (matrix(operation.from, rows * inner), matrix(right, inner * columns));
        let mut sums = matrix(sum, rows * columns);
        for row in 0..rows {
            for k in 0..inner {
                let factor = left[row * inner + k];
                for column in 0..columns {
                    sums[row * columns + column] += factor * right[k * columns + column];
                }
            }
        }
        self.steps += (rows * columns * inner / 8) as u64;
        for (element, value) in sums.into_iter().enumerate() {
            let (lane, register) = self.holder(element);
            if let Some(lane) = lanes.get_mut(lane) {
                let bits = value.to_bits();
                let bits = if is_half { Unary::RoundToHalf.apply(bits) } else { bits };
                lane.registers[operation.to as usize + register] = bits;
            }
        }
    }

    /// The lane and the register that have an element.
    fn holder(&self, element: usize) -> (usize, usize) {
        let lanes = self.program.subgroup_size as usize;
        (element % lanes, element / lanes)
    }

    /// Who accesses a matrix, where it begins and its stride, which all lanes have to agree on.
    fn matrix(
        &mut self,
        group: &Workgroup,
        start: usize,
        here: &[usize],
        op: u32,
        place: &MatrixPlace,
    ) -> (AccessBy, u32, u32) {
        let of = |lane: usize| {
            let registers = &group.invocations[start + lane].registers;
            let base = registers[place.at.base as usize].wrapping_add(place.at.offset);
            (base, registers[place.stride as usize])
        };
        let first = here.first().copied().unwrap_or_default();
        let site = |lane: usize| Site {
            op,
            who: Who::invocation(group.number, (start + lane) as u32),
            kind: AccessKind::Subgroup,
        };
        if let Some(other) = here.iter().copied().find(|lane| of(*lane) != of(first)) {
            let (kind, detail) = (FindingKind::NonUniformMatrix, || "lanes give different places".to_owned());
            self.findings.add(kind, Some(place.variable), site(first), Some(site(other)), detail);
        }
        let who = Who::together(group.number, start as u32);
        let (base, stride) = of(first);
        (AccessBy { who, op, variable: place.variable }, base, stride)
    }
}

/// The places of the elements, row by row.
fn places(place: &MatrixPlace, base: u32, stride: u32) -> impl Iterator<Item = u32> {
    let MatrixPlace { rows, columns, is_row_major, stride_bytes, width, .. } = *place;
    let all = (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)));
    all.map(move |(row, column)| {
        let (line, element) = if is_row_major { (row, column) } else { (column, row) };
        let offset =
            u64::from(line) * u64::from(stride) * u64::from(stride_bytes) + u64::from(element) * width.bytes() as u64;
        match base {
            NOWHERE.. => NOWHERE,
            base => (u64::from(base) + offset).min(u64::from(NOWHERE - 1)) as u32,
        }
    })
}
