//! Every variant of every op equals the reference: at its default, at every choice of every tunable, and at random
//! models, batches, formats and configurations. `WGOOSE_KERNEL=op` or `op/variant` tests that alone,
//! `WGOOSE_DEFAULTS=1` defaults instead of every choice (`cargo xtask test --quick`), `WGOOSE_MATRICES=1` what needs
//! matrix units, of which there must be some (`cargo xtask test --matrices`).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wgoose_graph::{BatchShape, Format, LoraRanks, ModelShape, Target, rewrite, rwkv7};
use wgoose_kernels::{Config, Feature, Instance, Kernel, Limits, Plan, Precision, Refusal, Variant, ops};
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::property::{Amount, Tested, run_case, test_choices, test_variant};
use wgoose_runtime::kernel_bench::{Bench, Case, Numbers, Ran};
use wgoose_runtime::{Device, DeviceLimits, RuntimeError};

/// Random cases of a variant, unless PROPTEST_CASES says otherwise: most of their time is that of a compiler.
const CASES: u32 = 2;

/// The same cases each time, unless PROPTEST_RNG_SEED says others: compilers of software adapters need minutes, or
/// never end, for some kernels at some sizes.
const SEED: u64 = 7;

/// Matrix units.
const MATRICES: [Feature; 2] = [Feature::CooperativeMatrix, Feature::CooperativeMatrix8];

fn number<T: std::str::FromStr>(variable: &str, default: T) -> T {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tests what is asked for; prints what was tested and what was skipped.
fn test(how: impl Fn(&Arc<Device>, &str, &Variant) -> Result<Tested, RuntimeError> + Sync) {
    let (device, catalogue) = (Device::open(None).unwrap(), catalogue::embedded());
    let asked = std::env::var("WGOOSE_KERNEL").unwrap_or_default();
    let only_matrices = std::env::var_os("WGOOSE_MATRICES").is_some();
    let all = ops::ALL.iter().flat_map(|op| catalogue.variants(op.name).iter().map(|variant| (op.name, variant)));
    let is_asked = |op: &str, variant: &Variant| {
        let is_named = asked.is_empty() || asked == op || asked == format!("{op}/{}", variant.name());
        is_named && (!only_matrices || MATRICES.iter().any(|units| variant.may_need(*units)))
    };
    let found: Vec<(&str, &Variant)> = all.filter(|(op, variant)| is_asked(op, variant)).collect();
    let (next, ran, failures) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((op, variant)) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (id, start) = (format!("{op}/{}", variant.name()), Instant::now());
            let tested = how(&device, op, variant).unwrap();
            let (cases, seconds) = (tested.cases, start.elapsed().as_secs_f64());
            println!("{id}: {cases} cases in {seconds:.1} s, worst error {:.2} of what is allowed", tested.worst);
            ran.fetch_add(usize::from(cases > 0), Ordering::Relaxed);
            tested.skipped.iter().for_each(|(reason, cases)| println!("    {cases} skipped: {reason}"));
            match tested.failure {
                Some((case, why)) => failures.lock().unwrap().push(format!("{why}\n{case:#?}")),
                None if tested.cases == 0 && !lacks_feature(&device, &tested) && !is_beyond_lower_limits(&tested) => {
                    failures.lock().unwrap().push(format!("{id} never ran"));
                }
                None => {}
            }
        }
    };
    // Other tests have the other cores, but where these are the only ones.
    let threads = if only_matrices { std::thread::available_parallelism().map_or(1, usize::from) } else { 1 };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    assert!(!found.is_empty(), "there is no kernel {asked}");
    assert!(ran.into_inner() > 0 || !only_matrices, "{} has no matrix units", device.fingerprint().adapter);
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Whether a device feature is all that a variant lacks.
fn lacks_feature(device: &Device, tested: &Tested) -> bool {
    let lacks = |feature: &Feature| !device.limits().features.contains(feature);
    let lacking: Vec<String> =
        Feature::ALL.into_iter().filter(lacks).map(|feature| Refusal::Feature(feature).to_string()).collect();
    !tested.skipped.is_empty() && tested.skipped.keys().all(|reason| lacking.contains(reason))
}

/// Whether lower limits than the device's own are all that keeps a variant from running. With its own every one must
/// run.
fn is_beyond_lower_limits(tested: &Tested) -> bool {
    is_lowered() && tested.beyond_device > 0 && tested.beyond_device == tested.skipped.values().sum::<u32>()
}

/// Whether devices are opened with lower limits than their own.
fn is_lowered() -> bool {
    DeviceLimits::Own.or_of_environment().unwrap() != DeviceLimits::Own
}

#[test]
fn every_choice_equals_the_reference() {
    let only_defaults = std::env::var_os("WGOOSE_DEFAULTS").is_some();
    test(|device, op, variant| test_choices(device, op, variant, !only_defaults));
}

#[test]
fn random_cases_equal_the_reference() {
    let amount = Amount::new(number("PROPTEST_CASES", CASES), number("PROPTEST_RNG_SEED", SEED));
    test(|device, op, variant| test_variant(device, op, variant, amount));
}

/// A configuration of a variant, and its tile.
type Tile<'c> = (&'c Variant, Config, [Option<u32>; 2]);

