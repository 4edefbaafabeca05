use super::*;

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
    let variant = &ops::variants("mul")[0];
    plan.choices.push(Choice {
        site: SiteClass { op: "mul".into(), k: 768, m: 768, formats: vec![], up_to_rows: 4 },
        variant: variant.name.into(),
        tunables: variant.defaults(&Sources::Embedded).unwrap(),
        source: variant.source_hash(&[], &Sources::Embedded).unwrap(),
    });
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
    let text = plan().to_ron().replace("schema: 2", "schema: 1");
    let (before, after) = text.split_once("together:").unwrap();
    let (_, after) = after.split_once("],").unwrap();
    std::fs::write(&path, format!("{before}{after}")).unwrap();
    assert!(matches!(Plan::load(&path), Err(PlanError::Schema(1))));
}

#[test]
fn a_plan_says_what_is_repacked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let bare = plan();
    assert!(!bare.to_ron().contains("repack"), "plans without tiles are as they were before there were any");
    assert_eq!(bare.format_on_gpu(Weight::Head, Format::Q8_0), Format::Q8_0);

    let mut tiled = bare.clone();
    tiled.repack.insert(Format::Q8_0);
    tiled.choices[0].site.formats = vec![Format::Q8_0T];
    tiled.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), tiled);
    assert_ne!(Plan { repack: tiled.repack.clone(), ..bare.clone() }.hash(), bare.hash());
    let of = |format| tiled.format_on_gpu(Weight::Head, format);
    assert_eq!([Format::Q8_0, Format::Q6_K, Format::F16].map(of), [Format::Q8_0T, Format::Q6_K, Format::F16]);

    tiled.repack.insert(Format::Q4_K);
    tiled.save(&path).unwrap();
    assert!(matches!(Plan::load(&path), Err(PlanError::Repack(Format::Q4_K))));
}

#[test]
fn a_plan_says_what_lies_in_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.ron");
    let bare = plan();
    assert!(!bare.to_ron().contains("columns"), "plans without columns are as they were before there were any");
    let mut columns = bare.clone();
    columns.columns.insert(LayerWeight::FfnValue);
    columns.repack.insert(Format::Q8_0);
    columns.save(&path).unwrap();
    assert_eq!(Plan::load(&path).unwrap(), columns);
    assert_ne!(Plan { repack: bare.repack.clone(), ..columns.clone() }.hash(), bare.hash());
    let of = |role, format| columns.format_on_gpu(Weight::Layer(3, role), format);
    assert_eq!(of(LayerWeight::FfnValue, Format::Q8_0), Format::Q8_0C);
    assert_eq!(of(LayerWeight::FfnKey, Format::Q8_0), Format::Q8_0T);
    assert_eq!(of(LayerWeight::FfnValue, Format::F16), Format::F16C);
    assert_eq!(of(LayerWeight::FfnValue, Format::Q5_K), Format::Q5_K);
    assert_eq!(columns.format_on_gpu(Weight::Head, Format::F16), Format::F16);

    columns.columns.insert(LayerWeight::Output);
    columns.save(&path).unwrap();
    assert!(matches!(Plan::load(&path), Err(PlanError::Columns(LayerWeight::Output))));
}

#[test]
fn readers_of_tiles_count_where_there_are_tiles() {
    let variant = ops::variants("matmul").iter().find(|v| v.name == "naive").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources::Folder(folder.path().to_owned());
    let hash = |formats: &[Format], sources: &Sources| variant.source_hash(formats, sources).unwrap();
    std::fs::create_dir_all(folder.path().join("shared/weight")).unwrap();
    std::fs::write(folder.path().join("shared/weight/q8_0t.wgsl"), "// edited").unwrap();
    for format in Format::ON_GPU.into_iter().chain(Format::IN_COLUMNS) {
        let changed = hash(&[format], &sources) != hash(&[format], &Sources::Embedded);
        assert_eq!(changed, format == Format::Q8_0T, "{format}");
    }
}

#[test]
fn foreign_plans_are_refused_with_the_reason() {
    let (good, sources) = (plan(), Sources::Embedded);
    assert!(good.check(&good.device, &good.model, &sources).is_ok());
    let device = DeviceFingerprint { driver: "other".into(), ..good.device.clone() };
    let error = good.check(&device, &good.model, &sources).unwrap_err();
    assert!(matches!(error, PlanError::Device { what: "driver", .. }));
    let model = ModelShape { layers: 3, ..good.model };
    assert!(matches!(good.check(&good.device, &model, &sources), Err(PlanError::Model { .. })));
    let mut changed = good.clone();
    changed.choices[0].source = "0".into();
    assert!(matches!(changed.check(&good.device, &good.model, &sources), Err(PlanError::Changed(_))));
    changed.choices[0].variant = "none".into();
    assert!(matches!(changed.check(&good.device, &good.model, &sources), Err(PlanError::Unknown(_))));
}
