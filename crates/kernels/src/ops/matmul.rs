//! `y = f(x w^T)`, and `y = y + x w^T` in place.

use super::{OpKernels, activation, any, blocks, matrix_tiles, pieces, sum_tolerance};
use crate::plan::bucket;
use crate::source::{File, wgsl};
use crate::{Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};
use rayon::prelude::*;
use wgoose_graph::{Activation, Format, Op};

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

pub(super) static OP_ADD: OpKernels = OpKernels { name: "matmul_add", variants: ADD_VARIANTS, ..OP };

/// A variant of both ops.
const fn variant(
    name: &'static str,
    wgsl: File,
    needs: &'static [Feature],
    accepts: fn(&Site, &Tunables) -> Result<(), Refusal>,
    units: fn(&Site, &Tunables) -> u64,
) -> Variant {
    Variant { op: "matmul", name, wgsl, needs, accepts, units }
}

const SUBGROUPS: &[Feature] = &[Feature::Subgroups];

const MATRIX_UNITS: Variant = variant(
    "matrix_units",
    wgsl!("matmul/matrix_units.wgsl"),
    matrix_tiles::NEEDS,
    |site, p| matrix_tiles::accept(site, p, &["w"]),
    matrix_tiles::units,
);
const SPLIT_TILED: Variant =
    variant("split_tiled", wgsl!("matmul/split_tiled.wgsl"), &[], split_tiled_accept, rows_units);
const TILED: Variant = variant("tiled", wgsl!("matmul/tiled.wgsl"), &[], tiled_accept, rows_units);
const ROWS_SUBGROUP: Variant =
    variant("rows_subgroup", wgsl!("matmul/rows_subgroup.wgsl"), SUBGROUPS, rows_accept, rows_units);
const ROWS_WORKGROUP: Variant =
    variant("rows_workgroup", wgsl!("matmul/rows_workgroup.wgsl"), &[], rows_accept, rows_units);
const NAIVE: Variant = variant("naive", wgsl!("matmul/naive.wgsl"), &[], any, naive_units);
const DOT_SUBGROUP: Variant =
    variant("dot_subgroup", wgsl!("matmul/dot_subgroup.wgsl"), SUBGROUPS, dot_accept, dot_units);
const DOT_WORKGROUP: Variant =
    variant("dot_workgroup", wgsl!("matmul/dot_workgroup.wgsl"), SUBGROUPS, dot_accept, dot_units);
const DOT_COLUMNS: Variant =
    variant("dot_columns", wgsl!("matmul/dot_columns.wgsl"), SUBGROUPS, columns_accept, dot_units);
const SPARSE: Variant = variant("sparse", wgsl!("matmul/sparse.wgsl"), &[], sparse_accept, sparse_units);
const INT8_SUBGROUP: Variant =
    variant("int8_subgroup", wgsl!("matmul/int8_subgroup.wgsl"), SUBGROUPS, int8_accept, dot_units);
const DEALT: Variant = variant("dealt", wgsl!("matmul/dealt.wgsl"), SUBGROUPS, pieces::dealt_accept, dealt_units);
const DEALT_INT8: Variant =
    variant("dealt_int8", wgsl!("matmul/dealt_int8.wgsl"), SUBGROUPS, dealt_integers_accept, dealt_units);
const DEALT_INT16: Variant =
    variant("dealt_int16", wgsl!("matmul/dealt_int16.wgsl"), SUBGROUPS, dealt_integers_accept, dealt_units);
const DEALT_BLOCKS: Variant =
    variant("dealt_blocks", wgsl!("matmul/dealt_blocks.wgsl"), SUBGROUPS, dealt_blocks_accept, dealt_units);

/// Tiles for a prompt, then what several tokens share, then what serves one; of a matrix in columns, what leaves out
/// columns.
const VARIANTS: &[Variant] = &[
    MATRIX_UNITS,
    SPLIT_TILED,
    TILED,
    SPARSE,
    DOT_COLUMNS,
    DOT_SUBGROUP,
    DOT_WORKGROUP,
    ROWS_SUBGROUP,
    ROWS_WORKGROUP,
    NAIVE,
    INT8_SUBGROUP,
    DEALT,
    DEALT_INT8,
    DEALT_INT16,
    DEALT_BLOCKS,
];