/// Configurations whose bits are compared, of those that add up alike.
const ALIKE: usize = 2;

#[test]
fn kernels_with_equal_order_of_sums_have_equal_bits() {
    let (device, catalogue) = (Device::open(None).unwrap(), catalogue::embedded());
    let asked = std::env::var("WGOOSE_KERNEL").unwrap_or_default();
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 64 };
    let shape = ModelShape {
        layers: 2,
        width: 256,
        ffn: 512,
        head_size: 64,
        vocab: 300,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let batch = BatchShape { tokens: 20, segments: 1, outputs: 1 };
    let mut graphs = [(); 2].map(|()| rwkv7::forward_to(&shape, Target::Logits).unwrap());
    rewrite::apply(&mut graphs[1], &Plan::default_fusions(true).prefill).unwrap();
    let (mut instances, mut groups) = (Vec::new(), 0);
    for graph in &graphs {
        let of = |id| Instance::of(graph, id, &batch, &|_| Format::F16);
        graph.schedule().unwrap().into_iter().map(of).for_each(|i: Instance| {
            if !instances.iter().any(|known: &Instance| known.op.name() == i.op.name()) {
                instances.push(i);
            }
        });
    }
    for instance in &instances {
        let mut alike: BTreeMap<String, Vec<Tile<'_>>> = BTreeMap::new();
        let op = instance.op.name();
        let variants = catalogue.variants(op).iter().filter(|v| asked.is_empty() || asked == op || asked == v.id());
        for (variant, config) in variants.flat_map(|v| v.configs().into_iter().map(move |config| (v, config))) {
            let Some(sums) = variant.sums(&config).filter(|_| variant.precision(&config) == Precision::F16) else {
                continue;
            };
            let tile = ["TILE_M", "TILE_N"].map(|name| variant.tunable(&config, name, device.limits()));
            let found = alike.entry(sums).or_default();
            let is_new = found.iter().all(|(_, _, known)| *known != tile);
            if found.len() < ALIKE && is_new && variant.is_legal(instance, &config, device.limits()).is_ok() {
                found.push((variant, config, tile));
            }
        }
        for (sums, found) in alike.into_iter().filter(|(_, found)| found.len() > 1) {
            let case = Case::random(instance, Numbers::Even, 7);
            let bits = |(variant, config, _): &Tile<'_>| {
                let kernel = Kernel::new(variant, instance, config, device.limits()).unwrap();
                let Ran { y, state } = Bench::new(&device, &kernel, &case, 1).unwrap().run(&case).unwrap();
                let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<u32>>();
                (bits(y), state.map(bits))
            };
            let first = bits(&found[0]);
            for other in &found[1..] {
                let labels = [&found[0], other].map(|(variant, config, _)| variant.label(config));
                assert!(first == bits(other), "{} and {} differ: {sums}", labels[0], labels[1]);
            }
            println!("{op}: {} tiles alike: {sums}", found.len());
            groups += 1;
        }
    }
    assert!(groups > 0 || !device.limits().has_matrix_units() || !asked.is_empty());
}

#[test]
fn matrix_units_that_are_listed_pass_their_check() {
    let units = |limits: &Limits| MATRICES.map(|units| limits.features.contains(&units));
    let (listed, device) = (wgoose_runtime::adapters().remove(0).limits, Device::open(None).unwrap());
    if is_lowered() {
        eprintln!("skipped: with lower limits a device has no matrix units, whatever it lists");
        assert_eq!(units(device.limits()), [false; 2]);
        return;
    }
    assert_eq!(units(device.limits()), units(&listed), "{}", device.fingerprint().adapter);
    let are_expected = std::env::var_os("WGOOSE_MATRICES").is_some();
    assert!(!are_expected || units(&listed).contains(&true), "{} lists none", device.fingerprint().adapter);
}

#[test]
fn a_wrong_kernel_is_found_shrunk_and_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ops/mul/wrong.wgsl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    // Wrong from the third row on.
    let text = include_str!("../../../../kernels-wgsl/ops/mul/elements.wgsl");
    let wrong = text.replace("a[i] * b[i]", "a[i] * b[i] + select(0.0, 1.0, i >= 2u * params.m)");
    assert_ne!(wrong, text);
    std::fs::write(&file, wrong).unwrap();
    let (device, catalogue) = (Device::open(None).unwrap(), catalogue::with_folder(folder.path()).unwrap());
    let variant = catalogue.variant("mul", "wrong").unwrap();
    // To the end: a busy machine shrinks slowly.
    let amount = Amount { shrinking: Duration::MAX, ..Amount::new(20, 1) };
    let tested = test_variant(&device, "mul", variant, amount).unwrap();
    let (case, why) = tested.failure.unwrap();
    assert_eq!((case.tokens, case.model.head_size), (3, 16), "{case:?}");
    assert_eq!(run_case(&device, &catalogue, &case).unwrap(), Some(why));
    let saved: wgoose_runtime::kernel_bench::property::DrawnCase =
        serde_json::from_str(&serde_json::to_string(&case).unwrap()).unwrap();
    assert_eq!(saved, case);
    std::fs::write(&file, text).unwrap();
    let mended = catalogue::with_folder(folder.path()).unwrap();
    assert_eq!(run_case(&device, &mended, &case).unwrap(), None);
}
