//! The tensors of a model under the names and with the shapes that web-rwkv asks for.

use wgoose_graph::{LayerWeight, ModelShape, Weight};

/// The six token-shift mixes, which the loader has as one weight of six rows.
const MIXES: [&str; 6] = ["x_r", "x_w", "x_k", "x_v", "x_a", "x_g"];

/// A tensor by its name.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) weight: Weight,
    /// The row of the weight that the tensor is; `None` if it is all of it.
    pub(crate) row: Option<usize>,
    /// Slowest-varying first, as in safetensors.
    pub(crate) shape: Vec<usize>,
}

/// Every tensor of a model with its name: adapters are `[rank, C]` and `[C, rank]`, vectors `[C]`, `r_k` `[H, N]`.
pub(crate) fn tensors(model: &ModelShape) -> Vec<(String, Place)> {
    Weight::all(model).flat_map(|weight| of_weight(model, weight)).collect()
}

fn of_weight(model: &ModelShape, weight: Weight) -> Vec<(String, Place)> {
    let [rows, cols] = weight.shape(model).map(|n| n as usize);
    let whole = |shape: Vec<usize>| vec![(weight.to_string(), Place { weight, row: None, shape })];
    match weight {
        Weight::Layer(layer, LayerWeight::AttMix) => {
            let mix =
                |(row, mix)| (format!("blocks.{layer}.att.{mix}"), Place { weight, row: Some(row), shape: vec![cols] });
            MIXES.into_iter().enumerate().map(mix).collect()
        }
        Weight::Layer(_, LayerWeight::Bonus) => whole(vec![model.heads() as usize, model.head_size as usize]),
        _ if rows == 1 => whole(vec![cols]),
        _ => whole(vec![rows, cols]),
    }
}
