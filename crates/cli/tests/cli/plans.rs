//! Plans that commands find, and `wgoose plans`. They are written by hand: nothing is tuned here.

use crate::binary::{printed, synth, wgoose};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use wgoose_kernels::Plan;
use wgoose_kernels::plan::{Choice, Evidence, ScenarioEvidence, TuningKey};
use wgoose_loader::Model;
use wgoose_plans::Store;
use wgoose_plans::catalogue;
use wgoose_runtime::{Device, DeviceOptions, FoundAdapter};
use wgoose_session::model_class;

/// A folder with a model, and its plan in the store: made here, with a choice, 1.84 times as fast.
struct Tuned {
    folder: TempDir,
    plan: Plan,
    name: String,
}

impl Tuned {
    fn new() -> Tuned {
        let folder = tempfile::tempdir().unwrap();
        synth(folder.path(), "m.gguf", "");
        let model = Model::open(folder.path().join("m.gguf")).unwrap();
        let device = Device::open(None).unwrap();
        let mut plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
        plan.prefill_chunk = 7;
        let head = model.tensor(wgoose_graph::Weight::Head).format();
        let key = TuningKey { op: "matmul".into(), k: 128, m: 320, formats: vec![head], up_to_rows: 1 };
        let catalogue = catalogue::embedded();
        let variant = catalogue.variant("matmul", "naive").unwrap();
        plan.choices.push(Choice::new(key, variant, &variant.default_config()).unwrap());
        let decode = ScenarioEvidence {
            scenario: "decode".into(),
            tokens: 1,
            default_us: 184.0,
            tuned_us: 100.0,
            speedup: (1.84, 1.84),
            pairs: 5,
        };
        let plan = plan.with_evidence(Evidence {
            plan: String::new(),
            model: model.fingerprint().to_string(),
            quality_hash: "h".into(),
            class: None,
            decisions: 0,
            checked: wgoose_kernels::plan::Checked::default(),
            certified: (1, 1),
            rms_error: 0.0,
            scenarios: vec![decode],
            ledger: "l.jsonl".into(),
            without_op: Vec::new(),
        });
        let name = store(folder.path()).file(&model_class(&model), &plan).unwrap();
        Tuned { folder, plan, name }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn store(&self) -> Store {
        store(self.path())
    }

    /// Takes the place of the plan in the store, as if another one had been measured.
    fn change(&self, change: impl Fn(&mut Plan)) {
        let mut plan = self.plan.clone();
        change(&mut plan);
        let evidence = plan.evidence.clone().unwrap();
        plan.with_evidence(evidence).save(&self.store().path(&self.name)).unwrap();
    }

    /// The lines about the plan that a command writes to stderr; it must succeed.
    #[track_caller]
    fn says(&self, line: &str) -> Vec<String> {
        let output = wgoose(self.path(), line.split_whitespace());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{line}: {stderr}");
        stderr.lines().filter_map(|line| line.strip_prefix("plan: ")).map(str::to_owned).collect()
    }

    /// The one line that a command says of its plan.
    #[track_caller]
    fn says_one(&self, line: &str) -> String {
        let mut lines = self.says(line);
        assert_eq!(lines.len(), 1, "{line}: {lines:?}");
        lines.remove(0)
    }

    /// Whether a step takes the kernel that the plan chose for the head.
    #[track_caller]
    fn takes_choice(&self, step: &str) -> bool {
        let dispatches = printed(self.path(), step.split(' '));
        dispatches.lines().find(|line| line.contains(":head.weight")).unwrap().contains(" matmul/naive ")
    }
}

/// The store of commands that run in a folder.
fn store(folder: &Path) -> Store {
    Store::at(folder.join("data/plans"))
}

const STEP: &str = "dev graph m.gguf --dispatches 1";

#[test]
fn every_command_finds_the_plan_and_says_so() {
    let tuned = Tuned::new();
    let here = tuned.path();
    let found = tuned.says_one(STEP);
    assert!(found.starts_with("tuned 20") && found.ends_with(" (store), 1.84 x the default in decode"), "{found}");
    assert_eq!(tuned.says_one("generate m.gguf --prompt a --max-tokens 2 --tune"), found, "there is a current one");
    let info = printed(here, "info m.gguf".split(' '));
    assert!(info.contains(&format!("plan: {found}")), "{info}");
    assert!(tuned.takes_choice(STEP));

    let default = format!("{STEP} --plan default");
    assert_eq!(tuned.says_one(&default), "the device's default, as asked");
    assert!(!tuned.takes_choice(&default));
    tuned.plan.save(&here.join("file.ron")).unwrap();
    assert!(tuned.says_one(&format!("{STEP} --plan file.ron")).starts_with("file.ron, 1.84 x"));
    assert!(tuned.says("info m.gguf --backend cpu").is_empty());

    // Other formats are another class, for which nothing was tuned: nobody is asked where nobody types.
    synth(here, "other.gguf", "--mix F32");
    let none = tuned.says_one("generate other.gguf --prompt a --max-tokens 2");
    assert!(none.starts_with("the device's default; wgoose tune"), "{none}");
}

#[test]
fn tuning_begins_with_the_incumbent() {
    let tuned = Tuned::new();
    tuned.change(|plan| plan.device.driver = "old".into());
    let filed = || fs::read_to_string(tuned.store().path(&tuned.name)).unwrap();
    let before = filed();
    let said = tuned.says_one("tune m.gguf --budget 0 --chunks 16");
    assert!(said.contains("(store)") && said.contains("made with driver 'old'"), "{said}");
    assert_eq!(filed(), before, "there was no time for anything better");
    assert!(tuned.says("tune m.gguf --budget 1 --chunks 16 --fresh --out o.ron").is_empty());
}

#[test]
fn a_stale_plan_keeps_its_safe_choices() {
    let tuned = Tuned::new();
    tuned.change(|plan| plan.device.driver = "old".into());
    let line = tuned.says_one(STEP);
    assert!(line.contains("; stale: made with driver 'old', here it is '"), "{line}");
    assert!(line.ends_with("; wgoose tune refreshes it"), "{line}");
    assert!(tuned.takes_choice(STEP), "a new driver keeps all choices");
    let by_hand = format!("{STEP} --plan data/plans/{}.ron", tuned.name);
    let refused = wgoose(tuned.path(), by_hand.split(' '));
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("another device: driver"));