/// The model adds products of few rows, some of them long: they take a workgroup each.
const ADD_VARIANTS: &[Variant] = &[
    MATRIX_UNITS,
    SPLIT_TILED,
    TILED,
    SPARSE,
    DOT_COLUMNS,
    DOT_WORKGROUP,
    DOT_SUBGROUP,
    ROWS_SUBGROUP,
    ROWS_WORKGROUP,
    NAIVE,
    INT8_SUBGROUP,
    DEALT,
    DEALT_INT8,
    DEALT_INT16,
    DEALT_BLOCKS,
];

pub(super) fn groups_of_32(site: &Site) -> Result<(), Refusal> {
    refuse_if(!site.k.is_multiple_of(32), "k must be a multiple of 32")
}

fn split_tiled_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    tiled_accept(site, p)?;
    refuse_if(bucket(site.rows) > 64 || site.m > 4096, "that many tokens and rows have tiles enough")
}

fn tiled_accept(site: &Site, _: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    // By the bucket: a plan's choice has to serve every row count of its bucket.
    refuse_if(bucket(site.rows) < 16, "so few tokens leave most of a tile empty")
}

pub(super) fn rows_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    let (invocations, groups) = (p.number("WG"), site.k / 32);
    refuse_if(invocations > 32 && invocations > 2 * groups, "most invocations would have no weights")?;
    pieces::tokens_are_there(site, p.number("TOKENS"))
}

fn rows_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.window.div_ceil(p.number("ROWS"))) * u64::from(site.rows.div_ceil(p.number("TOKENS")))
}

fn naive_units(site: &Site, p: &Tunables) -> u64 {
    (u64::from(site.rows) * u64::from(site.window)).div_ceil(u64::from(p.number("WG")))
}

fn dot_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.window.div_ceil(pieces::rows_of_workgroup(p))) * pieces::token_blocks(site, p)
}

fn dot_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    pieces::dot_accept(site, p, 4)
}

fn columns_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    pieces::columns_accept(site, p, 32)
}

/// Most tokens that each have their columns read for them alone.
const SPARSE_TOKENS: u32 = 16;

fn sparse_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    groups_of_32(site)?;
    refuse_if(!site.format("w").is_some_and(Format::is_in_columns), "the matrix is not in columns")?;
    refuse_if(bucket(site.rows) > SPARSE_TOKENS, "so many tokens need every column")?;
    let (invocations, slabs) = (p.number("WG"), p.number("SLABS"));
    let least = invocations == 64 && slabs == 1;
    refuse_if(!least && 4 * invocations * slabs > site.k, "most invocations would have no columns")?;
    refuse_if(p.number("EIGHTS") > 1 && p.number("EIGHTS") * 8 > site.window, "fewer rows than a workgroup takes")
}

fn sparse_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(site.window.div_ceil(8 * p.number("EIGHTS"))) * u64::from(site.rows)
}

fn int8_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    pieces::has_integers(site, "w")?;
    pieces::integers_accept(site, p, 32)?;
    refuse_if(p.number("SLAB") > 1280 && p.number("SLAB") / 2 >= site.k, "a smaller slab holds all of x")
}

fn dealt_integers_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    pieces::has_integers(site, "w")?;
    pieces::outputs_to_compare(site)?;
    pieces::dealt_accept(site, p)
}

fn dealt_blocks_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    blocks::accept(site, p, &["w"])?;
    refuse_if(p.number("UNITS") > 2 * site.window.div_ceil(p.number("ROWS")), "most workgroups would have no rows")
}

fn dealt_units(site: &Site, p: &Tunables) -> u64 {
    u64::from(p.number("UNITS")) * u64::from(site.rows)
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
