//! The report of cold starts: a table for people, every sample for programs.

use super::child::Startup;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use wgoose_measure::stats::Summary;

/// Whether something is there from before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Temperature {
    Warm,
    Cold,
}

/// One start, as it saw itself and as it was seen.
#[derive(Debug, Serialize)]
pub(super) struct Sample {
    /// From just before the process was started until its first logits were there.
    pub(super) wall_ms: f64,
    /// Largest anonymous memory, looked at every 2 ms, and largest resident set, both where the system says.
    pub(super) peak_anonymous_bytes: Option<u64>,
    pub(super) peak_resident_bytes: Option<u64>,
    /// Share of the model file in memory just before, where the system says.
    pub(super) resident_before: Option<f64>,
    #[serde(flatten)]
    pub(super) startup: Startup,
}

/// One condition and its samples.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    pub(super) name: &'static str,
    /// The model file's pages.
    pub(super) pages: Temperature,
    /// Our folder of compiled pipelines.
    pub(super) pipelines: Temperature,
    /// Why there are no samples.
    pub(super) not_measured: Option<String>,
    /// By quantity, and `phases_ms.TRACK`; empty before [`Measured::summarise`].
    pub(super) summary: BTreeMap<String, Spread>,
    pub(super) samples: Vec<Sample>,
}

/// The spread of one quantity over a condition's samples.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Spread {
    median: f64,
    min: f64,
    max: f64,
    iqr: f64,
}

/// A whole benchmark.
#[derive(Debug, Serialize)]
pub(super) struct ColdReport {
    /// Seconds since 1970.
    pub(super) at: u64,
    pub(super) version: String,
    /// Model file name, its fingerprint and its size.
    pub(super) model: String,
    pub(super) fingerprint: String,
    pub(super) file_bytes: u64,
    /// Adapter and driver.
    pub(super) device: String,
    pub(super) plan: Option<String>,
    pub(super) prompt_tokens: u32,
    /// Hash of the first logits, the same in every start.
    pub(super) logits: String,
    /// The fastest that this model's matrices reach the device with nothing else to do, 10^9 bytes per second, and the
    /// threads, buffers and bytes of each with which they did.
    pub(super) best_upload_gb_per_s: f64,
    pub(super) best_upload_staging: [usize; 3],
    pub(super) conditions: Vec<Measured>,
}

/// A quantity of a sample: its key, its name for people, what people divide it by.
struct Quantity {
    key: &'static str,
    name: &'static str,
    unit: f64,
    of: fn(&Sample) -> Option<f64>,
}

const MIB: f64 = (1 << 20) as f64;

const QUANTITIES: [Quantity; 13] = [
    Quantity { key: "model_open_ms", name: "open to handle, ms", unit: 1.0, of: |s| Some(s.startup.model_open_ms) },
    Quantity {
        key: "session_ready_ms",
        name: "session ready, ms",
        unit: 1.0,
        of: |s| Some(s.startup.session_ready_ms),
    },
    Quantity { key: "wall_ms", name: "process start to first logits, ms", unit: 1.0, of: |s| Some(s.wall_ms) },
    Quantity { key: "uploaded_bytes", name: "uploaded, MiB", unit: MIB, of: |s| Some(s.startup.uploaded_bytes as f64) },
    Quantity { key: "upload_gb_per_s", name: "upload, GB/s", unit: 1.0, of: upload_rate },
    Quantity {
        key: "staging_bytes",
        name: "upload staging, MiB",
        unit: MIB,
        of: |s| Some(s.startup.staging_bytes as f64),
    },
    Quantity {
        key: "peak_anonymous_bytes",
        name: "peak anonymous, MiB",
        unit: MIB,
        of: |s| bytes(s.peak_anonymous_bytes),
    },
    Quantity {
        key: "peak_resident_bytes",
        name: "peak resident, MiB",
        unit: MIB,
        of: |s| bytes(s.peak_resident_bytes),
    },
    Quantity {
        key: "device_used_bytes",
        name: "GPU memory used, MiB",
        unit: MIB,
        of: |s| bytes(s.startup.device_used_bytes),
    },
    Quantity {
        key: "device_reserved_bytes",
        name: "GPU memory reserved, MiB",
        unit: MIB,
        of: |s| bytes(s.startup.device_reserved_bytes),
    },
    Quantity {
        key: "pipelines_compiled",
        name: "pipelines compiled",
        unit: 1.0,
        of: |s| Some(s.startup.pipelines_compiled.into()),
    },
    Quantity {
        key: "pipelines_found",
        name: "pipelines found on disk",
        unit: 1.0,
        of: |s| Some(s.startup.pipelines_found.into()),
    },
    Quantity { key: "resident_before", name: "model in memory before, %", unit: 0.01, of: |s| s.resident_before },
];