    tuned.change(|plan| plan.choices[0].source = "0".repeat(32));
    let line = tuned.says_one(STEP);
    assert!(line.contains("stale: 1 of its 1 kernels changed since"), "{line}");
    assert!(!tuned.takes_choice(STEP), "the default stands in");

    fs::write(tuned.store().path(&tuned.name), "(schema: goose").unwrap();
    let lines = tuned.says(STEP);
    assert!(lines.len() == 2 && lines[0].contains("is left out: ") && lines[0].contains("line 1"), "{lines:?}");
    assert!(lines[1].starts_with("the device's default"), "{lines:?}");
}

#[test]
fn lower_limits_leave_out_the_choices_they_refuse() {
    let tuned = Tuned::new();
    let (adapter, catalogue) = (FoundAdapter::find(&DeviceOptions::default()).unwrap(), catalogue::embedded());
    let subgroups = catalogue.variant("matmul", "gemv_subgroup").unwrap();
    tuned.change(|plan| {
        plan.fusions = Plan::default_for(plan.device.clone(), plan.model, &adapter.summary().limits).fusions;
        let key = plan.choices[0].key.clone();
        plan.adopt(Choice::new(key, subgroups, &subgroups.default_config()).unwrap());
    });
    let said = tuned.says_one(&format!("{STEP} --limits webgpu"));
    assert!(said.ends_with(" of its choices left out, for they need more than these limits"), "{said}");
    for limits in ["webgpu", "low"] {
        let line = format!("generate m.gguf --prompt a --max-tokens 2 --temperature 0 --limits {limits}");
        assert_eq!(tuned.says_one(&line), said);
        let default = printed(tuned.path(), format!("{line} --plan default").split(' '));
        assert_eq!(printed(tuned.path(), line.split(' ')), default);
        assert!(printed(tuned.path(), format!("info m.gguf --limits {limits}").split(' ')).contains(&said));
        // Nor is what is tuned so filed in its place.
        let refused = wgoose(tuned.path(), format!("{line} --tune").split(' '));
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && stderr.contains("leave out --limits or --tune"), "{stderr}");
    }
    // Named by hand, it is not changed in silence.
    let by_hand = format!("{STEP} --limits webgpu --plan data/plans/{}.ron", tuned.name);
    let refused = wgoose(tuned.path(), by_hand.split(' '));
    let stderr = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && stderr.contains("the device has no subgroups"), "{stderr}");
}

#[test]
fn a_plan_of_nonsense_is_refused_by_name_before_anything_runs() {
    let tuned = Tuned::new();
    let path = tuned.path().join("mine.ron");
    let text = tuned.plan.to_ron();
    let refused = |from: &str, to: &str, says: &str| {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        fs::write(&path, changed).unwrap();
        let output = wgoose(tuned.path(), format!("{STEP} --plan mine.ron").split(' '));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_one_line = stderr.lines().count() == 1 && stderr.starts_with("wgoose: plan mine.ron: ");
        assert!(output.status.code() == Some(1) && is_one_line && stderr.contains(says), "{to}: {stderr}");
    };
    let catalogue = catalogue::embedded();
    let naive = catalogue.variant("matmul", "naive").unwrap();
    for (name, value) in naive.spell(&naive.default_config()) {
        let own = format!("\"{name}\": \"{value}\"");
        refused(&own, "", &name);
        refused(&own, &format!("{own}, \"EXTRA\": \"1\""), "EXTRA");
        for wrong in ["0", " 8", "0x10", "-1", "99999999999999999999", "nan", "", "\\u{1b}"] {
            refused(&own, &format!("\"{name}\": \"{wrong}\""), "");
        }
        refused(&own, &format!("{own}, {own}"), "");
    }
    for wrong in ["0", "-1", "65536", "99999999999999999999", "1.5", "\"7\""] {
        refused("prefill_chunk: 7", &format!("prefill_chunk: {wrong}"), "");
        refused("prefill_chunk: 7", &format!("prefill_chunk: 7, persistent: Some({wrong})"), "");
    }
    refused("variant: \"naive\"", "variant: \"../../naive\"", "../../naive");
}

