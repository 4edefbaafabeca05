//! Which plan is chosen, and what of it; and what the tests of the other files share.

use crate::catalogue;
use crate::passes::Passes;
use crate::*;
use wgoose_graph::{Format, Fusion, LayerWeight, ModelShape};
use wgoose_kernels::plan::{Choice, Evidence, ScenarioEvidence, TuningKey};
use wgoose_kernels::{Catalogue, DeviceFingerprint, Feature, Limits, Plan};
use wgoose_loader::synth::Mix;

/// The H200 of the plans that ship.
pub(crate) fn device() -> DeviceFingerprint {
    ships().device
}

pub(crate) fn class(preset: &str, mix: Mix) -> ModelClass {
    ModelClass::of(&ModelShape::preset(preset).unwrap(), |weight| mix.in_gguf(weight))
}

pub(crate) fn default_plan(preset: &str) -> Plan {
    Plan::default_for(device(), ModelShape::preset(preset).unwrap(), &Limits::webgpu())
}

/// A choice that any 0.1B model in F16 has a place for.
pub(crate) fn choice() -> Choice {
    let key = TuningKey { op: "matmul".into(), k: 768, m: 65536, formats: vec![Format::F16], up_to_rows: 1 };
    let catalogue = catalogue::embedded();
    let variant = catalogue.variant("matmul", "naive").unwrap();
    Choice::new(key, variant, &variant.default_config()).unwrap()
}

pub(crate) fn evidence(gain: f64) -> Evidence {
    let decode = ScenarioEvidence {
        scenario: "decode".into(),
        tokens: 1,
        default_us: 100.0 * gain,
        tuned_us: 100.0,
        speedup: (gain, gain),
        pairs: 5,
    };
    Evidence {
        plan: String::new(),
        model: "m".into(),
        quality_hash: "h".into(),
        class: None,
        decisions: 0,
        checked: wgoose_kernels::plan::Checked::default(),
        certified: (1, 1),
        rms_error: 0.0,
        scenarios: vec![decode],
        ledger: "l".into(),
        without_op: Vec::new(),
    }
}

/// A plan for 0.1B in F16 with a choice.
fn tuned() -> Plan {
    let mut plan = default_plan("0.1B");
    plan.prefill_chunk = 48;
    plan.choices.push(choice());
    plan.with_evidence(evidence(1.84))
}

/// The limits of an H200.
fn h200() -> Limits {
    let features = [Feature::Subgroups, Feature::F16, Feature::CoherentMemory, Feature::CooperativeMatrix];
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 49152,
        storage_buffers: 20,
        storage_binding: 4 << 30,
        buffer: 4 << 30,
        min_subgroup: 32,
        multiprocessors: 132,
        features: features.into(),
        ..Limits::webgpu()
    }
}

/// The plan of 2.9B in Q4_K_M that ships.
const SHIPS: &str = "nvidia-h200-32x2560-q4_k_m";

/// That plan.
fn ships() -> Plan {
    shipped().find(|plan| plan.name == SHIPS).unwrap().plan().unwrap()
}

/// Looks for a plan.
fn find(store: Option<&Store>, device: &DeviceFingerprint, class: &ModelClass, catalogue: &Catalogue) -> Chosen {
    Place { device, limits: &h200(), class, catalogue }.find(store)
}

