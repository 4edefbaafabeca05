//! `y = f(x w^T)`, and `y = y + x w^T` in place.

mod pieces;

use super::{OpKernels, activation, any, sum_tolerance};
use crate::source::wgsl;
use crate::{Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};
use rayon::prelude::*;
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "matmul",
    variants: VARIANTS,
    reference,
    flops: |site| 2 * u64::from(site.rows) * u64::from(site.k) * u64::from(site.window),
    tolerance: |site| match site.op {
        // Squaring doubles the relative error.
        Op::Matmul { activation: Activation::ReluSquared } => 2.0 * sum_tolerance(site.k),
        _ => sum_tolerance(site.k),
    },
    domain: |operand| if operand == "w" { (-0.1, 0.1) } else { (-2.0, 2.0) },
};

pub(super) static OP_ADD: OpKernels = OpKernels { name: "matmul_add", ..OP };

const VARIANTS: &[Variant] = &[
    Variant {
        op: "matmul",
        name: "split_tiled",
        wgsl: wgsl!("matmul/split_tiled.wgsl"),
        needs: &[],
        accepts: |site, _| {
            groups_of_32(site)?;
            refuse_if(site.rows < 8, "fewer than 8 tokens leave most of a tile empty")?;
            refuse_if(site.rows > 64 || site.m > 4096, "that many tokens and rows have tiles enough")
        },
        units: |site, p| {
            let row_tiles = u64::from(site.window.div_ceil(p.number("ROWS")));
            row_tiles * u64::from(site.rows.div_ceil(p.number("TOKENS")))
        },
    },
    Variant {
        op: "matmul",
        name: "tiled",
        wgsl: wgsl!("matmul/tiled.wgsl"),
        needs: &[],
        accepts: |site, _| {
            groups_of_32(site)?;
            refuse_if(site.rows < 8, "fewer than 8 tokens leave most of a tile empty")
        },
        units: |site, p| {
            let row_tiles = u64::from(site.window.div_ceil(p.number("ROWS")));
            row_tiles * u64::from(site.rows.div_ceil(p.number("TOKENS")))
        },
    },
    Variant {
        op: "matmul",
        name: "rows_subgroup",
        wgsl: wgsl!("matmul/rows_subgroup.wgsl"),
        needs: &[Feature::Subgroups],
        accepts: rows_accept,
        units: rows_units,
    },
    Variant {
        op: "matmul",
        name: "rows_workgroup",
        wgsl: wgsl!("matmul/rows_workgroup.wgsl"),
        needs: &[],
        accepts: rows_accept,
        units: rows_units,
    },
    Variant {
        op: "matmul",
        name: "naive",
        wgsl: wgsl!("matmul/naive.wgsl"),
        needs: &[],
        accepts: any,
        units: |site, p| (u64::from(site.rows) * u64::from(site.window)).div_ceil(u64::from(p.number("WG"))),
    },
    Variant {
        op: "matmul",
        name: "dot_subgroup",
        wgsl: wgsl!("matmul/dot_subgroup.wgsl"),
        needs: &[Feature::Subgroups],
        accepts: pieces::dot_accept,
        units: pieces::units,
    },
    Variant {
        op: "matmul",
        name: "dot_workgroup",
        wgsl: wgsl!("matmul/dot_workgroup.wgsl"),
        needs: &[Feature::Subgroups],
        accepts: pieces::dot_accept,
        units: pieces::units,
    },
    Variant {
        op: "matmul",
        name: "dot_columns",
        wgsl: wgsl!("matmul/dot_columns.wgsl"),
        needs: &[Feature::Subgroups],
        accepts: pieces::columns_accept,
        units: pieces::units,
    },
    Variant {
        op: "matmul",
        name: "int8_subgroup",
        wgsl: wgsl!("matmul/int8_subgroup.wgsl"),
        needs: &[Feature::Subgroups],
        accepts: pieces::int8_accept,
        units: pieces::units,
    },
];

fn groups_of_32(site: &Site) -> Result<(), Refusal> {
    refuse_if(!site.k.is_multiple_of(32), "k must be a multiple of 32")
}

pub(super) fn rows_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    let (invocations, groups) = (p.number("WG"), site.k / 32);
    refuse_if(invocations > 32 && invocations > 2 * groups, "most invocations would have no weights")?;
    refuse_if(p.number("TOKENS") > 1 && p.number("TOKENS") >= 2 * site.rows, "more tokens per workgroup than there are")
}

fn rows_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.window.div_ceil(p.number("ROWS"))) * u64::from(site.rows.div_ceil(p.number("TOKENS")))
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let (x, Some(w)) = (args.floats("x"), args.matrix("w")) else { return };
    let (k, m, first) = (site.k as usize, site.m as usize, site.first as usize);
    let kind = match site.op {
        Op::Matmul { activation } => activation,
        _ => Activation::None,
    };
    let add = site.op == Op::MatmulAdd;
    // Row by row of w, so that each is decoded once: columns[row][token].
    let product = |row: usize| -> Vec<f64> {
        let mut weights = vec![0.0; k];
        w.row(row, &mut weights);
        x.chunks_exact(k).map(|x| super::dot(x, &weights)).collect()
    };
    let columns: Vec<Vec<f64>> = (0..w.rows()).into_par_iter().map(product).collect();
    for (row, column) in columns.iter().enumerate() {
        for (t, sum) in column.iter().enumerate() {
            let out = &mut y[t * m + first + row];
            *out = if add { f64::from(*out) + sum } else { activation(kind, *sum) } as f32;
        }
    }
}
