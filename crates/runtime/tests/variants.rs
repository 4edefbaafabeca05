//! Every variant of every op of the model, at random tunables, shapes, formats and batches, equals the reference.

#![allow(clippy::unwrap_used)] // a failed helper is a failed test

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, LayerWeight, Level, LoraRanks, ModelShape, Op, OperandKind, Target, Weight,
    WeightClass, rewrite, rwkv7,
};
use wgoose_kernels::{Kernel, Site, Sources, ops};
use wgoose_runtime::Device;
use wgoose_runtime::lab::{Bench, Case, Expected, check};

fn shapes() -> impl Strategy<Value = ModelShape> {
    let ranks = |of: Vec<u32>| prop::array::uniform4(prop::sample::select(of));
    let ranks = prop_oneof![ranks(vec![4, 20, 32, 64, 96]), ranks(vec![32, 64, 96])];
    let head_size = prop::sample::select(vec![16u32, 32, 64, 128]);
    (head_size, 1u32..5, 1u32..6, 1u32..300, ranks).prop_map(
        |(head_size, heads, ffn, vocab, [decay, iclr, value, gate])| {
            let width = (64 * heads).next_multiple_of(head_size);
            let ranks = LoraRanks { decay, iclr, value, gate };
            ModelShape { layers: 2, width, ffn: 32 * ffn, head_size, vocab, ranks }
        },
    )
}

/// The sites of a model, each kind once. Matrices whose rows do not fill a block fall back to F16; of those of a layer only
/// one is ever in columns.
fn sites(shape: &ModelShape, batch: &BatchShape, format: Format, fusions: &FusionSet) -> Vec<Site> {
    let stored = |w: Weight| {
        let [rows, cols] = w.shape(shape).map(|n| n as usize);
        let has_it = !format.is_in_columns() || matches!(w, Weight::Layer(_, LayerWeight::FfnValue));
        match w.class() {
            WeightClass::Matrix if has_it && format.bytes(rows, cols).is_some() => format,
            WeightClass::Adapter if !format.is_quantised() && !format.is_in_columns() => format,
            _ => Format::F16,
        }
    };
    let mut sites: Vec<Site> = Vec::new();
    for target in [Target::Logits, Target::HiddenSum(Level::Final)] {
        let mut graph = rwkv7::forward_to(shape, target).unwrap();
        rewrite::apply(&mut graph, fusions).unwrap();
        for id in graph.schedule().unwrap() {
            let site = Site::of(&graph, id, batch, &stored);
            for site in [windowed(&site), Some(site)].into_iter().flatten() {
                if !sites.contains(&site) {
                    sites.push(site);
                }
            }
        }
    }
    sites
}

/// Sets that have every op among them: some take in the ops that other fusions make.
fn fusion_sets() -> [FusionSet; 4] {
    let all = FusionSet::from(Fusion::ALL);
    let without = |fusions: &[Fusion]| &all - &fusions.iter().copied().collect();
    let apart = without(&[Fusion::NormProject, Fusion::NormMatmul]);
    [FusionSet::new(), without(&[Fusion::Project, Fusion::TimeMixHeads]), apart, all.clone()]
}

/// A product with some of its matrix's rows, as those of a large one are bound.
fn windowed(site: &Site) -> Option<Site> {
    let (first, window) = (site.m / 3, site.m / 2);
    let is_product = matches!(site.op, Op::Matmul { .. } | Op::MatmulAdd | Op::NormMatmul { .. });
    let mut part = Site { first, window, ..site.clone() };
    part.inputs.iter_mut().find(|i| i.kind == OperandKind::Matrix)?.rows = window;
    (is_product && window > 0).then_some(part)
}

/// Sizes that suit every variant at every tunable: 4096 columns give 256 invocations work.
const SUITS_ALL: ModelShape = ModelShape {
    layers: 2,
    width: 256,
    ffn: 4096,
    head_size: 64,
    vocab: 300,
    ranks: LoraRanks { decay: 32, iclr: 64, value: 32, gate: 96 },
};

const STEPS: [usize; 7] = [1, 7, 11, 17, 23, 31, 53];

#[test]
fn every_tunable_equals_the_reference() {
    let device = Device::open(None).unwrap();
    // One and many rows: some points are refused for one or the other.
    let batches = [(37, 2), (1, 1)].map(|(tokens, segments)| BatchShape { tokens, segments, outputs: 1 });
    let mut all: Vec<Site> = Vec::new();
    for (batch, fusions) in batches.iter().flat_map(|b| fusion_sets().map(|set| (b, set))) {
        for format in [Format::Q4_K, Format::Q4_KC] {
            for site in sites(&SUITS_ALL, batch, format, &fusions) {
                if !all.contains(&site) {
                    all.push(site);
                }
            }
        }
    }
    let (mut checked, mut refused) = (0, BTreeMap::<String, u32>::new());
    for op in ops::ALL {
        let cases: Vec<(Case, Expected)> = all
            .iter()
            .filter(|site| site.op.name() == op.name)
            .map(|site| Case::random(site, 5))
            .map(|case| (case.clone(), Expected::of(&case)))
            .collect();
        for variant in op.variants {
            let points = variant.points(&Sources::Embedded).unwrap();
            // Of many some. The choices of a tunable are 2, 3, 4 or 5: steps that share no factor with these take each of them.
            let step = STEPS.into_iter().find(|step| points.len() / step <= 40).unwrap_or(97);
            for point in points.into_iter().step_by(step) {
                let kernel =
                    |case: &Case| Kernel::new(variant, case.site(), &point, device.limits(), &Sources::Embedded);
                let Some((case, expected, kernel)) =
                    cases.iter().find_map(|(case, expected)| Some((case, expected, kernel(case).ok()?)))
                else {
                    let reason = cases.iter().find_map(|(case, _)| kernel(case).err());
                    *refused.entry(format!("{}: {}", variant.id(), reason.unwrap())).or_default() += 1;
                    continue;
                };
                let bench = Bench::new(&device, &kernel, case, 1).unwrap();
                let deviation = check(&bench, case, expected).unwrap();
                assert!(deviation.passed(), "{}: {deviation:?}", kernel.label);
                checked += 1;
            }
        }
    }
    println!("{checked} points checked");
    for (reason, points) in &refused {
        println!("{points} points refused: {reason}");
    }
    assert!(checked > 150, "only {checked} points");
}