#[test]
fn the_store_overrides_shipped_plans_and_they_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let (store, catalogue) = (Store::at(folder.path()), catalogue::embedded());
    let q4 = class("2.9B", Mix::Q4_K_M);
    let ships = find(Some(&store), &device(), &q4, &catalogue);
    assert_eq!(ships.report.origin, Origin::Shipped { name: SHIPS.into() });
    let line = ships.report.to_string();
    assert!(line.starts_with("nvidia-h200-32x2560-q4_k_m (ships with wgoose)"), "{line}");

    let mine = Plan { choices: Vec::new(), ..ships.plan };
    let mine = Plan { prefill_chunk: 77, device: device(), evidence: None, ..mine };
    let name = store.file(&q4, &mine).unwrap();
    let found = find(Some(&store), &device(), &q4, &catalogue);
    assert!(matches!(&found.report.origin, Origin::Store { name: n, .. } if *n == name));
    assert_eq!(found.plan.prefill_chunk, 77);
    assert!(found.report.is_current());

    let no_faster = mine.with_evidence(Evidence { scenarios: Vec::new(), ..evidence(1.0) });
    store.file(&q4, &no_faster).unwrap();
    let found = find(Some(&store), &device(), &q4, &catalogue);
    let line = found.report.to_string();
    assert!(line.ends_with("(store), nothing tried was faster than the default"), "{line}");
    let default = Plan::default_for(device(), *q4.shape(), &h200());
    assert_eq!(found.plan.hash(), default.hash(), "today's default, whatever it was then");

    // The same shape in another mix, another device, or another API: neither is for them.
    let default = Origin::Default { was_asked: false };
    let q5 = find(Some(&store), &device(), &class("2.9B", Mix::Q5_K_M), &catalogue);
    assert_eq!((&q5.report.origin, q5.report.is_current()), (&default, false));
    assert!(q5.report.to_string().contains("wgoose tune"), "{}", q5.report);
    for change in [
        |d: &mut DeviceFingerprint| d.device += 1,
        |d: &mut DeviceFingerprint| d.vendor += 1,
        |d: &mut DeviceFingerprint| d.adapter.push('X'),
        |d: &mut DeviceFingerprint| d.backend = "dx12".into(),
    ] {
        let mut other = device();
        change(&mut other);
        assert_eq!(find(Some(&store), &other, &q4, &catalogue).report.origin, default);
    }
}

#[test]
fn a_plan_fits_by_shape_formats_and_layouts() {
    let catalogue = catalogue::embedded();
    let fits = |plan: &Plan, preset, mix| {
        let class = class(preset, mix);
        Place { device: &device(), limits: &h200(), class: &class, catalogue: &catalogue }.fits(plan)
    };
    let shipped = ships();
    assert!(fits(&shipped, "2.9B", Mix::Q4_K_M));
    assert!(!fits(&shipped, "2.9B", Mix::Q5_K_M) && !fits(&shipped, "2.9B", Mix::F16));
    assert!(!fits(&shipped, "1.5B", Mix::Q4_K_M));
    let mut not_interleaved = shipped.clone();
    not_interleaved.interleave.clear();
    assert!(!fits(&not_interleaved, "2.9B", Mix::Q4_K_M), "its choices are for interleaved blocks");
    let mut unfused = shipped;
    unfused.fusions.decode.remove(&Fusion::TimeMixHeads);
    assert!(!fits(&unfused, "2.9B", Mix::Q4_K_M), "its choices are for fused ops");
    assert!(fits(&tuned(), "0.1B", Mix::F16) && !fits(&tuned(), "0.1B", Mix::Q8_0));
}

#[test]
fn a_new_driver_keeps_all_choices_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (store, catalogue) = (Store::at(folder.path()), catalogue::embedded());
    let f16 = class("0.1B", Mix::F16);
    store.file(&f16, &tuned()).unwrap();
    let here = DeviceFingerprint { driver: "NVIDIA 999".into(), wgpu: "99".into(), ..device() };
    let found = find(Some(&store), &here, &f16, &catalogue);
    assert_eq!(found.plan.choices, tuned().choices);
    let Plan { device, .. } = &found.plan;
    assert_eq!(*device, here, "it is checked no further");
    let line = found.report.to_string();
    let parts = [
        "(store), 1.84 x the default in decode; stale: made with driver",
        "'NVIDIA 999', made with wgpu",
        "; wgoose tune refreshes it",
    ];
    assert!(parts.iter().all(|part| line.contains(part)) && !line.contains('\n'), "{line}");
    assert!(!found.report.is_current());
}

