//! A profile of `wgoose dev profile`, as its JSON has it.

use super::rows::{Ceilings, Cost, Row, rows};
use serde::Serialize;
use wgoose_kernels::DeviceFingerprint;
use wgoose_runtime::Profile;
use wgoose_runtime::kernel_bench::ClockSource;
use wgoose_runtime::kernel_bench::roofline::{Roofline, Spread};

/// A profile beside the ceilings of its device. Times in milliseconds, of a dispatch in microseconds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ProfileReport {
    pub(super) model: String,
    pub(super) device: DeviceFingerprint,
    /// Hash of the plan.
    pub(super) plan: String,
    pub(super) sequences: u32,
    /// Of each sequence.
    pub(super) tokens: u32,
    pub(super) runs: usize,
    /// What GPU times were measured with.
    pub(super) clock: String,
    /// A step as people run it and `wgoose bench` times it, with the plan's persistent kernel. Wall clock.
    pub(super) in_use_ms: Option<Spread>,
    /// A dispatch for each op, from the call until the logits are in memory. Wall clock.
    pub(super) wall_ms: Option<Spread>,
    /// The pass on the GPU, no timestamps between its dispatches.
    pub(super) gpu_ms: Option<Spread>,
    /// Its dispatches with nothing to wait for; absent where their buffers would take too much memory.
    pub(super) independent_ms: Option<Spread>,
    /// `gpu_ms` less `independent_ms`, medians: what waiting for one another costs the dispatches.
    pub(super) gap_ms: Option<f64>,
    /// The pass with a timestamp after each dispatch.
    pub(super) timestamped_ms: f64,
    /// What a timestamp adds to a dispatch: `timestamped_ms` less `gpu_ms`, divided by the dispatches, at least 0.
    pub(super) timestamp_us: f64,
    /// Whether a timestamp adds more than a dispatch takes in the mean, so that what is left after taking it off says
    /// little.
    pub(super) clock_is_too_coarse: bool,
    /// What the device can do at most; absent where `wgoose dev roofline` never ran.
    pub(super) ceilings: Option<Ceilings>,
    /// The whole pass.
    pub(super) total: Row,
    pub(super) ops: Vec<Row>,
    pub(super) layers: Vec<Row>,
    pub(super) dispatches: Vec<Dispatch>,
}

/// One dispatch.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Dispatch {
    pub(super) op: String,
    pub(super) role: String,
    /// `None` before the first layer and after the last.
    pub(super) layer: Option<u32>,
    pub(super) kernel: String,
    /// As measured, with its timestamp.
    pub(super) timestamped_us: f64,
    #[serde(flatten)]
    pub(super) cost: Cost,
}

impl ProfileReport {
    /// What was profiled, for people.
    pub(super) fn step(&self) -> String {
        let passes = if self.tokens == 1 { "decode".to_owned() } else { format!("{} tokens each", self.tokens) };
        match self.sequences {
            1 => format!("{passes}, 1 sequence"),
            n => format!("{passes}, {n} sequences"),
        }
    }

    /// Sets a profile against a roofline.
    pub(super) fn new(
        profile: &Profile,
        in_use_ms: &[f64],
        roofline: Option<&Roofline>,
        model: String,
        device: &DeviceFingerprint,
        plan: String,
    ) -> ProfileReport {
        let spread = |ns: &[f64]| Spread::of(&ns.iter().map(|ns| ns / 1e6).collect::<Vec<_>>());
        let [wall_ms, gpu_ms, independent_ms] =
            [&profile.wall, &profile.gpu, &profile.independent].map(|ns| spread(ns));
        let ceilings = roofline.and_then(Ceilings::of);
        let timestamped_ms = profile.timestamped() / 1e6;
        let gpu = gpu_ms.map_or(timestamped_ms, |s| s.median);
        let count = profile.dispatches.len().max(1) as f64;
        let timestamp_us = ((timestamped_ms - gpu) / count * 1e3).max(0.0);
        let dispatches: Vec<Dispatch> = profile
            .dispatches
            .iter()
            .map(|d| Dispatch {
                op: d.op.to_owned(),
                role: d.role.to_owned(),
                layer: d.layer,
                kernel: d.kernel.clone(),
                timestamped_us: d.ns / 1e3,
                cost: Cost::new(d, timestamp_us, ceilings.as_ref()),
            })
            .collect();
        let sum = Cost::sum(dispatches.iter().map(|d| &d.cost));
        let layer = |d: &Dispatch| d.layer.map_or_else(|| "outside".to_owned(), |layer| format!("layer {layer}"));
        let mut ops = rows(dispatches.iter().map(|d| (d.op.clone(), &d.cost)), &sum);
        ops.sort_by(|a, b| b.cost.us.total_cmp(&a.cost.us));
        ProfileReport {
            model,
            device: device.clone(),
            plan,
            sequences: profile.batch.segments,
            tokens: profile.batch.tokens / profile.batch.segments.max(1),
            runs: profile.wall.len(),
            clock: match profile.clock {
                ClockSource::Timestamps => "GPU timestamps".to_owned(),
                ClockSource::Wall => "wall clock around submit and wait".to_owned(),
            },
            in_use_ms: Spread::of(in_use_ms),
            wall_ms,
            gpu_ms,
            independent_ms,
            gap_ms: gpu_ms.zip(independent_ms).map(|(all, free)| all.median - free.median),
            timestamped_ms,
            timestamp_us,
            clock_is_too_coarse: timestamp_us > gpu / count * 1e3,
            total: Row::new("all".to_owned(), dispatches.len(), sum.clone(), &sum),
            ops,
            layers: rows(dispatches.iter().map(|d| (layer(d), &d.cost)), &sum),
            ceilings,
            dispatches,
        }
    }
}
