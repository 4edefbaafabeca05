//! Which fusions a device can bind at all, from sizes alone: no kernel is made.

use crate::{Instance, Limits};
use std::collections::BTreeSet;
use wgoose_graph::{BatchShape, Format, Fusion, FusionSet, Graph, ModelShape, OperandKind, rewrite, rwkv7};

/// The fusions whose ops find enough storage buffers on a device with these limits, and whose matrices fit in a binding
/// where an op must bind several whole; counted in F32, the largest format.
pub fn bindable_fusions(model: &ModelShape, limits: &Limits) -> FusionSet {
    let mut fusions = FusionSet::new();
    // Layers are alike but for the first.
    let model = ModelShape { layers: model.layers.min(2), ..*model };
    let Ok(graph) = rwkv7::forward(&model) else { return fusions };
    for fusion in Fusion::ALL {
        let before: FusionSet = fusions.iter().copied().filter(|other| fusion.instead_of() != Some(*other)).collect();
        let (mut unfused, mut fused) = (graph.clone(), graph.clone());
        let Ok(_) = rewrite::apply(&mut unfused, &before) else { continue };
        let Ok(reports) = rewrite::apply(&mut fused, &(&before | &FusionSet::from([fusion]))) else { continue };
        // One that builds on a fusion that is not there does nothing.
        let applied = reports.iter().any(|report| report.fusion == fusion && report.applied > 0);
        if applied && too_much(&fused, limits).is_subset(&too_much(&unfused, limits)) {
            fusions.insert(fusion);
        }
    }
    fusions
}

/// The names of the ops that ask for more than there is.
fn too_much(graph: &Graph, limits: &Limits) -> BTreeSet<&'static str> {
    let batch = BatchShape { tokens: 1, segments: 1, outputs: 1 };
    let instances = graph.op_ids().map(|id| Instance::of(graph, id, &batch, &|_| Format::F32));
    instances.filter(|i| !fits(i, limits)).map(|i| i.op.name()).collect()
}

fn fits(instance: &Instance, limits: &Limits) -> bool {
    let buffers = instance.inputs.len() + usize::from(instance.op.in_place().is_none());
    let bytes = |rows: u32, cols: u32| u64::from(rows) * u64::from(cols) * 4;
    let matrices = instance.inputs.iter().filter(|i| i.kind == OperandKind::Matrix);
    let whole =
        matrices.clone().count() < 2 || matrices.clone().all(|i| bytes(i.rows, i.cols) <= limits.storage_binding);
    buffers <= limits.storage_buffers as usize && whole
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(limits: &Limits) -> Vec<Fusion> {
        let model = ModelShape::preset("2.9B").unwrap();
        let bindable = bindable_fusions(&model, limits);
        Fusion::ALL.into_iter().filter(|f| !bindable.contains(f)).collect()
    }

    #[test]
    fn unbindable_fusions_are_refused() {
        let with = |storage_buffers| Limits { storage_buffers, ..Limits::webgpu() };
        let [core, heads, split] = [Fusion::TimeMixCore, Fusion::TimeMixHeads, Fusion::TimeMixSplit];
        assert_eq!(refused(&with(20)), []);
        assert_eq!(refused(&with(16)), [heads]);
        assert_eq!(refused(&with(15)), [core, heads]);
        assert_eq!(refused(&with(14)), [core, heads, Fusion::NormProject]);
        assert_eq!(refused(&with(13)), [core, heads, Fusion::NormProject]);
        assert_eq!(refused(&with(12)), [core, heads, split, Fusion::NormProject]);
        assert_eq!(refused(&with(9)), [core, heads, split, Fusion::NormProject]);
        let of_nine = [Fusion::LoraGroup, Fusion::Project, core, heads, split, Fusion::NormProject, Fusion::NormMatmul];
        assert_eq!(refused(&with(8)), of_nine);
        // A square of 2560 is 25 MiB in F32, an adapter 3 MiB.
        let small = |storage_binding| Limits { storage_buffers: 20, storage_binding, ..Limits::webgpu() };
        assert_eq!(refused(&small(25 << 20)), []);
        assert_eq!(refused(&small(24 << 20)), [Fusion::Project, Fusion::NormProject]);
        assert_eq!(refused(&small(1 << 20)), [Fusion::LoraGroup, Fusion::Project, heads, Fusion::NormProject]);
    }
}
