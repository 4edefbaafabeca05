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
    let head = ["NAME", "DEVICE", "MODEL", "TUNED", "AGAINST THE DEFAULT", "STANDING"].map(str::to_owned);
    let mut rows = vec![head];
    rows.extend(plans.iter().map(|listed| cells(listed, here)));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for row in &rows {
        let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}  "));
        listln!("{}{}", padded.collect::<String>(), row[5]);
    }
    if let Some(store) = store.filter(|_| !plans.iter().any(|p| matches!(p.source, Source::Store { .. }))) {
        eprintln!("none in {} yet: wgoose tune MODEL files one", store.folder().display());
    }
    Ok(())
}

fn cells(listed: &Listed, here: &Here) -> [String; 6] {
    let device = listed.plan.as_ref().map_or("?", |plan| plan.device.adapter.as_str()).to_owned();
    let gains: Vec<String> = scenarios(listed).iter().map(|s| format!("{} {:.2} x", label(s), gain(s))).collect();
    let gains = match listed.plan.as_ref().map(Gain::of) {
        Ok(Gain::Nothing) => "nothing tried was faster".to_owned(),
        _ if gains.is_empty() => "not measured".to_owned(),
        _ => gains.join(", "),
    };
    let standing = words(&here.standing(listed));
    [
        listed.name.clone(),
        device,
        listed.model_class(),
        tuned(&listed.source).unwrap_or("ships".into()),
        gains,
        standing,
    ]
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

/// `decode`, or a scenario with its tokens.
fn label(scenario: &ScenarioEvidence) -> String {
    match scenario.tokens {
        1 => scenario.scenario.clone(),
        tokens => format!("{} {tokens}", scenario.scenario),
    }
}

fn tuned(source: &Source) -> Option<String> {
    match source {
        Source::Store { tuned, .. } => Some(day(*tuned)),
        Source::Shipped | Source::File(_) => None,
    }
}
