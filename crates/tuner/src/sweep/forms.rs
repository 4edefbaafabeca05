//! Forms of a megakernel: a grid, fusions and layouts, and for each of its phases the kernels that were timed alone. A
//! step takes about the sum of these: which forms are far behind is known before any of them is compiled.

use super::error::SweepError;
use super::megakernel_step::{MegakernelStep, is_like, with};
use super::step_model::{BOUNDARY, Parts, StepModel, boundary_ns};
use crate::kernel_tuning::{RankedPhase, Taken, fitting};
use rand_xoshiro::SplitMix64;
use std::collections::{BTreeMap, BTreeSet};
use wgoose_kernels::plan::{Choice, TuningKey};
use wgoose_kernels::{Catalogue, Plan};
use wgoose_measure::space::{InstanceGroup, PersistentGrid};
use wgoose_measure::stats::linear::{Row, dot};

/// Kernels are kept whose time alone is at most so many times the least.
const NEAR: f64 = 1.35;

/// Kernels are as fast as each other in a step that differ by no more than this share.
const ALIKE: f64 = 0.01;

/// Steps of a batch, which are compiled at once.
const AHEAD: usize = 12;

/// Draws for each of them: many are alike.
const DRAWS: usize = 4;

/// Of so many draws one is of the form that is known to run well, however far behind the times of its kernels alone
/// leave it.
const OF_OWN: usize = 4;

/// Kernels of a kind of op instance at a grid.
pub(super) struct Pool {
    pub(super) group: InstanceGroup,
    /// `None`: it runs beside the layers.
    pub(super) grid: Option<PersistentGrid>,
    pub(super) kernels: Vec<RankedPhase>,
    /// How many were timed, those included that are too slow.
    pub(super) timed: usize,
    /// The effects on each of them.
    rows: Vec<Row>,
}

impl Pool {
    /// Adds kernels that were timed, but for those that are too slow alone to be the best anywhere.
    fn add(&mut self, new: Vec<RankedPhase>, model: &mut StepModel) {
        self.timed = self.timed.max(new.len());
        let least = new.iter().map(|phase| phase.ns).fold(self.least_ns(), f64::min);
        for phase in new.into_iter().filter(|phase| phase.ns <= NEAR * least) {
            if self.kernels.iter().all(|known| known.choice != phase.choice) {
                self.rows.push(model.row(&phase.choice));
                self.kernels.push(phase);
            }
        }
    }

    /// What the fastest alone takes.
    fn least_ns(&self) -> f64 {
        self.kernels.iter().map(|phase| phase.ns).fold(f64::INFINITY, f64::min)
    }

    /// Nanoseconds of each, were the effects such.
    fn expected(&self, effects: &[f64]) -> Vec<f64> {
        self.kernels.iter().zip(&self.rows).map(|(phase, row)| phase.ns * dot(row, effects).exp()).collect()
    }
}

/// A kind of phase of a form, or of what runs beside.
#[derive(Clone)]
struct Site {
    pool: usize,
    /// How many a step has, those like it counted.
    count: u32,
    /// How many a layer has: each has memory of its own.
    dispatches: u32,
    /// The same in the first layer, which lacks an operand.
    like: Vec<TuningKey>,
}

/// A form.
#[derive(Clone)]
pub(super) struct Form {
    pub(super) name: String,
    /// A plan with a megakernel without phases.
    pub(super) plan: Plan,
    sites: Vec<Site>,
    boundaries: u32,
}

/// Forms, and the kernels of all of them.
pub(super) struct Forms {
    pub(super) pools: Vec<Pool>,
    of: BTreeMap<(TuningKey, Option<u32>), usize>,
    pub(super) all: Vec<Form>,
    pub(super) model: StepModel,
    /// Kernels, by pool and number, of steps that ran.
    ran: BTreeSet<(usize, usize)>,
    /// Those that are in none of these, but in one that did not run.
    suspect: BTreeSet<(usize, usize)>,
}

/// A form with a kernel of each pool that it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picked {
    pub(super) form: usize,
    pub(super) kernels: Vec<usize>,
}

impl Form {
    /// The pools that its kernels are taken from.
    pub(super) fn pools(&self) -> impl Iterator<Item = usize> + '_ {
        self.sites.iter().map(|site| site.pool)
    }
}

impl Forms {
    pub(super) fn new() -> Self {
        let (ran, suspect) = (BTreeSet::new(), BTreeSet::new());
        Forms { pools: Vec::new(), of: BTreeMap::new(), all: Vec::new(), model: StepModel::new(), ran, suspect }
    }

