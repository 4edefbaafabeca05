//! Seeds in a search, on a made-up device.

use crate::simulated::{cache, options, problem};
use std::ops::ControlFlow;
use std::time::Duration;
use wgoose_graph::Format;
use wgoose_kernels::Precision;
use wgoose_kernels::plan::Choice;
use wgoose_measure::ledger::{self, Cause, Record};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::seed::Seed;
use wgoose_measure::space::{Scope, groups};
use wgoose_plans::catalogue;
use wgoose_sim::{SimulatedDevice, SimulatedRunner};
use wgoose_tuner::kernel_tuning::{KernelTuner, TunedKernel};
use wgoose_tuner::seeds::Planted;
use wgoose_tuner::sweep::{Event, Note, search};

/// The seed of a choice.
fn seed(choice: &Choice) -> Seed {
    let (key, config) = (choice.key.clone(), choice.config.clone());
    let (k, m, formats) = (Some(key.k), Some(key.m), Some(key.formats));
    Seed { op: key.op, variant: choice.variant.clone(), config, k, m, formats, rows: Some(key.up_to_rows) }
}

/// Tunes the norms of decode for that many seconds of a simulated device.
fn tuned(seeds: &[Seed], exhaustive: bool, seconds: u64) -> TunedKernel {
    let folder = tempfile::tempdir().unwrap();
    let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::embedded());
    let options = options(&folder.path().join("ledger.jsonl"), 100);
    let device = SimulatedDevice { spread: 0.3, interaction: 0.1, ..SimulatedDevice::h200(7) };
    let mut runner = SimulatedRunner::new(&problem, &catalogue, device);
    let all = groups(&problem.shape, Scenario::DECODE, &problem.default.fusions.decode, &|_| Format::Q8_0);
    let site = all.into_iter().find(|group| group.key.op == "norm_shift").unwrap();
    let scope = Scope { allowed: Precision::F32, exhaustive };
    let planted = Planted::new(seeds, None, &catalogue);
    let tuner = KernelTuner::new(&problem.limits, &catalogue, scope).with_seeds(&planted);
    tuner.tune(&site, &mut cache(&problem, &options, &mut runner), Duration::from_secs(seconds)).unwrap()
}

#[test]
fn a_seeded_optimum_is_found_at_once() {
    let best = tuned(&[], true, 1000).winner.unwrap();
    let blind = tuned(&[], false, 0);
    assert_ne!(blind.winner.map(|choice| choice.to_string()), Some(best.to_string()), "it is found without a seed");
    // No time at all but for the default, the seed, and their comparison.
    let seeded = tuned(&[seed(&best)], false, 0);
    assert_eq!(seeded.winner.unwrap().to_string(), best.to_string());
    assert!(seeded.tried <= 6, "{} tried", seeded.tried);
}

#[test]
fn a_useless_seed_changes_no_result() {
    let without = tuned(&[], false, 1000).winner.unwrap();
    // A slow one for this site, and one for others.
    let useless = Seed { variant: "naive".to_owned(), ..seed(&without) };
    let catalogue = catalogue::embedded();
    let variant = catalogue.variants("norm_shift").last().unwrap();
    let slow = Seed { variant: variant.name().to_owned(), config: variant.spell(&variant.default_config()), ..useless };
    let elsewhere = Seed { k: Some(7), ..seed(&without) };
    let with = tuned(&[slow, elsewhere], false, 1000).winner.unwrap();
    assert_eq!(with.to_string(), without.to_string());
}

#[test]
fn misfit_seeds_are_refused_in_the_ledger_and_reported() {
    let list = r#"[
        {"op": "matmul", "variant": "magic", "config": {}},
        {"op": "layer_norm", "variant": "row", "config": {"WG": 64, "colour": "red"}},
        {"op": "layer_norm", "variant": "row", "config": {"WG": 64}},
        {"op": "layer_norm", "variant": "row", "config": {"WG": 63, "reduce": "subgroup"}},
        {"op": "layer_norm", "variant": "row", "config": {"WG": 64, "reduce": "subgroup"}, "k": 5},
        {"op": "layer_norm", "variant": "row", "config": {"WG": 64, "reduce": "subgroup"}, "rows": 1},
        {"op": "matmul", "variant": "gemm_coop_8x8", "config": CONFIG}
    ]"#;
    let (problem, catalogue) = (problem("0.1B", Format::F16), catalogue::embedded());
    let coop = catalogue.variant("matmul", "gemm_coop_8x8").unwrap();
    let config = serde_json::to_string(&coop.spell(&coop.default_config())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let seeds = serde_json::from_str(&list.replace("CONFIG", &config)).unwrap();
    let options = wgoose_tuner::sweep::SweepOptions { seeds, persistent: false, ..options(&path, 20) };
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(1));
    let mut said = Vec::new();
    search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        if let Event::Note(Note::Seed { .. }) = &event {
            said.push(event.to_string());
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    let wanted = [
        "note: seed matmul/magic: there is no kernel matmul/magic",
        "note: seed layer_norm/row WG=64 colour=red: layer_norm/row ",
        "note: seed layer_norm/row WG=64: layer_norm/row needs a choice for reduce",
        "note: seed layer_norm/row WG=63 reduce=subgroup: layer_norm/row: WG = 63 is not one of its choices",
        "note: seed layer_norm/row WG=64 reduce=subgroup: no op instance that was tuned has its op and sizes",
        "note: seed matmul/gemm_coop_8x8",
    ];
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    said.iter().zip(wanted).for_each(|(line, wanted)| assert!(line.starts_with(wanted), "{line}"));
    assert!(said[5].contains("op instances that it fits: matmul "), "{}", said[5]);
    let (records, _) = ledger::read(&path).unwrap();
    let refused = records.as_slice().iter().filter(|entry| match &entry.record {
        Record::Refused(refused) => {
            refused.reason.text.starts_with("seed: ") && refused.reason.cause == Cause::Constraint
        }
        _ => false,
    });
    assert_eq!(refused.count(), wanted.len());
}