#[test]
fn every_variant_equals_the_reference() {
    let device = Device::open(None).unwrap();
    let checked: Mutex<BTreeMap<String, u32>> = Mutex::default();
    let skipped: Mutex<BTreeMap<String, BTreeSet<String>>> = Mutex::default();
    let cases: u32 = std::env::var("PROPTEST_CASES").ok().and_then(|c| c.parse().ok()).unwrap_or(8);
    let mut config = Config { cases, failure_persistence: None, ..Config::default() };
    // The same cases each time, unless PROPTEST_RNG_SEED says others: compilers of software devices need minutes, or
    // never end, for some kernels at some sizes.
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(7);
    }
    let mut runner = TestRunner::new(config);
    let strategy = (
        shapes(),
        (1u32..40, 1u32..4, 1u32..4),
        prop::sample::select([&Format::ON_GPU[..], &Format::IN_COLUMNS].concat()),
        prop::sample::select(fusion_sets().to_vec()),
        any::<u64>(),
    );
    let case = |shape: ModelShape,
                (tokens, segments, outputs): (u32, u32, u32),
                format: Format,
                fusions: &FusionSet,
                seed: u64| {
        // K-quants need rows of 256; give them some.
        let width = if format.block_weights() == 256 { 256 } else { shape.width };
        let ffn = if format.block_weights() == 256 { 256 * shape.ffn.div_ceil(256) } else { shape.ffn };
        let shape = ModelShape { width, ffn, ..shape };
        let batch = BatchShape { tokens: tokens.max(segments), segments, outputs: outputs.min(tokens) };
        for site in sites(&shape, &batch, format, fusions) {
            let case = Case::random(&site, seed);
            let expected = Expected::of(&case);
            for variant in ops::kernels(&site.op).variants {
                let points = variant.points(&Sources::Embedded).unwrap();
                let label = format!("{} {:?}", variant.id(), site.inputs.iter().filter_map(|i| i.format).next());
                // The first point from a random one on that the site admits.
                let made = (0..points.len()).map(|i| &points[(seed as usize).wrapping_add(i) % points.len()]);
                let made = made.map(|p| Kernel::new(variant, &site, p, device.limits(), &Sources::Embedded));
                let (mut refusals, mut kernels) = (Vec::new(), made);
                let kernel = loop {
                    match kernels.next() {
                        Some(Err(refusal)) => refusals.push(refusal),
                        other => break other,
                    }
                };
                match kernel.unwrap_or_else(|| Err(refusals.remove(0))) {
                    Err(refusal) => {
                        skipped.lock().unwrap().entry(variant.id()).or_default().insert(refusal.to_string());
                    }
                    Ok(kernel) => {
                        let bench = Bench::new(&device, &kernel, &case, 1).unwrap();
                        let deviation = check(&bench, &case, &expected).unwrap();
                        prop_assert!(deviation.passed(), "{} at {site:?}: {deviation:?}", kernel.label);
                        *checked.lock().unwrap().entry(label).or_default() += 1;
                    }
                }
            }
        }
        Ok(())
    };
    // Sizes that suit every variant, so that none escapes whatever the random cases are.
    for seed in 0..4 {
        for fusions in fusion_sets() {
            case(SUITS_ALL, (17, 2, 2), Format::F16, &fusions, seed).unwrap();
        }
    }
    // Every format, so that none escapes either.
    for (seed, format) in (0..).zip(Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS)) {
        // Norms apart and norms in their consumers, in turn: random cases have both.
        let fusions = &fusion_sets()[2 + seed as usize % 2];
        case(SUITS_ALL, (17, 2, 2), format, fusions, seed).unwrap();
    }
    // One token, for what takes tokens one by one.
    for format in Format::IN_COLUMNS {
        case(SUITS_ALL, (1, 1, 1), format, &FusionSet::from(Fusion::ALL), 7).unwrap();
    }
    let result =
        runner.run(&strategy, |(shape, sizes, format, fusions, seed)| case(shape, sizes, format, &fusions, seed));
    let (checked, skipped) = (checked.into_inner().unwrap(), skipped.into_inner().unwrap());
    for (variant, n) in &checked {
        println!("checked {n:>4} {variant}");
    }
    for (variant, reasons) in &skipped {
        println!("skipped      {variant}: {}", reasons.iter().cloned().collect::<Vec<_>>().join("; "));
    }
    result.unwrap();
    let ran: BTreeSet<&str> = checked.keys().filter_map(|l| l.split(' ').next()).collect();
    for op in ops::ALL {
        for variant in op.variants {
            let lacks = variant.needs.iter().find(|f| !device.limits().features.contains(f));
            assert!(ran.contains(variant.id().as_str()) || lacks.is_some(), "{} was never run", variant.id());
        }
    }
}
