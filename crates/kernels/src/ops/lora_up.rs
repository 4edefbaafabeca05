//! The second halves of the adapters with biases and activations, from their hidden values side by side in the first
//! columns of x: planes
//! `decay(w0 + h w2^T)`, `sigmoid(a0 + h a2^T)`, `sigmoid(v0 + h v2^T)`, `h g2^T`.

use super::{OpKernels, activation, any, dot, element_units, pieces, sum_tolerance};
use crate::source::wgsl;
use crate::{Args, Feature, Refusal, Site, Tunables, Variant, refuse_if};
use wgoose_graph::Activation;

pub(super) static OP: OpKernels = OpKernels {
    name: "lora_up",
    variants: &[
        Variant {
            op: "lora_up",
            name: "dot_subgroup",
            wgsl: wgsl!("lora_up/dot_subgroup.wgsl"),
            needs: &[Feature::Subgroups],
            accepts: dot_accept,
            units: |site, p| {
                4 * u64::from(site.m.div_ceil(pieces::rows_of_workgroup(p))) * pieces::token_blocks(site, p)
            },
        },
        Variant {
            op: "lora_up",
            name: "rows",
            wgsl: wgsl!("lora_up/rows.wgsl"),
            needs: &[],
            accepts: |site, p| {
                refuse_if(
                    site.ranks.iter().any(|rank| !rank.is_multiple_of(32)),
                    "every rank must be a multiple of 32",
                )?;
                refuse_if(!site.k.is_multiple_of(4), "k must be a multiple of 4")?;
                pieces::tokens_are_there(site, p.number("TOKENS"))
            },
            units: |site, p| {
                let blocks = u64::from(site.rows.div_ceil(p.number("TOKENS")));
                (4 * u64::from(site.m) * blocks).div_ceil(u64::from(p.number("WG")))
            },
        },
        Variant {
            op: "lora_up",
            name: "elements",
            wgsl: wgsl!("lora_up/elements.wgsl"),
            needs: &[],
            accepts: any,
            units: element_units,
        },
    ],
    reference,
    flops: |site| 2 * u64::from(site.rows) * u64::from(site.ranks.iter().sum::<u32>()) * u64::from(site.m),
    tolerance: |site| sum_tolerance(site.ranks.iter().sum()),
    domain: |operand| if operand == "x" { (-1.0, 1.0) } else { (-0.3, 0.3) },
};

/// Whether every row of the adapters is read in loads of floats: hidden values of each begin at one.
pub(super) fn has_eights_of_floats(site: &Site) -> Result<(), Refusal> {
    ADAPTERS.iter().try_for_each(|(adapter, ..)| pieces::has_floats(site, adapter))?;
    let eights = site.ranks.iter().chain([&site.k]).all(|n| n.is_multiple_of(8));
    refuse_if(!eights, "k and every rank must be multiples of 8")
}

fn dot_accept(site: &Site, p: &Tunables) -> Result<(), Refusal> {
    has_eights_of_floats(site)?;
    let (tokens, unroll) = (p.number("TOKENS"), p.number("UNROLL"));
    pieces::tokens_are_there(site, tokens)?;
    let highest = site.ranks.into_iter().max().unwrap_or(0);
    let longest = pieces::most_pieces(site, highest);
    refuse_if(unroll > 1 && p.number("LANES") * unroll >= 2 * longest, "most loads of a round would be in vain")?;
    refuse_if(tokens > 1 && unroll > 1, "unrolled rounds are for one token")
}

/// The adapters in the order of the planes: matrix, bias, activation.
const ADAPTERS: [(&str, Option<&str>, Activation); 4] = [
    ("w2", Some("w0"), Activation::Decay),
    ("a2", Some("a0"), Activation::Sigmoid),
    ("v2", Some("v0"), Activation::Sigmoid),
    ("g2", None, Activation::None),
];

fn reference(site: &Site, args: &mut Args<'_>, y: &mut [f32]) {
    let x = args.floats("x");
    let (rows, k, m) = (site.rows as usize, site.k as usize, site.m as usize);
    let mut first = 0;
    for (plane, (name, bias, kind)) in ADAPTERS.into_iter().enumerate() {
        let Some(matrix) = args.matrix(name) else { continue };
        let rank = matrix.cols();
        let mut weights = vec![0.0; rank];
        for c in 0..m {
            matrix.row(c, &mut weights);
            let bias = bias.map_or(0.0, |name| f64::from(args.floats(name)[c]));
            for t in 0..rows {
                let sum = bias + dot(&x[t * k + first..][..rank], &weights);
                y[(plane * rows + t) * m + c] = activation(kind, sum) as f32;
            }
        }
        first += rank;
    }
}
