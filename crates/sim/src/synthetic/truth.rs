//! The true times of everything on a simulated device, and the bits that it computes.

use super::{SimulatedDevice, SimulatedRunner, normal};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{HandOver, Plan, PlanError, ops};
use wgoose_measure::job::Configured;
use wgoose_measure::result_cache::site_id;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, groups};

impl SimulatedRunner<'_> {
    /// A number that belongs to a text: normally distributed, always the same.
    pub(super) fn trait_of(&self, text: &str) -> f64 {
        let hash = blake3::hash(format!("{} {text}", self.device.seed).as_bytes());
        let mut eight = [0; 8];
        eight.copy_from_slice(&hash.as_bytes()[..8]);
        normal(&mut SplitMix64::seed_from_u64(u64::from_le_bytes(eight)))
    }

    /// How many times as long as a roofline says a configuration takes.
    fn slowness(&self, key: &TuningKey, variant: &str, config: &[(&str, &str)]) -> f64 {
        let SimulatedDevice { spread, interaction, lengths, .. } = self.device;
        let site = format!("{} {} {}", key.op, key.k.max(1).ilog2(), key.up_to_rows.min(2));
        let mut sum = 2.0 * spread * self.trait_of(&format!("{site} {variant}"));
        for (i, (name, value)) in config.iter().enumerate() {
            sum += spread * self.trait_of(&format!("{site} {variant} {name}={value}"));
            for (other, its) in &config[..i] {
                sum += interaction * self.trait_of(&format!("{site} {variant} {other}={its} {name}={value}"));
            }
        }
        if key.up_to_rows > 1 {
            sum += lengths * self.trait_of(&format!("{site} {variant} {config:?} {}", key.up_to_rows));
        }
        // Nothing is faster than the roofline.
        0.1 + sum.exp()
    }

    /// True nanoseconds of one dispatch alone.
    pub(super) fn kernel_ns(&mut self, group: &InstanceGroup, which: &Configured) -> f64 {
        let id = site_id(group);
        if let Some(kernels) = self.recorded.get(&id) {
            return kernels.get(&which.to_string()).copied().unwrap_or(f64::INFINITY);
        }
        let known = (id, which.to_string());
        if let Some(ns) = self.known.get(&known) {
            return *ns;
        }
        let config: Vec<(&str, &str)> = which.config.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let flops = (ops::kernels(&group.instance.op).flops)(&group.instance) as f64;
        let least = (group.instance.bytes() as f64 / self.device.bandwidth).max(flops / self.device.compute);
        let ns = (least + 500.0) * self.slowness(&group.key, &which.variant, &config);
        self.known.insert(known, ns);
        ns
    }

    /// True nanoseconds of one stage of a merged step.
    pub(super) fn stage_ns(&mut self, group: &InstanceGroup, which: &Configured) -> f64 {
        let of = |what: &str| self.trait_of(&format!("merged {} {} {what}", group.key.op, group.key.k));
        let choices = which.config.iter().map(|(name, value)| of(&format!("{name}={value}")));
        let merged = self.device.merged * (of(&which.variant) + choices.sum::<f64>()) / 2.0;
        self.kernel_ns(group, which) * merged.exp()
    }

    /// True nanoseconds of what a plan does in a scenario.
    ///
    /// # Errors
    /// The plan has no kernel for something.
    pub fn true_ns(&mut self, plan: &Plan, scenario: Scenario) -> Result<f64, PlanError> {
        if scenario.tokens == 1 {
            return self.pass_ns(plan, scenario);
        }
        let (chunk, mut left, mut ns) = (plan.prefill_chunk, scenario.tokens, 0.0);
        while left > 0 {
            let tokens = left.min(chunk);
            ns += self.pass_ns(plan, Scenario { tokens, ..scenario })?;
            left -= tokens;
        }
        Ok(ns)
    }

    /// What decides the bits that a plan makes in a scenario.
    ///
    /// # Errors
    /// The plan has no kernel for something.
    pub fn bits(&self, plan: &Plan, scenario: Scenario) -> Result<String, PlanError> {
        let kernels = self.kernels_of(plan, scenario)?;
        let lines = kernels.into_iter().map(|(group, which)| format!("{}: {}\n", group.key, simulated_bits(&which)));
        Ok(lines.collect())
    }

    /// The dispatches of a pass, and the kernels that a plan has for them.
    pub(super) fn kernels_of(
        &self,
        plan: &Plan,
        scenario: Scenario,
    ) -> Result<Vec<(InstanceGroup, Configured)>, PlanError> {
        let problem = self.problem;
        let fusions = match scenario {
            Scenario { tokens: 1, sequences: 1, .. } => &plan.fusions.decode,
            Scenario { tokens: 1, .. } => &plan.fusions.batched,
            _ => &plan.fusions.prefill,
        };
        let mut kernels = Vec::new();
        for group in groups(&problem.shape, scenario, fusions, &problem.formats_on_gpu(plan)) {
            let chosen = plan.first_admitted(&group.instance, &problem.limits, self.catalogue)?;
            let Some((variant, config)) = chosen else { continue };
            let (variant, config) = (variant.name().to_owned(), variant.spell(&config));
            kernels.push((group, Configured { variant, config, text: String::new() }));
        }
        Ok(kernels)
    }

    fn pass_ns(&mut self, plan: &Plan, scenario: Scenario) -> Result<f64, PlanError> {
        let is_merged = plan.persistent.is_some() && scenario == Scenario::DECODE;
        let between = match plan.hand_over {
            HandOver::Barrier => self.device.barrier_ns,
            HandOver::Announced => self.device.announced_ns,
        };
        let mut ns = 20_000.0;
        for (group, which) in self.kernels_of(plan, scenario)? {
            let each = match is_merged && group.in_layers {
                true => self.stage_ns(&group, &which) + between,
                false => self.kernel_ns(&group, &which) + self.device.dispatch_ns,
            };
            ns += each * f64::from(group.count);
        }
        Ok(ns)
    }
}

/// What of a configuration decides in which order sums are added up, as far as a made-up device goes: all but how rows
/// are shared among workgroups.
pub(super) fn simulated_bits(kernel: &Configured) -> String {
    const SHARING: [&str; 3] = ["GRID", "ROWS", "WG"];
    let adding = kernel.config.iter().filter(|(name, _)| !SHARING.contains(&name.as_str()));
    adding.fold(kernel.variant.clone(), |text, (name, value)| format!("{text} {name}={value}"))
}
