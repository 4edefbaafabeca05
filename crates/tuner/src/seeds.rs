//! Seeds in a search: which there are for a site, and what came of each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use wgoose_kernels::plan::TuningKey;
use wgoose_kernels::{Catalogue, ConfigError, Plan};
use wgoose_measure::seed::Seed;

/// Why a seed is not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SeedRefusal {
    /// The catalogue has no such variant.
    #[error("there is no kernel {op}/{variant}")]
    Unknown { op: String, variant: String },
    /// A tunable is missing or foreign, or has no such choice.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No site is of its sizes.
    #[error("no op instance that was tuned has its op and sizes")]
    NoSite,
    /// A constraint speaks against it wherever it fits.
    #[error("refused at {sites} of the {of} op instances that it fits: {first}")]
    Constraint { sites: usize, of: usize, first: String },
}

/// Seeds in a search: which there are for a site, and what came of each.
pub struct Planted {
    seeds: Vec<Seed>,
    /// How many of them were proposed; of the others nothing is said.
    proposed: usize,
    fates: RefCell<Vec<Fate>>,
}

/// What came of a seed so far.
#[derive(Clone, Debug, Default)]
struct Fate {
    /// Why it can fit nowhere.
    unfit: Option<SeedRefusal>,
    /// By site: why it was refused there, if it was.
    sites: BTreeMap<TuningKey, Option<String>>,
}

impl Planted {
    /// Seeds of a search that knows these kernels, and the choices of a plan, which are measured as well.
    pub fn new(proposed: &[Seed], plan: Option<&Plan>, catalogue: &Catalogue) -> Self {
        let of_plan = plan.into_iter().flat_map(|plan| plan.choices.iter().map(Seed::of));
        let seeds: Vec<Seed> = proposed.iter().cloned().chain(of_plan).collect();
        let unfit = |seed: &Seed| match catalogue.variant(&seed.op, &seed.variant) {
            None => Some(SeedRefusal::Unknown { op: seed.op.clone(), variant: seed.variant.clone() }),
            Some(variant) => variant.config(&seed.config).err().map(SeedRefusal::Config),
        };
        let fates = seeds.iter().map(|seed| Fate { unfit: unfit(seed), ..Fate::default() }).collect();
        Planted { seeds, proposed: proposed.len(), fates: RefCell::new(fates) }
    }

    /// Those for sites of a key, with their places in the list.
    pub(crate) fn at(&self, key: &TuningKey) -> Vec<(usize, &Seed)> {
        let fates = self.fates.borrow();
        let fits = |(i, seed): &(usize, &Seed)| fates[*i].unfit.is_none() && seed.fits(key);
        self.seeds.iter().enumerate().filter(fits).collect()
    }

    /// Keeps what came of one at a site: why it was refused, if it was. What was measured once was not refused.
    pub(crate) fn keep(&self, seed: usize, key: &TuningKey, refusal: Option<String>) {
        let sites = &mut self.fates.borrow_mut()[seed].sites;
        match sites.get_mut(key) {
            Some(known) => *known = known.take().and(refusal),
            None => drop(sites.insert(key.clone(), refusal)),
        }
    }

    /// Proposed seeds that can fit nowhere, each with the reason.
    pub(crate) fn unfit(&self) -> Vec<(&Seed, SeedRefusal)> {
        let fates = self.fates.borrow();
        self.seeds[..self.proposed]
            .iter()
            .zip(&*fates)
            .filter_map(|(seed, fate)| Some((seed, fate.unfit.clone()?)))
            .collect()
    }

    /// Proposed seeds that could fit and were refused at sites that were tuned, or found none.
    pub(crate) fn refused(&self) -> Vec<(&Seed, SeedRefusal)> {
        let fates = self.fates.borrow();
        let refusal = |fate: &Fate| {
            let refused: Vec<(&TuningKey, &String)> =
                fate.sites.iter().filter_map(|(key, refusal)| Some((key, refusal.as_ref()?))).collect();
            match (fate.sites.len(), refused.first()) {
                (0, _) => Some(SeedRefusal::NoSite),
                (of, Some((key, why))) => {
                    Some(SeedRefusal::Constraint { sites: refused.len(), of, first: format!("{key}: {why}") })
                }
                (_, None) => None,
            }
        };
        let fit = self.seeds[..self.proposed].iter().zip(&*fates).filter(|(_, fate)| fate.unfit.is_none());
        fit.filter_map(|(seed, fate)| Some((seed, refusal(fate)?))).collect()
    }
}