    /// Adds kernels of an op instance that were timed.
    pub(super) fn add(&mut self, group: &InstanceGroup, grid: Option<PersistentGrid>, kernels: Vec<RankedPhase>) {
        let at = *self.of.entry((group.key.clone(), grid.map(|grid| grid.threads))).or_insert_with(|| {
            self.pools.push(Pool { group: group.clone(), grid, kernels: Vec::new(), timed: 0, rows: Vec::new() });
            self.pools.len() - 1
        });
        self.pools[at].add(kernels, &mut self.model);
    }

    /// That some steps ran and others did not. Which kernel of a step is to blame is not known: those are left out that
    /// ran in no other.
    pub(super) fn judge(&mut self, ran: &[Picked], failed: &[Picked]) {
        let kernels = |picked: &Picked| {
            let sites = self.all[picked.form].sites.iter().zip(&picked.kernels);
            sites.map(|(site, kernel)| (site.pool, *kernel)).collect::<Vec<(usize, usize)>>()
        };
        let [ran, failed] = [ran, failed].map(|steps| steps.iter().flat_map(kernels).collect::<Vec<_>>());
        self.ran.extend(ran);
        self.suspect.extend(failed);
        self.suspect.retain(|kernel| !self.ran.contains(kernel));
    }

    /// Where kernels of an op instance are.
    pub(super) fn find(&self, group: &InstanceGroup, grid: Option<PersistentGrid>) -> Option<usize> {
        self.of.get(&(group.key.clone(), grid.map(|grid| grid.threads))).copied()
    }

    /// A form whose kernels are all known, and what it takes by them; `None` where a phase has none.
    pub(super) fn form(&self, name: &str, plan: &Plan, step: &MegakernelStep, layers: u32) -> Option<(Form, f64)> {
        let mut sites: Vec<Site> = Vec::new();
        for group in &step.groups {
            if let Some(site) = sites.iter_mut().find(|site| is_like(&self.pools[site.pool].group, group)) {
                site.count += group.count;
                site.like.push(group.key.clone());
                continue;
            }
            let (pool, dispatches) = (self.find(group, Some(step.grid))?, group.count.div_ceil(layers.max(1)));
            sites.push(Site { pool, count: group.count, dispatches, like: Vec::new() });
        }
        let boundaries = sites.iter().map(|site| site.count).sum();
        for group in &step.beside {
            sites.push(Site { pool: self.find(group, None)?, count: group.count, dispatches: 1, like: Vec::new() });
        }
        let mut ns = f64::from(boundaries) * BOUNDARY;
        for site in &sites {
            ns += f64::from(site.count) * self.pools[site.pool].least_ns();
        }
        ns.is_finite().then_some((Form { name: name.to_owned(), plan: plan.clone(), sites, boundaries }, ns))
    }

    /// What is a plan, with the fastest alone of what it has no choice for.
    pub(super) fn like(&self, plan: &Plan) -> Option<Picked> {
        let is_same = |form: &Form| {
            let (a, b) = (&form.plan, plan);
            (&a.fusions, &a.interleave, &a.k_major, a.persistent)
                == (&b.fusions, &b.interleave, &b.k_major, b.persistent)
        };
        let picked = |(i, form): (usize, &Form)| {
            let kernels = form.sites.iter().map(|site| {
                let pool = &self.pools[site.pool];
                let own = plan.choices.iter().find(|choice| choice.key == pool.group.key);
                let fastest =
                    (0..pool.kernels.len()).min_by(|a, b| pool.kernels[*a].ns.total_cmp(&pool.kernels[*b].ns));
                match own.filter(|_| pool.grid.is_some()) {
                    Some(own) => pool.kernels.iter().position(|phase| phase.choice == *own),
                    None => fastest,
                }
            });
            Some(Picked { form: i, kernels: kernels.collect::<Option<_>>()? })
        };
        self.all.iter().enumerate().filter(|(_, form)| is_same(form)).find_map(picked)
    }

    /// The best kernels of the best form of some, were the effects such, of those that fit into the memory of a
    /// workgroup.
    pub(super) fn best(&self, effects: &[f64], memory: u32, of: &dyn Fn(&Form) -> bool) -> Option<Picked> {
        let expected: Vec<Vec<f64>> = self.pools.iter().map(|pool| pool.expected(effects)).collect();
        let mut best: Option<(f64, Picked)> = None;
        for (i, form) in self.all.iter().enumerate().filter(|(_, form)| of(form)) {
            let Some((ns, kernels)) = self.best_of(form, &expected, memory) else { continue };
            let ns = ns + f64::from(form.boundaries) * boundary_ns(effects);
            if best.as_ref().is_none_or(|(least, _)| ns < *least) {
                best = Some((ns, Picked { form: i, kernels }));
            }
        }
        best.map(|(_, picked)| picked)
    }

