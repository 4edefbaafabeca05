//! Simulated devices: how fast and how noisy they are, what their jobs cost, and what there is to tune on them.

use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_kernels::{DeviceFingerprint, Feature, Limits, Plan};
use wgoose_measure::problem::Problem;

/// How a made-up device behaves. Spreads and noise are standard deviations of logarithms.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedDevice {
    /// What its kernels take follows from it.
    pub seed: u64,
    /// What two tunings of one device differ by: all that scatters follows from it.
    pub chance: u64,
    /// Bytes per nanosecond.
    pub bandwidth: f64,
    /// Floating-point operations per nanosecond.
    pub compute: f64,
    /// Nanoseconds from one dispatch to the next.
    pub dispatch_ns: f64,
    /// Nanoseconds from one stage of a persistent kernel to the next.
    pub barrier_ns: f64,
    /// The same where values announce themselves.
    pub announced_ns: f64,
    /// How much one choice of a tunable is worth.
    pub spread: f64,
    /// How much two choices are worth together, beside what each is alone: what hides an optimum from coordinate
    /// descent.
    pub interaction: f64,
    /// How much a kernel is worth more or less for passes of other lengths.
    pub lengths: f64,
    /// How much a kernel is worth more or less in a merged step than alone.
    pub merged: f64,
    /// How much samples of one thing scatter.
    pub noise: f64,
    /// How much two instances of one plan differ.
    pub instance: f64,
    /// Correlation of a sample's noise with that of the sample before.
    pub autocorrelation: f64,
    /// How many times as long the first sample after a pause takes; it falls off with every sample.
    pub ramp: f64,
    /// Share of kernels that compute wrong results.
    pub wrong: f64,
    /// Workgroups of which none starves another.
    pub resident: u32,
    /// What a job costs beside its samples.
    pub costs: Costs,
}

/// Seconds of the parts of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Compiling one kernel.
    pub kernel: f64,
    /// Compiling what a plan has that was not compiled before, on all cores.
    pub plan: f64,
    /// Compiling a merged step.
    pub merged: f64,
    /// Checking a kernel.
    pub check: f64,
    /// Warming up after a pause.
    pub warm_up: f64,
    /// A fresh process, until it can run something.
    pub start: f64,
    /// Taking a plan through the gate.
    pub gate: f64,
    /// Until the reference is computed, from the beginning.
    pub reference: f64,
    /// Cores that compile.
    pub cores: usize,
}

impl SimulatedDevice {
    /// A device as fast as an H200, as noisy as one was seen to be, with costs that its ledgers have.
    pub fn h200(seed: u64) -> Self {
        SimulatedDevice {
            seed,
            chance: seed,
            bandwidth: 4300.0,
            compute: 400_000.0,
            dispatch_ns: 1500.0,
            barrier_ns: 700.0,
            announced_ns: 400.0,
            spread: 0.08,
            interaction: 0.02,
            lengths: 0.03,
            merged: 0.04,
            noise: 0.003,
            instance: 0.003,
            autocorrelation: 0.2,
            ramp: 1.2,
            wrong: 0.0,
            resident: 132,
            costs: Costs {
                kernel: 0.06,
                plan: 0.4,
                merged: 1.5,
                check: 0.005,
                warm_up: 0.35,
                start: 1.5,
                gate: 0.2,
                reference: 15.0,
                cores: 12,
            },
        }
    }
}

impl SimulatedDevice {
    /// A software adapter on two cores, as Mesa's lavapipe was seen to be with the demo's model: a step of decode takes
    /// 20 ms, a prompt of 64 tokens a second, the gate and a comparison of prompts much of a minute.
    pub fn software(seed: u64) -> Self {
        SimulatedDevice {
            bandwidth: 0.9,
            compute: 0.35,
            dispatch_ns: 30_000.0,
            spread: 0.12,
            noise: 0.03,
            instance: 0.01,
            ramp: 1.05,
            costs: Costs {
                kernel: 0.1,
                plan: 1.5,
                merged: 30.0,
                check: 0.11,
                warm_up: 0.02,
                start: 0.9,
                gate: 6.0,
                reference: 1.0,
                cores: 1,
            },
            ..SimulatedDevice::h200(seed)
        }
    }

    /// A GPU that shares its memory with a processor and whose driver takes long to compile: steps of some billion
    /// weights take 30 ms to half a second, by how many bytes these have.
    pub fn integrated(seed: u64, kernel_seconds: f64) -> Self {
        SimulatedDevice {
            bandwidth: 30.0,
            compute: 600.0,
            dispatch_ns: 10_000.0,
            noise: 0.01,
            instance: 0.005,
            costs: Costs {
                kernel: kernel_seconds,
                plan: 3.0 * kernel_seconds,
                merged: 20.0 * kernel_seconds,
                check: 0.1,
                warm_up: 0.2,
                start: 2.0,
                gate: 4.0,
                reference: 25.0,
                cores: 4,
            },
            ..SimulatedDevice::h200(seed)
        }
    }

    /// The same device beside a busy process: samples scatter more, and late ones come in rows.
    #[must_use]
    pub fn busy(self) -> Self {
        SimulatedDevice { noise: 2.5 * self.noise + 0.02, instance: self.instance + 0.01, autocorrelation: 0.6, ..self }
    }
}

/// What there is to tune on a made-up device for a model whose file has such formats: it can do what an H200 can, but
/// for matrix units.
pub fn simulated_problem(shape: ModelShape, formats: BTreeMap<Weight, Format>) -> Problem {
    let limits = Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_binding: 2 << 30,
        buffer: 2 << 30,
        storage_buffers: 16,
        min_subgroup: 32,
        multiprocessors: 132,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CoherentMemory]),
        ..Limits::webgpu()
    };
    with_limits(shape, formats, limits)
}

/// The same on a device of such limits.
pub fn with_limits(shape: ModelShape, formats: BTreeMap<Weight, Format>, limits: Limits) -> Problem {
    let text = || "made up".to_owned();
    let device =
        DeviceFingerprint { adapter: text(), vendor: 1, device: 2, driver: text(), backend: text(), wgpu: text() };
    let default = Plan::default_for(device, shape, &limits);
    Problem { limits, shape, formats, model: "made-up".to_owned(), default }
}

/// The limits of a software adapter.
pub fn limits_of_software() -> Limits {
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 32 << 10,
        storage_buffers: 32,
        min_subgroup: 8,
        multiprocessors: 1,
        is_cpu: true,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CoherentMemory]),
        ..Limits::webgpu()
    }
}

/// The limits of a GPU without what persistent kernels need.
pub fn limits_of_integrated() -> Limits {
    Limits {
        workgroup_threads: 1024,
        workgroup_memory: 32 << 10,
        storage_binding: 1 << 30,
        buffer: 1 << 30,
        storage_buffers: 16,
        min_subgroup: 32,
        multiprocessors: 8,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16]),
        ..Limits::webgpu()
    }
}
