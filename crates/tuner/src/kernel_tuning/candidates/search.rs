//! In which order candidates are tried.

use super::{Candidates, Made};
use crate::kernel_tuning::likely::Likely;
use crate::kernel_tuning::tuner::KernelTuningError;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::BTreeSet;
use std::time::Duration;
use wgoose_kernels::Refusal;
use wgoose_measure::ledger::{Cause, Outcome};
use wgoose_measure::seed::Seed;
use wgoose_measure::space::{Configuration, one_tunable_away};
use wgoose_measure::stats::rng::below;

/// The fastest so many configurations are varied.
const BEAM: usize = 8;

/// Configurations drawn before each of them is.
const DRAWN: usize = 3;

/// Configurations that are likely to be fast, before these.
const LIKELY: usize = 12;

/// Configurations that other plans have, before all others.
const HINTED: usize = 4;

/// Kernels that are compiled at once: as many as cores can take up before the first is measured.
const AHEAD: usize = 16;

/// The same where a kernel takes longer than [`SLOW_COMPILER`]: more would take what a search has.
const FEW_AHEAD: usize = 4;

/// Seconds of a kernel.
const SLOW_COMPILER: f64 = 1.0;

impl Candidates<'_, '_, '_> {
    /// The best configuration found until `deadline`, and its median nanoseconds, beginning with what is known: of each
    /// variant, and where other grids have been searched, of what was fast there.
    pub(in crate::kernel_tuning) fn descend(
        &mut self,
        known: Option<(usize, f64)>,
        deadline: Duration,
    ) -> Result<Option<(usize, f64)>, KernelTuningError> {
        let mut best = self.try_seeds(known)?;
        if self.tuner.scope.exhaustive {
            self.try_all(&(0..self.all.len()).collect::<Vec<usize>>(), &mut best, None)?;
            return Ok(best);
        }
        let of_variants = self.first_of_each_variant()?;
        // Those of files that the user brought along, however short the time is.
        let is_brought = |i: &usize| self.tuner.catalogue.is_brought(self.all[*i].variant);
        let brought: Vec<usize> = of_variants.iter().copied().filter(is_brought).collect();
        self.try_all(&brought, &mut best, None)?;
        let mut first = self.hinted();
        for i in of_variants {
            if !first.contains(&i) {
                first.push(i);
            }
        }
        self.try_all(&first, &mut best, Some(deadline))?;
        if !self.elsewhere.is_empty() {
            let likely = self.likely(&mut self.rng());
            self.try_all(&likely, &mut best, Some(deadline))?;
        }
        let best = self.descend_from(&[], best, deadline)?;
        self.explore(best, deadline)
    }

    /// Those that known plans have for such op instances.
    pub(in crate::kernel_tuning) fn hinted(&self) -> Vec<usize> {
        let mut hinted = Vec::new();
        for i in self.tuner.hints_for(&self.group.key).into_iter().filter_map(|choice| self.find(choice)) {
            if self.all[i].refusal.is_none() && !hinted.contains(&i) {
                hinted.push(i);
            }
        }
        hinted.truncate(HINTED);
        hinted
    }

    /// The same site draws the same, whenever it is tuned.
    fn rng(&self) -> SplitMix64 {
        SplitMix64::seed_from_u64(u64::from(self.group.key.k) << 32 | u64::from(self.group.key.m))
    }

    /// Some that are likely to be fast, of those that were not asked for yet.
    fn likely(&self, rng: &mut SplitMix64) -> Vec<usize> {
        let open: Vec<usize> = self.admitted().into_iter().filter(|i| !self.asked.contains(i)).collect();
        let own = self.timed.iter().map(|(i, ns)| (&self.all[*i], *ns));
        let elsewhere = self.elsewhere.iter().map(|(configuration, ns)| (configuration, *ns));
        let open = open.iter().map(|i| (*i, &self.all[*i]));
        Likely::of(own.chain(elsewhere).collect(), open).take(LIKELY, rng)
    }

    fn admitted(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|i| self.all[*i].refusal.is_none()).collect()
    }

    /// Measures all that is admitted; the best.
    pub(in crate::kernel_tuning) fn time_admitted(&mut self) -> Result<Option<(usize, f64)>, KernelTuningError> {
        let mut best = None;
        self.try_all(&self.admitted(), &mut best, None)?;
        Ok(best)
    }

    /// Measures so many that are drawn.
    pub(in crate::kernel_tuning) fn try_drawn(
        &mut self,
        count: usize,
        rng: &mut SplitMix64,
    ) -> Result<(), KernelTuningError> {
        let open = self.admitted();
        let drawn: Vec<usize> = (0..count.min(open.len())).map(|_| open[below(rng, open.len())]).collect();
        self.try_all(&drawn, &mut None, None)
    }

    /// Measures what was proposed for this site, whatever the time, and says what came of it. A speed heuristic is no
    /// reason against a seed.
    fn try_seeds(&mut self, mut best: Option<(usize, f64)>) -> Result<Option<(usize, f64)>, KernelTuningError> {
        let Some(planted) = self.tuner.seeds else { return Ok(best) };
        let key = &self.group.key;
        for (seed, Seed { variant, config, .. }) in planted.at(key) {
            let is_it = |c: &Configuration<'_>| c.variant.name() == variant && c.variant.spell(&c.config) == *config;
            let Some(i) = self.all.iter().position(is_it) else {
                let why = match self.grid {
                    Some(_) => "its workgroups are of another size or number than those of the persistent kernel",
                    None => "the variant's text is wrong",
                };
                planted.keep(seed, key, Some(why.to_owned()));
                continue;
            };
            let Configuration { variant, config, refusal } = &self.all[i];
            let is_pruned = matches!(refusal, Some(Refusal::Pruned { .. }));
            if is_pruned && variant.is_legal(&self.group.unpacked(), config, self.tuner.limits).is_ok() {
                self.overruled.insert(i);
            }
            let refusal = match self.outcome(i)? {
                Outcome::Failed(reason) if reason.cause == Cause::Constraint => Some(reason.text),
                _ => None,
            };
            planted.keep(seed, key, refusal);
            if let Some(ns) = self.measure(i)?.filter(|ns| best.is_none_or(|(_, least)| *ns < least)) {
                best = Some((i, ns));
            }
        }
        Ok(best)
    }

    /// Goes on where a descent ended: with what is likely to be fast by all that was timed, with some that are drawn,
    /// whatever their variants, and from the best that were not varied yet.
    fn explore(
        &mut self,
        mut best: Option<(usize, f64)>,
        deadline: Duration,
    ) -> Result<Option<(usize, f64)>, KernelTuningError> {
        let mut varied: BTreeSet<usize> = best.iter().map(|(i, _)| *i).collect();
        let open = self.admitted();
        let mut rng = self.rng();
        while self.cache.spent() < deadline {
            let likely = self.likely(&mut rng);
            self.try_all(&likely, &mut best, Some(deadline))?;
            let drawn: Vec<usize> = (0..DRAWN.min(open.len())).map(|_| open[below(&mut rng, open.len())]).collect();
            self.try_all(&drawn, &mut best, Some(deadline))?;
            let next = self.ranked().into_iter().take(BEAM).find(|i| !varied.contains(i));
            let Some(next) = next else { break };
            varied.insert(next);
            let near: Vec<usize> = one_tunable_away(&self.all, &self.all[next]).collect();
            self.try_all(&near, &mut best, Some(deadline))?;
        }
        Ok(best)
    }

    /// As [`Candidates::descend`], from some configurations on.
    pub(in crate::kernel_tuning) fn descend_from(
        &mut self,
        first: &[usize],
        mut best: Option<(usize, f64)>,
        deadline: Duration,
    ) -> Result<Option<(usize, f64)>, KernelTuningError> {
        self.try_all(first, &mut best, Some(deadline))?;
        while let Some((from, _)) = best.filter(|_| self.cache.spent() < deadline) {
            let near: Vec<usize> = one_tunable_away(&self.all, &self.all[from]).collect();
            self.try_all(&near, &mut best, Some(deadline))?;
            if best.is_some_and(|(now, _)| now == from) {
                break;
            }
        }
        Ok(best)
    }

    /// Measures configurations; what is known is enough once the deadline has passed, and those that were compiled
    /// before were measured for as long as compiling took.
    fn try_all(
        &mut self,
        configurations: &[usize],
        best: &mut Option<(usize, f64)>,
        deadline: Option<Duration>,
    ) -> Result<(), KernelTuningError> {
        let mut end = deadline;
        let ahead = if self.cache.kernel_seconds() > SLOW_COMPILER { FEW_AHEAD } else { AHEAD };
        for (n, i) in configurations.iter().copied().enumerate() {
            let now = self.cache.spent();
            if best.is_some() && end.is_some_and(|end| now >= end) {
                break;
            }
            if n % ahead == 0 {
                self.compile_ahead(&configurations[n..configurations.len().min(n + ahead)])?;
                let compiled = self.cache.spent();
                end = deadline.map(|deadline| deadline.max(compiled + (compiled - now)));
            }
            if let Some(ns) = self.measure(i)?.filter(|ns| best.is_none_or(|(_, least)| *ns < least)) {
                *best = Some((i, ns));
            }
        }
        Ok(())
    }

    /// Has the kernels of configurations compiled that will be measured.
    fn compile_ahead(&mut self, configurations: &[usize]) -> Result<(), KernelTuningError> {
        let mut kernels = Vec::new();
        for i in configurations.iter().copied().filter(|i| self.all[*i].refusal.is_none()).collect::<Vec<_>>() {
            if let Made::Kernel(kernel) = self.kernel(i)? {
                kernels.push(kernel);
            }
        }
        Ok(self.cache.compile_ahead(self.group, &kernels)?)
    }

    /// Measures what is one tunable away.
    pub(in crate::kernel_tuning) fn try_near(
        &mut self,
        from: usize,
        deadline: Duration,
    ) -> Result<(), KernelTuningError> {
        let near: Vec<usize> = one_tunable_away(&self.all, &self.all[from]).collect();
        let mut best = self.measure(from)?.map(|ns| (from, ns));
        self.try_all(&near, &mut best, Some(deadline))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel_tuning::KernelTuner;
    use wgoose_graph::{Format, ModelShape, Weight};
    use wgoose_kernels::{DeviceFingerprint, Feature, Limits, Plan, Precision};
    use wgoose_measure::ledger::Ledger;
    use wgoose_measure::problem::Problem;
    use wgoose_measure::result_cache::ResultCache;
    use wgoose_measure::scenario::Scenario;
    use wgoose_measure::space::PersistentGrid;
    use wgoose_measure::space::{Scope, groups};
    use wgoose_plans::catalogue;
    use wgoose_sim::{SimulatedDevice, SimulatedRunner};

    /// How many times as fast phases of 256 threads are that are likely to be by phases of 512, on average, as a
    /// logarithm: beside those that are by nothing.
    fn gained(seed: u64) -> f64 {
        let shape = ModelShape::preset("0.1B").unwrap();
        let features = [Feature::Subgroups, Feature::F16, Feature::CoherentMemory].into();
        let (workgroup_threads, workgroup_memory) = (1024, 48 << 10);
        let wide = Limits { workgroup_threads, workgroup_memory, min_subgroup: 32, features, ..Limits::webgpu() };
        let limits = Limits { storage_buffers: 16, multiprocessors: 132, ..wide };
        let text = || "made up".to_owned();
        let device =
            DeviceFingerprint { adapter: text(), vendor: 1, device: 2, driver: text(), backend: text(), wgpu: text() };
        let default = Plan::default_for(device.clone(), shape, &limits);
        let formats = Weight::all(&shape).map(|weight| (weight, Format::F16)).collect();
        let group = groups(&shape, Scenario::DECODE, &default.fusions.decode, &|_| Format::F16)
            .into_iter()
            .find(|group| group.key.op == "matmul_add" && group.key.k > group.key.m)
            .unwrap();
        let problem = Problem { limits: limits.clone(), shape, formats, model: text(), default };
        let (catalogue, folder) = (catalogue::embedded(), tempfile::tempdir().unwrap());
        let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(seed));
        let ledger = Ledger::open(folder.path().join("ledger.jsonl")).unwrap();
        let mut cache = ResultCache::new(ledger, device, Some(text()), &mut runner);
        let scope = Scope { allowed: Precision::F16, exhaustive: false };
        let tuner = KernelTuner::new(&limits, &catalogue, scope);
        let grid = |threads| PersistentGrid { workgroups: 132, threads };
        tuner.best_phases(&group, &mut cache, grid(512), (None, Duration::from_secs(6))).unwrap();
        let mut candidates = Candidates::of_phase(&tuner, &group, &mut cache, grid(256)).unwrap();
        let mean = |candidates: &mut Candidates<'_, '_, '_>| {
            let likely = candidates.likely(&mut candidates.rng());
            let ns = likely.into_iter().filter_map(|i| candidates.measure(i).unwrap());
            let logarithms: Vec<f64> = ns.map(f64::ln).collect();
            logarithms.iter().sum::<f64>() / logarithms.len() as f64
        };
        let informed = mean(&mut candidates);
        (candidates.elsewhere, candidates.timed, candidates.asked) = Default::default();
        mean(&mut candidates) - informed
    }

    #[test]
    fn kernels_fast_at_one_grid_guide_the_search_at_another() {
        let gained = [0, 1, 2, 3].map(gained);
        assert!(gained.iter().all(|gained| *gained > 0.02), "{gained:?}");
    }
}