    /// What is worth a look next: the likeliest to be the fastest, and steps that may well be, among them some of a
    /// form of its own. Those seen are left out.
    pub(super) fn batch(
        &self,
        own: usize,
        memory: u32,
        is_seen: &dyn Fn(&Picked) -> bool,
        rng: &mut SplitMix64,
    ) -> Vec<Picked> {
        let mut batch: Vec<Picked> = Vec::new();
        for i in 0..DRAWS * AHEAD {
            let effects = if i == 0 { self.model.likeliest() } else { self.model.draw(rng) };
            let of = |form: &Form| i % OF_OWN != 1 || std::ptr::eq(form, &self.all[own]);
            let picked = self.best(&effects, memory, &of);
            let picked = picked.filter(|picked| !is_seen(picked) && !batch.contains(picked));
            batch.extend(picked.filter(|_| batch.len() < AHEAD));
        }
        batch
    }

    fn best_of(&self, form: &Form, expected: &[Vec<f64>], memory: u32) -> Option<(f64, Vec<usize>)> {
        let (mut lists, mut kernels) = (Vec::new(), Vec::new());
        for site in &form.sites {
            let (pool, ns) = (&self.pools[site.pool], &expected[site.pool]);
            let mut order: Vec<usize> = (0..ns.len()).filter(|i| !self.suspect.contains(&(site.pool, *i))).collect();
            order.sort_by(|a, b| ns[*a].total_cmp(&ns[*b]));
            let (mut list, mut own): (Vec<Taken>, Vec<usize>) = (Vec::new(), Vec::new());
            for i in order {
                let mut memory = pool.kernels[i].memory;
                memory.own *= site.dispatches;
                if pool.grid.is_none() {
                    memory = Default::default();
                }
                // What is slower and takes as much memory is of no use.
                if list.iter().all(|(_, known)| memory.shared < known.shared || memory.own < known.own) {
                    list.push((ns[i], memory));
                    own.push(i);
                }
            }
            lists.push(list);
            kernels.push(own);
        }
        let counts: Vec<u32> = form.sites.iter().map(|site| site.count).collect();
        let picked = fitting(&lists, &counts, memory)?;
        let ns = picked.iter().zip(&lists).zip(&counts).map(|((i, list), count)| list[*i].0 * f64::from(*count)).sum();
        Some((ns, picked.iter().zip(kernels).map(|(i, own)| own[*i]).collect()))
    }

    /// The same with kernels of which a device has the same bits in every sweep, where these are as fast, were the
    /// effects such, as far as anybody can tell: those of the default, else those whose hash comes first.
    pub(super) fn settled(&self, mut picked: Picked, effects: &[f64], default_bits: &[Option<String>]) -> Picked {
        let sites = self.all[picked.form].sites.iter().zip(default_bits);
        for ((site, default), own) in sites.zip(&mut picked.kernels) {
            let pool = &self.pools[site.pool];
            let (ns, fits) = (pool.expected(effects), pool.kernels[*own].memory);
            let is_as_good = |i: &usize| {
                let memory = pool.kernels[*i].memory;
                let is_as_fast = ns[*i] <= ns[*own] * (1.0 + ALIKE);
                is_as_fast && memory.shared <= fits.shared && memory.own <= fits.own
            };
            let known = (0..ns.len()).filter(|i| !self.suspect.contains(&(site.pool, *i)));
            let class = |i: &usize| {
                let bits = &pool.kernels[*i].bits;
                (bits.is_none(), bits != default, bits.clone())
            };
            let as_good = known.filter(is_as_good);
            *own = as_good.min_by(|a, b| class(a).cmp(&class(b)).then(ns[*a].total_cmp(&ns[*b]))).unwrap_or(*own);
        }
        picked
    }

    /// A step as a sum.
    pub(super) fn parts(&self, picked: &Picked) -> Parts {
        let form = &self.all[picked.form];
        let kernels = form.sites.iter().zip(&picked.kernels).map(|(site, i)| {
            let pool = &self.pools[site.pool];
            (f64::from(site.count) * pool.kernels[*i].ns, pool.rows[*i].clone())
        });
        Parts { boundaries: f64::from(form.boundaries), kernels: kernels.collect() }
    }

    /// The pools of a form, with the kernels picked of them.
    pub(super) fn chosen(&self, picked: &Picked) -> Vec<(usize, Choice)> {
        let sites = self.all[picked.form].sites.iter().zip(&picked.kernels);
        sites.map(|(site, i)| (site.pool, self.pools[site.pool].kernels[*i].choice.clone())).collect()
    }

