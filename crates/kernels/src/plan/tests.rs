use super::*;
use crate::HandOver;
use wgoose_graph::Target;

fn plan() -> Plan {
    let device = DeviceFingerprint {
        adapter: "a".into(),
        vendor: 1,
        device: 2,
        driver: "d".into(),
        backend: "Vulkan".into(),
        wgpu: "30".into(),
    };
    let mut plan = Plan::default_for(device, ModelShape::preset("0.1B").unwrap(), &Limits::webgpu());
    let key = TuningKey { op: "mul".into(), k: 768, m: 768, formats: vec![], up_to_rows: 4 };
    let catalogue = Catalogue::embedded();
    let variant = &catalogue.variants("mul")[0];
    plan.choices.push(Choice::new(key, variant, &variant.default_config()).unwrap());
    plan
}

#[test]
fn plans_round_trip_through_ron() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/plan.ron");
    plan().save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), plan());
    let text = std::fs::read_to_string(&path).unwrap().replace("prefill_chunk", "prefill_chnk");
    std::fs::write(&path, text).unwrap();
    let error = Plan::load(&path).unwrap_err().to_string();
    assert!(error.contains("prefill_chnk"), "{error}");
    assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn a_plan_of_another_schema_is_named_before_its_fields_are_missed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let text = plan().to_ron().replace("schema: 3", "schema: 2").replace("batched:", "together:");
    std::fs::write(&path, text).unwrap();
    let error = refused(&path);
    assert!(matches!(error, PlanError::Schema(2)) && error.to_string().ends_with("tune again"), "{error}");
}

#[test]
fn a_plan_names_its_interleaved_formats() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let bare = plan();
    assert!(!bare.to_ron().contains("interleave"), "a plan says only what it changes");
    assert_eq!(bare.format_on_gpu(Weight::Head, Format::Q8_0), Format::Q8_0);

    let mut interleaved = bare.clone();
    interleaved.interleave.insert(Format::Q8_0);
    interleaved.choices[0].key.formats = vec![Format::Q8_0_X8];
    interleaved.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), interleaved);
    assert_ne!(Plan { interleave: interleaved.interleave.clone(), ..bare.clone() }.hash(), bare.hash());
    let of = |format| interleaved.format_on_gpu(Weight::Head, format);
    assert_eq!([Format::Q8_0, Format::Q6_K, Format::F16].map(of), [Format::Q8_0_X8, Format::Q6_K, Format::F16]);

    interleaved.interleave.insert(Format::Q4_K);
    interleaved.save(&path).unwrap();
    assert!(matches!(refused(&path), PlanError::Interleave(Format::Q4_K)));
}

#[test]
fn a_plan_names_its_k_major_weights() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let bare = plan();
    assert!(!bare.to_ron().contains("k_major"), "a plan says only what it changes");
    let mut k_major = bare.clone();
    k_major.k_major.insert(LayerWeight::FfnValue);
    k_major.interleave.insert(Format::Q8_0);
    k_major.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), k_major);
    assert_ne!(Plan { interleave: bare.interleave.clone(), ..k_major.clone() }.hash(), bare.hash());
    let of = |role, format| k_major.format_on_gpu(Weight::Layer(3, role), format);
    assert_eq!(of(LayerWeight::FfnValue, Format::Q8_0), Format::Q8_0_KM);
    assert_eq!(of(LayerWeight::FfnKey, Format::Q8_0), Format::Q8_0_X8);
    assert_eq!(of(LayerWeight::FfnValue, Format::F16), Format::F16_KM);
    assert_eq!(of(LayerWeight::FfnValue, Format::Q5_K), Format::Q5_K);
    assert_eq!(k_major.format_on_gpu(Weight::Head, Format::F16), Format::F16);

    k_major.k_major.insert(LayerWeight::Output);
    k_major.save(&path).unwrap();
    assert!(matches!(refused(&path), PlanError::KMajor(LayerWeight::Output)));
}