#[test]
fn plans_are_listed_with_gains_source_and_standing() {
    let tuned = Tuned::new();
    let list = || printed(tuned.path(), ["plans"]);
    let line = |name: &str| list().lines().skip_while(|line| *line != name).nth(1).unwrap_or_default().to_owned();
    let own = line(&tuned.name);
    assert!(own.starts_with("  decode 1.84 x; tuned 20") && own.ends_with(", current"), "{own}");
    let ships = line("nvidia-h200-32x2560-q4_k_m");
    assert_eq!(ships, "  decode 2.21 x, prefill 1.01 to 1.02 x; ships, of another device");
    assert!(list().lines().all(|line| line.len() <= 80), "{}", list());
    tuned.change(|plan| plan.device.wgpu = "1.0".into());
    assert!(line(&tuned.name).contains("stale: made with wgpu 1.0"), "{}", line(&tuned.name));
    tuned.change(|plan| plan.device.vendor = 9);
    assert!(line(&tuned.name).ends_with("of another device"));
    fs::write(tuned.store().path(&tuned.name), "(schema").unwrap();
    assert!(line(&tuned.name).contains("damaged: "));

    tuned.change(|_| {});
    for json in ["plans list --json", "plans --json"] {
        let rows: Value = serde_json::from_str(&printed(tuned.path(), json.split(' '))).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == tuned.name.as_str()).unwrap();
        assert_eq!((&row["standing"], &row["source"]), (&"current".into(), &"store".into()));
        assert_eq!((&row["scenarios"][0]["gain"], &row["model_class"]), (&1.84.into(), &"2x128-f16".into()));
    }
}

#[test]
fn plans_are_shown_compared_exported_imported_and_removed() {
    let tuned = Tuned::new();
    let here = tuned.path();
    let run = |line: &str| printed(here, line.split_whitespace());
    let part = tuned.name[tuned.name.len() - 6..].to_owned();
    let shown = run(&format!("plans show {part}"));
    assert!(shown.contains("standing: current") && shown.contains("prefill chunk 7"), "{shown}");
    let json: Value = serde_json::from_str(&run(&format!("plans show {part} --json"))).unwrap();
    assert_eq!(json["prefill_chunk"], 7);

    run(&format!("plans export {part} out.ron"));
    assert_eq!(Plan::load(&here.join("out.ron")).unwrap(), tuned.plan);
    run("plans export nvidia-h200-32x2560-q4_k_m h200.ron");
    assert!(run(&format!("plans diff {part} out.ron")).contains("the same"));
    tuned.change(|plan| plan.prefill_chunk = 9);
    let differ = run(&format!("plans diff {part} out.ron"));
    let rows: Vec<&str> = differ.lines().skip(2).collect();
    assert_eq!(rows, ["prefill chunk  A  9", "               B  7"]);

    assert_eq!(run("plans import out.ron m.gguf"), format!("{}: filed\n", tuned.name));
    assert!(run(&format!("plans diff {part} out.ron")).contains("the same"));

    fs::write(tuned.store().ledger(&tuned.name), "").unwrap();
    let fails = |line: &str, says: &str| {
        let output = wgoose(here, line.split_whitespace());
        let stderr = String::from_utf8(output.stderr).unwrap();
        let code = if line.contains("--json") { 2 } else { 1 };
        assert!(output.status.code() == Some(code) && stderr.lines().count() == 1, "{line}: {stderr}");
        assert!(stderr.contains(says), "{line}: '{says}' is not in {stderr}");
    };
    fails(&format!("plans export {part} out.ron"), "out.ron exists already");
    fails(&format!("plans export {part} nowhere/out.ron"), "nowhere/out.ron");
    fails("plans remove nvidia-h200-32x2560-q4_k_m", "ships in the program");
    fails("plans remove out.ron", "not in the store");
    fails("plans show goose", "no plan is called 'goose'");
    fails("plans show missing.ron", "missing.ron");
    fails("plans import missing.ron m.gguf", "missing.ron");
    fails("plans import h200.ron m.gguf", "32 layers");
    fails("plans diff 2 h200.ron", "names of several plans");
    fails("plans --json diff h200.ron out.ron", "only list and show print JSON");
    run(&format!("plans remove {part}"));
    assert_eq!(fs::read_dir(tuned.store().folder()).unwrap().count(), 0, "its ledger is gone too");
    fails(&format!("plans remove {part}"), "no plan is called");
}
