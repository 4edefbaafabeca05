//! The results of a ledger in T4, the format in which tuners exchange what they measured (AutoTuningAssociation,
//! <https://github.com/odgaard/TuningSchema>; `results-schema.json`, version 1.0.0, as Kernel Tuner writes it).
//!
//! One result for each kernel that was tried at a site. Times are in milliseconds, as `metadata.timeunit` says:
//! `runtimes` are times of one dispatch. A configuration has the site and the variant beside the variant's tunables, as
//! the format knows one kernel in one problem only; their names begin with `wgoose.`, which no tunable does.

use crate::utc;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use wgoose_measure::job::Job;
use wgoose_measure::ledger::{Cause, Outcome, Records, Timing};
use wgoose_measure::stats::summary::median;

/// The version of the schema that is written.
pub const VERSION: &str = "1.0.0";

/// Nanoseconds of a millisecond.
const NS: f64 = 1e6;

/// Milliseconds of a second.
const MS: f64 = 1e3;

/// All results.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// [`VERSION`].
    pub schema_version: &'static str,
    /// The unit of times.
    pub metadata: Metadata,
    /// One for each kernel that was tried, oldest first.
    pub results: Vec<Tuned>,
}

/// What holds for all results.
#[derive(Clone, Debug, Serialize)]
pub struct Metadata {
    /// The unit of `times` and of measurements.
    pub timeunit: &'static str,
}

/// A configuration and what came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    /// When, as ISO 8601 in UTC; left out where the ledger has no date.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// `wgoose.*`: the device, the site and the variant; else its tunables.
    pub configuration: BTreeMap<String, Value>,
    /// What it took.
    pub times: Times,
    /// What is wrong with it; `correct` if nothing is.
    pub invalidity: Invalidity,
    /// 1 if its numbers were held against the reference and are right, else 0.
    pub correctness: f64,
    /// What was measured.
    pub measurements: Vec<Measurement>,
    /// The measurement to be made small.
    pub objectives: [&'static str; 1],
}

/// Milliseconds of the parts of a trial. Kernel Tuner's `compilation` and the schema's `compilation_time` are one.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    compilation: f64,
    compilation_time: f64,
    benchmark: f64,
    validation: f64,
    framework: f64,
    search_algorithm: f64,
    runtimes: Vec<f64>,
}

/// What is wrong with a configuration, in the schema's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invalidity {
    /// It did not end in time.
    Timeout,
    /// It did not compile.
    Compile,
    /// It failed when it ran.
    Runtime,
    /// Its numbers are wrong.
    Correctness,
    /// A constraint refuses it.
    Constraints,
    /// Nothing.
    Correct,
}

/// A number with its unit.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

impl Invalidity {
    fn of(cause: Cause) -> Self {
        match cause {
            Cause::Timeout => Invalidity::Timeout,
            Cause::Compile => Invalidity::Compile,
            Cause::WrongResult | Cause::Race | Cause::Impossible => Invalidity::Correctness,
            Cause::Constraint => Invalidity::Constraints,
            Cause::Runtime | Cause::OutOfMemory | Cause::DeviceLost | Cause::NotResident | Cause::Crash => {
                Invalidity::Runtime
            }
        }
    }
}

/// The kernels that a ledger knows one by one. Configurations that were refused in bulk are not among them: the ledger
/// counts them.
pub fn results(records: &Records) -> Results {
    let mut results = Vec::new();
    for (_, trial) in records.trials() {
        let Some(mut configuration) = configuration(&trial.identity.tried) else { continue };
        let (timing, invalidity) = match &trial.outcome {
            Outcome::Kernel(timing) => (Some(timing), Invalidity::Correct),
            Outcome::Failed(reason) => (None, Invalidity::of(reason.cause)),
            _ => continue,
        };
        configuration.insert("wgoose.device".to_owned(), trial.identity.device.adapter.clone().into());
        let samples = timing.map_or(&[][..], |timing: &Timing| &timing.samples_ns);
        let runtimes: Vec<f64> = samples.iter().map(|ns| ns / NS).collect();
        let measured = median(&runtimes).map(|value| Measurement { name: "time", value, unit: "ms" });
        let cost = trial.cost.unwrap_or_default();
        results.push(Tuned {
            timestamp: utc(trial.at),
            configuration,
            times: Times {
                compilation: cost.compile * MS,
                compilation_time: cost.compile * MS,
                benchmark: cost.timed * MS,
                validation: cost.check * MS,
                framework: 0.0,
                search_algorithm: 0.0,
                runtimes,
            },
            invalidity,
            correctness: if invalidity == Invalidity::Correct { 1.0 } else { 0.0 },
            measurements: measured.into_iter().collect(),
            objectives: ["time"],
        });
    }
    Results { schema_version: VERSION, metadata: Metadata { timeunit: "milliseconds" }, results }
}

/// The site, the variant and its tunables, if the job is a kernel alone.
fn configuration(job: &Job) -> Option<BTreeMap<String, Value>> {
    let mut all: BTreeMap<String, Value> = BTreeMap::new();
    let mut set = |name: &str, value: Value| drop(all.insert(format!("wgoose.{name}"), value));
    let Job::Kernel { site, kernel } = job else { return None };
    set("op", site.key.op.clone().into());
    set("formats", site.key.formats.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ").into());
    let sizes = [("k", site.key.k), ("m", site.key.m), ("rows", site.rows), ("segments", site.segments)];
    sizes.into_iter().for_each(|(name, size)| set(name, size.into()));
    set("variant", kernel.variant.clone().into());
    for (name, value) in &kernel.config {
        // Numbers stay numbers for those who fit models to them.
        let value = value.parse::<i64>().map_or_else(|_| Value::from(value.clone()), Value::from);
        all.insert(name.clone(), value);
    }
    Some(all)
}
