//! DeepEmbed, what RWKV-7a adds to the channel mix: every hidden channel has a gain that depends on the token.
//! Formulas: BlinkDL/RWKV-LM `RWKV-v7/rwkv_v7a_demo.py`, where
//!
//! ```text
//! M    = s_emb[token] + s_emb_x e     the token's n x n matrix, row by row; e is its embedding after ln0
//! gain = ((x s1) M) s2 + s0           x is the normed row of the channel mix, before the token shift
//! ```
//!
//! The authors add `s_emb_x e` to every row of the table as they load it. Here a pass computes it for its tokens alone:
//! the table stays as the file has it.

use super::Builder;
use crate::LayerWeight::{DeepEmbedBias, DeepEmbedDown, DeepEmbedResidual, DeepEmbedTable, DeepEmbedUp};
use crate::{Activation, GraphError, NodeId, Op, Source};

impl Builder {
    /// The gain of each hidden channel of the channel mix, `[T, F]`.
    pub(super) fn deep_embed_gain(&mut self, normed: NodeId, embedding: NodeId) -> Result<NodeId, GraphError> {
        let tokens = self.graph.source(Source::Tokens).into();
        let table = self.layer_weight(DeepEmbedTable);
        let row = self.op(Op::Embed, "ffn.deep_embed", &[("tokens", tokens), ("table", table)])?;
        let residual = self.matmul("ffn.deep_embed", embedding.into(), DeepEmbedResidual)?;
        let matrices = self.op(Op::Add, "ffn.deep_embed", &[("a", row.into()), ("b", residual.into())])?;

        let x = self.matmul("ffn.deep_embed", normed.into(), DeepEmbedDown)?;
        let inputs = [("x", x.into()), ("matrices", matrices.into())];
        let x = self.op(Op::TokenMatmul, "ffn.deep_embed", &inputs)?;
        let gain = self.matmul("ffn.deep_embed", x.into(), DeepEmbedUp)?;
        self.biased("ffn.deep_embed", gain, DeepEmbedBias, Activation::None)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Fusion, FusionSet, Level, ModelShape, Source, Target, check, rewrite, rwkv7};

    #[test]
    fn the_plain_model_is_unchanged_and_rwkv_7a_is_legal_with_every_fusion() {
        let shape = ModelShape { layers: 3, ..ModelShape::preset("0.1B").unwrap() };
        let deep = ModelShape { deep_embed: Some(32), ..shape };
        let count = |shape: &ModelShape| rwkv7::forward(shape).unwrap().op_ids().count();
        assert_eq!(count(&deep), count(&shape) + 3 * 8);
        let one_by_one = Fusion::ALL.map(|fusion| FusionSet::from([fusion]));
        for fusions in one_by_one.into_iter().chain(Fusion::covering_sets()) {
            for target in [Target::Logits, Target::Hidden(Level::Layer(1)), Target::HiddenSum(Level::Final)] {
                let mut graph = rwkv7::forward_to(&deep, target).unwrap();
                rewrite::apply(&mut graph, &fusions).unwrap();
                check(&graph).unwrap();
                let tables = |source: &Source| matches!(source, Source::Weight(weight) if weight.is_token_table());
                let layers = target.depth(&deep) as usize;
                assert_eq!(graph.sources().keys().filter(|source| tables(source)).count(), 1 + layers);
            }
        }
    }

    #[test]
    fn the_embedding_that_later_layers_read_is_not_written_over() {
        let deep = ModelShape { layers: 3, deep_embed: Some(8), ..ModelShape::preset("0.1B").unwrap() };
        let mut graph = rwkv7::forward(&deep).unwrap();
        let report = rewrite::apply(&mut graph, &FusionSet::from([Fusion::MatmulResidual])).unwrap().remove(0);
        // Two residuals and a DeepEmbed in each layer, without the first residual of all.
        assert_eq!(report.applied, 3 * 3 - 1);
        let [(role, layer, why)] = &report.refused[..] else { panic!("{report:?}") };
        assert_eq!((*role, *layer), ("att.residual", Some(0)));
        assert!(why.to_string().contains("5 readers"), "{why}");
    }
}