fn bytes(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|b| b as f64)
}

fn upload_rate(sample: &Sample) -> Option<f64> {
    let Startup { uploaded_bytes, upload_ms, .. } = sample.startup;
    (upload_ms > 0.0).then(|| uploaded_bytes as f64 / 1e6 / upload_ms)
}

/// Key of a track's busy time.
fn phase(track: &str) -> String {
    format!("phases_ms.{track}")
}

impl Measured {
    pub(super) fn new(name: &'static str, pages: Temperature, pipelines: Temperature) -> Self {
        Measured { name, pages, pipelines, not_measured: None, summary: BTreeMap::new(), samples: Vec::new() }
    }

    /// This condition cannot be had: better no figure than a wrong one.
    pub(super) fn give_up(&mut self, why: String) {
        self.samples.clear();
        self.not_measured = Some(why);
    }

    /// Sums its samples up; a quantity that any sample lacks has no summary.
    pub(super) fn summarise(&mut self) {
        let spread = |of: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = self.samples.iter().map(of).collect::<Option<_>>()?;
            let s = Summary::of(&values)?;
            Some(Spread { median: s.median, min: s.min, max: values.into_iter().fold(s.min, f64::max), iqr: s.iqr })
        };
        let quantities = QUANTITIES.iter().filter_map(|q| Some((q.key.to_owned(), spread(&q.of)?)));
        let tracks: BTreeSet<&String> = self.samples.iter().flat_map(|s| s.startup.phases_ms.keys()).collect();
        let phases = tracks.iter().filter_map(|t| Some((phase(t), spread(&|s| s.startup.phases_ms.get(*t).copied())?)));
        self.summary = quantities.chain(phases).collect();
    }
}

impl fmt::Display for ColdReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.file_bytes as f64 / f64::from(1 << 20);
        writeln!(f, "{} ({mib:.1} MiB) on {}", self.model, self.device)?;
        writeln!(f, "a prompt of {} tokens, in fresh processes, drivers' shader caches off", self.prompt_tokens)?;
        for condition in &self.conditions {
            condition.fmt(f)?;
        }
        let [workers, slots, bytes] = self.best_upload_staging;
        let best = self.best_upload_gb_per_s;
        write!(
            f,
            "\nbest upload alone: {best:.2} GB/s with {workers} threads and {slots} buffers of {} MiB",
            bytes >> 20
        )?;
        for condition in &self.conditions {
            if let Some(rate) = condition.summary.get("upload_gb_per_s") {
                write!(f, "; {}: {:.0}% of it", condition.name, rate.median / best * 100.0)?;
            }
        }
        writeln!(f)?;
        write!(f, "\nfirst logits, the same in every start: {}", self.logits)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(why) = &self.not_measured {
            return writeln!(f, "\n{}: not measured: {why}", self.name);
        }
        let starts = self.samples.len();
        let what = format!("{}, {starts} start{}", self.name, if starts == 1 { "" } else { "s" });
        writeln!(f, "\n{what:<36}{:>10}{:>10}{:>10}{:>10}", "median", "min", "max", "iqr")?;
        let mut row = |name: &str, unit: f64, spread: &Spread| {
            write!(f, "  {name:<34}")?;
            for x in [spread.median, spread.min, spread.max, spread.iqr] {
                write!(f, "{:>10.2}", x / unit)?;
            }
            writeln!(f)
        };
        for q in &QUANTITIES {
            self.summary.get(q.key).map_or(Ok(()), |spread| row(q.name, q.unit, spread))?;
        }
        // In the order of their tracks' names: the timeline has the order of time.
        for (key, spread) in &self.summary {
            key.strip_prefix(&phase("")).map_or(Ok(()), |track| row(&format!("busy with {track}, ms"), 1.0, spread))?;
        }
        Ok(())
    }
}
