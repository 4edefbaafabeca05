//! Every product of the mixed inputs: planes `x_r w_r^T`, `x_k w_k^T`, `x_v w_v^T`, and what `lora_down` makes in the
//! first columns of the fourth, zeros behind it.

use super::{OpKernels, any, element_units, lora_down, matmul, matrix_tiles, pieces, sum_tolerance};
use crate::source::wgsl;
use crate::{Arg, Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};
use wgoose_graph::{Activation, Op};

pub(super) static OP: OpKernels = OpKernels {
    name: "project",
    variants: &[
        Variant {
            op: "project",
            name: "matrix_units",
            wgsl: wgsl!("project/matrix_units.wgsl"),
            needs: matrix_tiles::NEEDS,
            accepts: matrix_units_accept,
            units: matrix_units_units,
        },
        Variant {
            op: "project",
            name: "dot_columns",
            wgsl: wgsl!("project/dot_columns.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: |site, p| pieces::columns_accept(site, p, MOST_SUMS),
            units: dot_units,
        },
        Variant {
            op: "project",
            name: "dot_subgroup",
            wgsl: wgsl!("project/dot_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            // A row of an adapter has many times the pieces of a row of a quantised matrix.
            accepts: |site, p| pieces::dot_accept(site, p, 8),
            units: dot_units,
        },
        Variant {
            op: "project",
            name: "rows_subgroup",
            wgsl: wgsl!("project/rows_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: matmul::rows_accept,
            units,
        },
        Variant {
            op: "project",
            name: "rows_workgroup",
            wgsl: wgsl!("project/rows_workgroup.wgsl"),
            needs: &[],
            accepts: matmul::rows_accept,
            units,
        },
        Variant {
            op: "project",
            name: "naive",
            wgsl: wgsl!("project/naive.wgsl"),
            needs: &[],
            accepts: any,
            units: element_units,
        },
        Variant {
            op: "project",
            name: "int8_subgroup",
            wgsl: wgsl!("project/int8_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: integers_accept,
            units: dot_units,
        },
        Variant {
            op: "project",
            name: "int16_subgroup",
            wgsl: wgsl!("project/int16_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: integers_accept,
            units: dot_units,
        },
    ],
    reference,
    flops: |site| {
        let rows = 3 * site.m + site.ranks.iter().sum::<u32>();
        2 * u64::from(site.rows) * u64::from(site.k) * u64::from(rows)
    },
    tolerance: |site| sum_tolerance(site.k),
    domain: |operand| if operand == "x" { (-2.0, 2.0) } else { (-0.1, 0.1) },
};

/// The matrices in the order of their planes, and the plane of x that each reads.
const PRODUCTS: [(&str, usize); 3] = [("w_r", 0), ("w_k", 2), ("w_v", 3)];

/// Loops are written out for seven matrices: with more sums, drivers take minutes to compile them.
const MOST_SUMS: u32 = 16;

/// Blocks of so many rows of each matrix, none with rows of two; then one that clears what no adapter fills.
fn blocks(site: &Site, rows: u32) -> u64 {
    let of = |all: u32| u64::from(all.div_ceil(rows));
    3 * of(site.m) + site.ranks.map(of).iter().sum::<u64>() + 1
}

fn units(site: &Site, p: &Tunables) -> u64 {
    blocks(site, p.number("ROWS")) * u64::from(site.rows.div_ceil(p.number("TOKENS")))
}

fn dot_units(site: &Site, p: &Tunables) -> u64 {
    blocks(site, pieces::rows_of_workgroup(p)) * pieces::token_blocks(site, p)
}

fn matrix_units_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    matrix_tiles::accept(site, p, &PRODUCTS.map(|(matrix, _)| matrix))?;
    matmul::groups_of_32(site)?;
    pieces::has_pieces(site)?;
    pieces::tokens_are_there(site, p.number("TOKENS"))?;
    refuse_if(p.number("ROWS") * p.number("TOKENS") > MOST_SUMS, "more sums than registers to keep them")
}

/// The tiles of the matrices, blocks of the adapters, then one that clears what no adapter fills.
fn matrix_units_units(site: &Site, p: &Tunables) -> u64 {
    let blocks = site.ranks.map(|rank| u64::from(rank.div_ceil(p.number("PARTS") * p.number("ROWS"))));
    3 * matrix_tiles::units(site, p) + (blocks.iter().sum::<u64>() + 1) * pieces::token_blocks(site, p)
}

fn integers_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    PRODUCTS.iter().try_for_each(|(matrix, _)| pieces::has_integers(site, matrix))?;
    adapters_are_floats(site)?;
    pieces::integers_accept(site, p, MOST_SUMS)
}

/// Whether the adapters can multiply in f32 beside matrices that multiply as integers.
pub(super) fn adapters_are_floats(site: &Site) -> Result<(), Refusal> {
    ["w1", "a1", "v1", "g1"].iter().try_for_each(|adapter| pieces::has_floats(site, adapter))
}

/// Whether one loop of floats can serve all adapters that there are; w1, which files keep in F32, may differ.
pub(super) fn adapters_are_alike(site: &Site) -> Result<(), Refusal> {
    adapters_are_floats(site)?;
    let differs = |adapter| site.input(adapter).is_some_and(|i| i.format != site.format("g1"));
    refuse_if(["a1", "v1"].into_iter().any(differs), "its adapters differ in format")
}

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let len = site.rows as usize * site.k as usize;
    let product = Site { op: Op::Matmul { activation: Activation::None }, ..site.clone() };
    let mut planes = y.chunks_exact_mut(site.rows as usize * site.m as usize);
    for ((name, plane), out) in PRODUCTS.into_iter().zip(&mut planes) {
        let Some(matrix) = args.matrix(name) else { continue };
        let mut own = Args::new();
        own.insert("x", Arg::Floats(&x[plane * len..][..len]));
        own.insert("w", Arg::Matrix(matrix));
        (matmul::OP.reference)(&product, &mut own, out);
    }
    if let Some(hidden) = planes.next() {
        hidden.fill(0.0);
        (lora_down::OP.reference)(site, args, hidden);
    }
}