#[test]
fn a_plan_says_how_the_state_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let (bare, catalogue) = (plan(), Catalogue::embedded());
    assert!(!bare.to_ron().contains("state"), "a plan says only what it changes");
    assert_eq!((bare.state, bare.least_precise(&catalogue)), (StateFormat::F32, Precision::F32));

    let halved = Plan { state: StateFormat::F16, ..bare.clone() };
    halved.save(&path).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("state: F16"));
    assert_eq!(Plan::load(&path).unwrap(), halved);
    assert_ne!(halved.hash(), bare.hash());
    assert_eq!(halved.least_precise(&catalogue), Precision::F16, "it is of the f16 class, whatever its kernels");
    for (most, state) in [
        (Precision::F32, StateFormat::F32),
        (Precision::Q15, StateFormat::F32),
        (Precision::F16, StateFormat::F16),
        (Precision::Q8, StateFormat::F16),
    ] {
        let at_most = halved.clone().at_most(most, &catalogue);
        assert_eq!(at_most.state, state, "{most}");
        assert!(at_most.least_precise(&catalogue) <= most);
    }
    std::fs::write(&path, halved.to_ron().replace("state: F16", "state: F64")).unwrap();
    assert!(matches!(Plan::load(&path), Err(PlanError::Parse { .. })));
    assert_eq!("f16".parse(), Ok(StateFormat::F16));
    assert!("f64".parse::<StateFormat>().unwrap_err().to_string().contains("f64"));
}

#[test]
fn a_plan_stores_the_synchronisation_of_its_phases() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let bare = Plan { persistent: Some(8), ..plan() };
    assert!(!bare.to_ron().contains("hand_over"), "a plan says only what it changes");
    let announced = Plan { hand_over: HandOver::Announced, ..bare.clone() };
    announced.save(&path).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("hand_over: Announced"));
    assert_eq!(Plan::load(&path).unwrap(), announced);
    assert_ne!(announced.hash(), bare.hash());
}

#[test]
fn a_batch_invariant_plan_has_nothing_that_varies() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    assert!(!plan().to_ron().contains("invariant"), "a plan says only what it changes");
    let invariant = Plan { persistent: Some(8), state: StateFormat::F16, ..plan() }.batch_invariant();
    invariant.save(&path).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("invariant: true"));
    assert_eq!(Plan::load(&path).unwrap(), invariant);
    assert_ne!(invariant.hash(), Plan { invariant: false, ..invariant.clone() }.hash());
    assert_eq!((invariant.alike(Target::Logits), plan().alike(Target::Logits)), (Some(2048), None));
    for varying in [
        Plan { choices: plan().choices, ..invariant.clone() },
        Plan { persistent: Some(8), ..invariant.clone() },
        Plan { state: StateFormat::F16, ..invariant.clone() },
        Plan { fusions: Fusions { decode: FusionSet::new(), ..invariant.fusions.clone() }, ..invariant },
    ] {
        varying.save(&path).unwrap();
        assert!(matches!(refused(&path), PlanError::Invariant));
    }
}

#[test]
fn impossible_plans_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let load = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        plan.save(&path).unwrap();
        refused(&path)
    };
    assert!(matches!(load(&|p| p.prefill_chunk = 0), PlanError::Chunk(0)));
    assert!(matches!(load(&|p| p.persistent = Some(0)), PlanError::Workgroups(0)));
    assert!(matches!(load(&|p| p.multiprocessors = 0), PlanError::Multiprocessors(0)));
    assert!(matches!(load(&|p| p.choices.push(p.choices[0].clone())), PlanError::Twice(_)));
    assert!(matches!(load(&|p| p.device.adapter = "a".repeat(2000)), PlanError::Name(2000)));
    assert!(matches!(load(&|p| p.choices[0].variant = "\u{1b}[7m".into()), PlanError::Name(4)));
    assert!(matches!(load(&|p| drop(p.choices[0].config.insert("\n".into(), "1".into()))), PlanError::Name(1)));
    let text = plan().to_ron();
    for bomb in ["[".repeat(1 << 20), "(".repeat(1 << 20), "Some(".repeat(1 << 18), "/*".repeat(1 << 19)] {
        std::fs::write(&path, text.replacen("choices:", &format!("choices: {bomb}"), 1)).unwrap();
        assert!(matches!(Plan::load(&path), Err(PlanError::Parse { .. })));
    }
    std::fs::write(&path, " ".repeat((4 << 20) + 1)).unwrap();
    assert!(matches!(Plan::load(&path), Err(PlanError::File { .. })));
    assert!(matches!(Plan::load(folder.path()), Err(PlanError::File { .. })));
    #[cfg(unix)]
    {
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(matches!(Plan::load(&pipe), Err(PlanError::File { .. })));
    }
}

/// Why a file is no plan; that it is named is seen to.
fn refused(path: &Path) -> PlanError {
    match Plan::load(path).unwrap_err() {
        PlanError::InFile { path: named, error } if named == path => *error,
        other => panic!("{other}"),
    }
}