#[test]
fn a_choice_whose_kernel_changed_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path().join("store"));
    let f16 = class("0.1B", Mix::F16);
    store.file(&f16, &tuned()).unwrap();
    let embedded = catalogue::embedded();
    assert_eq!(find(Some(&store), &device(), &f16, &embedded).plan, tuned());

    let kernels = folder.path().join("kernels");
    std::fs::create_dir_all(kernels.join("ops/matmul")).unwrap();
    let naive = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels-wgsl/ops/matmul/naive.wgsl");
    let text = std::fs::read_to_string(naive).unwrap() + "\nconst EDITED: u32 = 1u;\n";
    std::fs::write(kernels.join("ops/matmul/naive.wgsl"), text).unwrap();
    let edited = catalogue::with_folder(&kernels).unwrap();
    let found = find(Some(&store), &device(), &f16, &edited);
    assert_eq!(found.report.stale, [Stale::Kernels { changed: 1, of: 1 }]);
    assert_eq!(found.plan, Plan { choices: Vec::new(), ..tuned() });

    let mut gone = tuned();
    gone.choices[0].variant = "honk".into();
    store.file(&f16, &gone.with_evidence(evidence(1.84))).unwrap();
    let found = find(Some(&store), &device(), &f16, &embedded);
    assert_eq!(found.report.stale, [Stale::Kernels { changed: 1, of: 1 }]);
}

#[test]
fn choices_that_a_new_driver_refuses_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, catalogue) = (Store::at(folder.path()), catalogue::embedded());
    let (q4, ships) = (class("2.9B", Mix::Q4_K_M), ships());
    store.file(&q4, &ships).unwrap();
    let here = DeviceFingerprint { driver: "older".into(), ..device() };
    let with = |limits: &Limits| Place { device: &here, limits, class: &q4, catalogue: &catalogue }.find(Some(&store));
    let (full, small) = (with(&h200()), with(&Limits { features: [].into(), storage_buffers: 8, ..h200() }));
    let of_driver = |chosen: &Chosen| chosen.report.stale.iter().any(|s| matches!(s, Stale::Refused { .. }));
    assert!(!of_driver(&full), "{}", full.report);
    assert!(of_driver(&small) && small.plan.choices.len() < full.plan.choices.len(), "{}", small.report);
    assert!(small.plan.fusions.decode.len() < full.plan.fusions.decode.len());
}

#[test]
fn choices_that_lower_limits_refuse_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let (store, catalogue, here) = (Store::at(folder.path()), catalogue::embedded(), device());
    let q4 = class("2.9B", Mix::Q4_K_M);
    let large = Plan { prefill_chunk: 8192, persistent: Some(132), ..ships() }.with_evidence(evidence(2.0));
    store.file(&q4, &large).unwrap();
    let with = |limits: &Limits| Place { device: &here, limits, class: &q4, catalogue: &catalogue }.find(Some(&store));
    let full = with(&h200());
    assert!(full.report.is_current() && full.plan == large, "{}", full.report);

    let least = Limits::webgpu();
    let Chosen { plan, report } = with(&least);
    let line = report.to_string();
    assert!(matches!(report.stale[..], [Stale::BeyondLimits { .. }]), "{line}");
    assert!(line.ends_with(" of its choices left out, for they need more than these limits"), "{line}");
    // Six values of 2560 floats for each token are bound as one.
    assert_eq!((plan.prefill_chunk, plan.persistent), (2048, None));
    let passes = Passes::new(&q4, &plan).unwrap();
    for instance in [1, 4, 16, 64, 512].into_iter().flat_map(|rows| passes.instances(rows)) {
        let kernel = plan.choose(&instance, &least, &catalogue);
        assert!(kernel.is_ok(), "{}", kernel.err().unwrap());
    }
}

/// Layouts stay where choices are left out: every format that a plan makes must have a kernel among the defaults.
#[test]
fn every_missing_choice_has_a_default() {
    let catalogue = catalogue::embedded();
    let mut plan = ships();
    plan.choices.clear();
    plan.interleave = Format::in_files().filter(|format| format.interleaved().is_some()).collect();
    for (k_major, mix) in Mix::ALL.into_iter().flat_map(|mix| [(false, mix), (true, mix)]) {
        plan.k_major = k_major.then_some(LayerWeight::FfnValue).into_iter().collect();
        let class = class("2.9B", mix);
        let passes = Passes::new(&class, &plan).unwrap();
        for instance in passes.instances(64) {
            let kernel = plan.first_admitted(&instance, &h200(), &catalogue).unwrap();
            assert!(kernel.is_some(), "{mix}, K-major: {k_major}: {}", TuningKey::of(&instance));
        }
    }
}

