//! The table.

use super::{Here, words};
use crate::failure::Failure;
use serde_json::{Value, json};
use wgoose_kernels::plan::ScenarioEvidence;
use wgoose_plans::{Gain, Listed, Source, Standing, Store, day, gain, list};

pub(super) fn run(store: Option<&Store>, here: &Here, json: bool) -> Result<(), Failure> {
    let plans = list(store)?;
    if json {
        let rows: Vec<Value> = plans.iter().map(|listed| row(listed, here)).collect();
        outln!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    // Names have the device and the model; two lines of a plan fit a terminal of 80 columns.
    for listed in &plans {
        let tuned = tuned(&listed.source).map_or("ships".to_owned(), |day| format!("tuned {day}"));
        listln!("{}", listed.name);
        listln!("  {}; {tuned}, {}", gains(listed), words(&here.standing(listed)));
    }
    if let Some(store) = store.filter(|_| !plans.iter().any(|p| matches!(p.source, Source::Store { .. }))) {
        eprintln!("none in {} yet: wgoose tune MODEL files one", store.folder().display());
    }
    Ok(())
}

/// What a plan gains over the default, in words.
fn gains(listed: &Listed) -> String {
    match listed.plan.as_ref().map(Gain::of) {
        Ok(Gain::Nothing) => return "nothing tried was faster".to_owned(),
        _ if scenarios(listed).is_empty() => return "not measured".to_owned(),
        _ => {}
    }
    let of = |name: &str| scenarios(listed).iter().filter(|s| s.scenario == name).map(gain).collect::<Vec<f64>>();
    // What starts of processes take decides nothing, and would make the line too long: `wgoose plans show` has it.
    let runs = scenarios(listed).iter().filter(|s| s.scenario != "first token");
    let mut names: Vec<&str> = runs.map(|s| s.scenario.as_str()).collect();
    names.dedup();
    let range = |name: &&str| {
        let (least, most) = of(name).into_iter().fold((f64::MAX, 0.0_f64), |(a, b), gain| (a.min(gain), b.max(gain)));
        match format!("{least:.2}") == format!("{most:.2}") {
            true => format!("{name} {least:.2} x"),
            false => format!("{name} {least:.2} to {most:.2} x"),
        }
    };
    names.iter().map(range).collect::<Vec<_>>().join(", ")
}

fn row(listed: &Listed, here: &Here) -> Value {
    let standing = here.standing(listed);
    let (standing, why) = match &standing {
        Standing::Current => ("current", Vec::new()),
        Standing::Stale(why) => ("stale", why.iter().map(ToString::to_string).collect()),
        Standing::OtherDevice => ("other device", Vec::new()),
        Standing::Damaged(why) => ("damaged", vec![why.clone()]),
    };
    let scenarios = scenarios(listed).iter().map(|s| {
        json!({ "scenario": s.scenario, "tokens": s.tokens, "gain": gain(s), "low": s.speedup.0, "high": s.speedup.1 })
    });
    json!({
        "name": listed.name,
        "source": if listed.source == Source::Shipped { "shipped" } else { "store" },
        "device": listed.plan.as_ref().ok().map(|plan| &plan.device),
        "model_class": listed.model_class(),
        "tuned": tuned(&listed.source),
        "scenarios": scenarios.collect::<Vec<_>>(),
        "standing": standing,
        "why": why,
    })
}

fn scenarios(listed: &Listed) -> &[ScenarioEvidence] {
    let evidence = listed.plan.as_ref().ok().and_then(|plan| plan.evidence.as_ref());
    evidence.map_or(&[], |evidence| &evidence.scenarios)
}

fn tuned(source: &Source) -> Option<String> {
    match source {
        Source::Store { tuned, .. } => Some(day(*tuned)),
        Source::Shipped | Source::File(_) => None,
    }
}