#[test]
fn readers_of_a_format_count_where_there_is_that_format() {
    let embedded = Catalogue::embedded();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("lib/quant")).unwrap();
    std::fs::write(folder.path().join("lib/quant/q8_0_x8.wgsl"), "// edited\n").unwrap();
    let edited = Catalogue::with_folder(folder.path()).unwrap();
    for format in Format::all() {
        let hash = |catalogue: &Catalogue| {
            let variant = catalogue.variant("matmul", "naive").unwrap();
            variant.source_hash(&[format], &variant.default_config()).unwrap()
        };
        assert_eq!(hash(&edited) != hash(&embedded), format == Format::Q8_0_X8, "{format}");
    }
}

#[test]
fn a_choice_outlives_comments_and_no_other_edit() {
    let embedded = Catalogue::embedded();
    let naive = include_str!("../../../../kernels-wgsl/ops/matmul/naive.wgsl");
    let hash = |catalogue: &Catalogue| {
        let variant = catalogue.variant("matmul", "naive").unwrap();
        variant.source_hash(&[Format::F16], &variant.default_config()).unwrap()
    };
    for (text, is_same) in [
        (naive.replacen("// idea: ", "// About this kernel.\n\n// idea: in other words: ", 1), true),
        (naive.replacen("// [rows, k]", "// x, by rows", 1), true),
        (naive.replacen("// grid: ", "// needs: f16\n// grid: ", 1), false),
        (naive.replacen("// tune: ", "// tune: 32 ", 1), false),
        (naive.replacen("var sum = ", "var sum = 1.0 * ", 1), false),
    ] {
        assert_ne!(text, naive);
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("ops/matmul")).unwrap();
        std::fs::write(folder.path().join("ops/matmul/naive.wgsl"), &text).unwrap();
        let edited = Catalogue::with_folder(folder.path()).unwrap();
        assert_eq!(hash(&edited) == hash(&embedded), is_same, "{text}");
    }
}

#[test]
fn an_edited_state_reader_changes_the_hash_of_every_wkv_kernel() {
    let embedded = Catalogue::embedded();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("lib/state")).unwrap();
    for format in StateFormat::ALL {
        let file = folder.path().join(format!("lib/state/{format}.wgsl"));
        std::fs::write(&file, "// edited\n").unwrap();
        let edited = Catalogue::with_folder(folder.path()).unwrap();
        for op in ["wkv", "wkv_heads", "time_mix_core", "time_mix_heads", "shift_store"] {
            for variant in embedded.variants(op) {
                let hash = |catalogue: &Catalogue| {
                    let variant = catalogue.variant(op, variant.name()).unwrap();
                    variant.source_hash(&[], &variant.default_config()).unwrap()
                };
                assert_eq!(hash(&edited) != hash(&embedded), op != "shift_store", "{format} {}", variant.id());
            }
        }
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn foreign_plans_are_refused_with_the_reason() {
    let (good, catalogue) = (plan(), Catalogue::embedded());
    let check = |plan: &Plan, device: &DeviceFingerprint, model: &ModelShape| plan.check(device, model, &catalogue);
    assert!(check(&good, &good.device, &good.model).is_ok());
    let device = DeviceFingerprint { driver: "other".into(), ..good.device.clone() };
    let error = check(&good, &device, &good.model).unwrap_err();
    assert!(matches!(error, PlanError::Device { what: "driver", .. }));
    let model = ModelShape { layers: 3, ..good.model };
    assert!(matches!(check(&good, &good.device, &model), Err(PlanError::Model { .. })));
    let changed = |change: &dyn Fn(&mut Choice)| {
        let mut plan = good.clone();
        change(&mut plan.choices[0]);
        check(&plan, &good.device, &good.model).unwrap_err()
    };
    assert!(matches!(changed(&|c| c.source = "0".into()), PlanError::Changed(_)));
    assert!(matches!(changed(&|c| c.variant = "none".into()), PlanError::Unknown(_)));
    assert!(matches!(changed(&|c| drop(c.config.insert("WG".into(), "7".into()))), PlanError::Config { .. }));
}

#[test]
fn a_software_adapter_is_spared_the_op_of_seven_matrices() {
    let fusions = |is_cpu| {
        let limits = Limits { is_cpu, storage_buffers: 20, ..Limits::webgpu() };
        Plan::default_for(plan().device, ModelShape::preset("0.1B").unwrap(), &limits).fusions.decode
    };
    assert_eq!(&fusions(false) - &fusions(true), [Fusion::Project].into_iter().collect());
}
