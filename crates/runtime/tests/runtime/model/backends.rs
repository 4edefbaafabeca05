//! The GPU computes what the CPU reference defines, whatever the format of the matrices and the fusions.

use crate::model::numbers::{Result, Tolerance, assert_agree};
use crate::model::world::{SHAPE, bindable, cpu, device, fused, model, read, tokens};
use std::sync::Arc;
use wgoose_graph::{Fusion, FusionSet, rewrite, rwkv7};
use wgoose_loader::synth::Mix;
use wgoose_runtime::{CpuExecutor, Engine};

/// No fusion, each alone, all but each, and all: whatever two fusions do to each other, some set shows it.
fn fusion_sets() -> impl Iterator<Item = FusionSet> {
    let all = FusionSet::from(Fusion::ALL);
    let alone = Fusion::ALL.map(|fusion| FusionSet::from([fusion]));
    let without = alone.clone().map(|one| &all - &one);
    [FusionSet::new()].into_iter().chain(alone).chain(without).chain([all])
}

/// Whether a fusion has something to do: some take in the ops of others, or leave others nothing.
fn applies(fusion: Fusion, fusions: &FusionSet) -> bool {
    let needs: &[Fusion] = match fusion {
        Fusion::Project => &[Fusion::LoraGroup],
        Fusion::TimeMixHeads => &[Fusion::LoraGroup, Fusion::TimeMixCore],
        Fusion::NormProject => &[Fusion::NormShift, Fusion::LoraGroup, Fusion::Project],
        Fusion::NormMatmul => &[Fusion::NormShift],
        _ => &[],
    };
    let is_left_nothing = fusion.instead_of().is_some_and(|other| fusions.contains(&other));
    needs.iter().all(|needed| fusions.contains(needed)) && !is_left_nothing
}

/// A prompt over several passes, then single tokens: kernels for many rows, for few and for one take part.
fn run(engine: &mut Engine) -> Result {
    let tokens = tokens(0, 26);
    let parts = [&tokens[..20], &tokens[20..23], &tokens[23..24], &tokens[24..25], &tokens[25..]];
    let logits = parts.iter().flat_map(|part| read(engine, part)).collect();
    (logits, engine.state(0).unwrap())
}

fn fusions_agree(mix: Mix, sets: impl IntoIterator<Item = FusionSet>) {
    let (model, device) = (model(mix), device());
    let reference = run(&mut cpu(&model, 1));
    let unfused = run(&mut fused(&device, &model, FusionSet::new(), 1).unwrap());
    for fusions in bindable(&device, sets) {
        let what = format!("{mix} with {fusions:?}");
        let got = run(&mut fused(&device, &model, fusions, 1).unwrap());
        assert_agree(&what, SHAPE.vocab, &got, &reference, Tolerance::REFERENCE);
        assert_agree(&what, SHAPE.vocab, &got, &unfused, Tolerance::ROUNDING);
    }
}

#[test]
fn every_fusion_set_agrees() {
    fusions_agree(Mix::F16, fusion_sets());
}

// What fusions do to each other does not depend on the format: each op once is enough.

#[test]
fn q4_k_m_agrees_in_every_op() {
    fusions_agree(Mix::Q4_K_M, Fusion::covering_sets());
}

#[test]
fn q8_0_agrees_in_every_op_but_project() {
    // Software adapters take minutes to compile that; alone it is tested among the variants.
    let sets = Fusion::covering_sets().into_iter().filter(|fusions| !fusions.contains(&Fusion::Project));
    fusions_agree(Mix::Q8_0, sets);
}

#[test]
fn fused_references_on_the_cpu() {
    let model = model(Mix::F16);
    let unfused = run(&mut cpu(&model, 1));
    for fusions in fusion_sets() {
        let mut graph = rwkv7::forward(&SHAPE).unwrap();
        let reports = rewrite::apply(&mut graph, &fusions).unwrap();
        assert!(reports.iter().all(|r| (r.applied > 0) == applies(r.fusion, &fusions)), "{reports:?}");
        let executor = CpuExecutor::with_graph(Arc::clone(&model), graph, 1).unwrap();
        let got = run(&mut Engine::new(Box::new(executor), 128));
        let tolerance = Tolerance { first: 1e-5, later: 1e-5 };
        assert_agree(&format!("{fusions:?}"), SHAPE.vocab, &got, &unfused, tolerance);
    }
}