    /// A plan of what was picked.
    pub(super) fn plan(&self, picked: &Picked, catalogue: &Catalogue) -> Result<Plan, SweepError> {
        let form = &self.all[picked.form];
        let mut choices = Vec::new();
        for (site, (_, choice)) in form.sites.iter().zip(self.chosen(picked)) {
            for key in &site.like {
                choices.push(choice.for_key(key.clone(), catalogue)?);
            }
            choices.push(choice);
        }
        Ok(with(&form.plan, choices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;
    use wgoose_graph::{Format, ModelShape};
    use wgoose_kernels::persistent::StageMemory;
    use wgoose_kernels::{DeviceFingerprint, Limits};
    use wgoose_measure::scenario::Scenario;
    use wgoose_measure::space::groups;

    #[test]
    fn the_fastest_that_fits_is_picked_unless_it_does_not_run() {
        let shape = ModelShape::preset("0.1B").unwrap();
        let text = String::new;
        let device =
            DeviceFingerprint { adapter: text(), vendor: 0, device: 0, driver: text(), backend: text(), wgpu: text() };
        let plan = Plan::default_for(device, shape, &Limits::webgpu());
        let all = groups(&shape, Scenario::DECODE, &plan.fusions.decode, &|_| Format::F16);
        let group = all.into_iter().find(|group| group.key.op == "matmul_add" && group.in_layers).unwrap();
        let grid = PersistentGrid { workgroups: 8, threads: 256 };
        let phase = |variant: &str, ns, own| {
            let (key, variant) = (group.key.clone(), variant.to_owned());
            let bits = Some(variant.clone());
            let choice = Choice { key, variant, config: Default::default(), source: String::new() };
            RankedPhase { choice, ns, memory: StageMemory { shared: 0, own }, bits }
        };
        let mut forms = Forms::new();
        let kernels = [
            phase("large", 10.0, 4000),
            phase("a", 11.0, 0),
            phase("exact", 11.02, 0),
            phase("more", 11.02, 8),
            phase("b", 12.0, 0),
            phase("slow", 20.0, 0),
        ];
        forms.add(&group, Some(grid), kernels.to_vec());
        let step = MegakernelStep { groups: vec![group.clone()], beside: Vec::new(), grid };
        let (form, ns) = forms.form("one", &plan, &step, shape.layers).unwrap();
        assert_eq!(ns, f64::from(group.count) * (10.0 + BOUNDARY));
        forms.all.push(form);
        let best = |forms: &Forms, memory| {
            let picked = forms.best(&forms.model.likeliest(), memory, &|_| true)?;
            Some((forms.chosen(&picked)[0].1.variant.clone(), picked))
        };
        let (large, of_large) = best(&forms, 1 << 20).unwrap();
        let (a, of_a) = best(&forms, 1000).unwrap();
        assert_eq!((large.as_str(), a.as_str()), ("large", "a"));
        // What is as fast, and fits, takes its place if it makes the default's bits.
        let settled = |picked: &Picked, default: Option<&str>| {
            let default = [default.map(str::to_owned)];
            let settled = forms.settled(picked.clone(), &forms.model.likeliest(), &default);
            forms.chosen(&settled)[0].1.variant.clone()
        };
        assert_eq!(settled(&of_a, Some("exact")), "exact");
        assert_eq!(settled(&of_large, Some("exact")), "large");
        // Where nothing makes them, bits have an order.
        let of_exact = Picked { kernels: vec![2], ..of_a.clone() };
        assert_eq!((settled(&of_a, None).as_str(), settled(&of_exact, None).as_str()), ("a", "a"));
        // A form is looked at that is known to run well, however slow its kernels are alone.
        let far = Form { name: "far".to_owned(), boundaries: 1000 * forms.all[0].boundaries, ..forms.all[0].clone() };
        forms.all.push(far);
        let batch = forms.batch(1, 1 << 20, &|_| false, &mut SplitMix64::seed_from_u64(0));
        assert!(batch[0].form == 0 && batch.iter().any(|picked| picked.form == 1), "{batch:?}");
        assert!(
            forms.batch(1, 1 << 20, &|picked| picked.form == 1, &mut SplitMix64::seed_from_u64(0)).len() < batch.len()
        );
        // It ran before: something else is to blame.
        forms.judge(std::slice::from_ref(&of_a), &[of_a.clone(), of_large]);
        assert_eq!(best(&forms, 1 << 20).unwrap().0, "a");
        assert!(best(&forms, 0).is_none());
    }
}
