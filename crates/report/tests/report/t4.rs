//! Results in T4, held against the facts of its schema (`results-schema.json`, 1.0.0).

use serde_json::Value;
use wgoose_measure::ledger::{Cause, Ledger, Outcome, Record, Records};
use wgoose_report::t4::results;
use wgoose_sim::recorded;

/// The results, each with what the schema requires and nothing that it forbids.
fn checked(records: &Records) -> Vec<Value> {
    let all = serde_json::to_value(results(records)).unwrap();
    let version: Vec<&str> = all["schema_version"].as_str().unwrap().split('.').collect();
    assert!(version.len() == 3 && version.iter().all(|part| part.parse::<u32>().is_ok()));
    assert_eq!(all["metadata"]["timeunit"], "milliseconds");
    let all = all["results"].as_array().unwrap().clone();
    for result in &all {
        assert!(result["configuration"].is_object() && result["objectives"] == serde_json::json!(["time"]));
        let words = ["timeout", "compile", "runtime", "correctness", "constraints", "correct"];
        assert!(words.contains(&result["invalidity"].as_str().unwrap()));
        assert!(result["correctness"].is_number());
        assert!(result.get("timestamp").is_none_or(Value::is_string));
        let times = &result["times"];
        for part in ["compilation_time", "framework", "search_algorithm", "validation"] {
            assert!(times[part].is_number(), "{part}");
        }
        let runtimes = times["runtimes"].as_array().unwrap();
        assert!(runtimes.iter().all(Value::is_number));
        let measurements = result["measurements"].as_array().unwrap();
        assert_eq!(measurements.is_empty(), runtimes.is_empty());
        assert!(measurements.iter().all(|m| m["name"] == "time" && m["value"].is_number() && m["unit"] == "ms"));
        let is_right = result["invalidity"] == "correct";
        assert_eq!((is_right, is_right), (result["correctness"] == 1.0, !runtimes.is_empty()));
    }
    all
}

#[test]
fn kernels_of_a_recorded_sweep_are_results_of_the_schema() {
    let all = checked(&recorded());
    assert_eq!(all.len(), 554);
    let first = &all[0];
    let configuration = &first["configuration"];
    assert_eq!(configuration["wgoose.op"], "norm_matmul");
    assert_eq!(configuration["wgoose.variant"], "gemv_fixed_grid_k");
    assert_eq!((&configuration["WG"], &configuration["GRID"]), (&Value::from(640), &Value::from("2*SM")));
    assert_eq!(
        (&configuration["wgoose.formats"], &configuration["wgoose.k"]),
        (&Value::from("Q4_K"), &Value::from(2560))
    );
    // 14,578.8 ns.
    assert_eq!(first["times"]["runtimes"][0], 0.014_578_8);
    assert_eq!(first["times"]["validation"], 1.380_239);
    assert_eq!(first["timestamp"], "2026-11-24T12:24:54Z");
}

#[test]
fn every_failure_has_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let mut written = Ledger::open(&path).unwrap();
    let causes = [
        (Cause::Constraint, "constraints"),
        (Cause::Compile, "compile"),
        (Cause::Runtime, "runtime"),
        (Cause::Timeout, "timeout"),
        (Cause::OutOfMemory, "runtime"),
        (Cause::DeviceLost, "runtime"),
        (Cause::WrongResult, "correctness"),
        (Cause::Crash, "runtime"),
    ];
    let records = recorded();
    let kernels = records.trials().filter(|(_, trial)| matches!(trial.outcome, Outcome::Kernel(_)));
    for ((_, trial), (cause, _)) in kernels.zip(causes) {
        let mut trial = trial.clone();
        trial.outcome = Outcome::failed(cause, "as planted".to_owned());
        written.append(Record::Trial(Box::new(trial))).unwrap();
    }
    let all = checked(written.records());
    assert_eq!(
        all.iter().map(|result| result["invalidity"].as_str().unwrap()).collect::<Vec<_>>(),
        causes.map(|(_, w)| w)
    );
}