#[test]
fn a_damaged_or_misplaced_file_is_left_out_with_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let (store, catalogue) = (Store::at(folder.path()), catalogue::embedded());
    let f16 = class("0.1B", Mix::F16);
    let path = store.path(&plan_name(&device(), &f16));
    let mut other_formats = tuned();
    other_formats.choices[0].key.formats = vec![Format::Q8_0];
    for (text, why) in [
        ("(schema: goose".to_owned(), "line 1"),
        (tuned().to_ron().replace("schema: 3", "schema: 2"), "schema 2"),
        (Plan { model: ModelShape::preset("0.4B").unwrap(), ..tuned() }.to_ron(), "another device or model"),
        (other_formats.to_ron(), "another device or model"),
    ] {
        std::fs::write(&path, text).unwrap();
        let found = find(Some(&store), &device(), &f16, &catalogue);
        assert_eq!(found.report.origin, Origin::Default { was_asked: false });
        let [skipped] = &found.report.skipped[..] else { panic!("{:?}", found.report) };
        let line = skipped.to_string();
        assert!(line.contains(why) && !line.contains('\n'), "{line}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(find(Some(&store), &device(), &f16, &catalogue).report.skipped.len(), 1);
}

#[test]
fn choices_have_names() {
    let named = |name: Option<&str>| PlanChoice::named(name.map(Into::into));
    assert_eq!(named(None), PlanChoice::Find);
    assert_eq!(named(Some("default")), PlanChoice::Default);
    assert_eq!(named(Some("./default")), PlanChoice::File("./default".into()));
    for choice in [PlanChoice::Find, PlanChoice::Default, PlanChoice::File("a.ron".into())] {
        assert_eq!(PlanChoice::named(choice.name()), choice);
    }
}

#[test]
fn likely_fusions_come_from_plans_of_the_class() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::at(folder.path());
    let (q4, q5) = (class("2.9B", Mix::Q4_K_M), class("2.9B", Mix::Q5_K_M));
    let default = Plan::default_fusions(true);
    // Plans of the class ship for two devices, and may have the same.
    let likely = likely_fusions(None, &q4);
    assert!(likely[0] == default && likely[1..].contains(&ships().fusions) && likely.len() <= 3, "{likely:?}");
    assert!(likely_fusions(Some(&store), &q5) == [default]);
    let mut mine = default_plan("2.9B");
    mine.fusions.decode.remove(&Fusion::NormShift);
    store.file(&q4, &mine).unwrap();
    assert_eq!(likely_fusions(Some(&store), &q4), [mine.fusions]);
    assert_eq!(likely_fusions(Some(&store), &q5).len(), 1);
}

#[test]
fn an_edited_plan_loses_its_evidence_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let (store, class, catalogue) =
        (Store::at(folder.path().to_owned()), class("0.1B", Mix::F16), catalogue::embedded());
    let name = store.file(&class, &tuned()).unwrap();
    let found = find(Some(&store), &device(), &class, &catalogue);
    assert!(found.report.is_current() && found.report.gain == Gain::Decode(1.84), "{}", found.report);

    let path = store.entry(&name).unwrap().unwrap().path;
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("prefill_chunk: 48", "prefill_chunk: 49")).unwrap();
    let found = find(Some(&store), &device(), &class, &catalogue);
    assert_eq!((found.plan.prefill_chunk, found.plan.evidence), (49, None), "what it chooses stays");
    assert_eq!((&found.report.stale[..], found.report.gain), (&[Stale::Edited][..], Gain::Unknown));
    assert!(found.report.to_string().contains("its evidence is not of this content"), "{}", found.report);
}
