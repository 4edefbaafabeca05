//! Work that was not run: configurations that were refused, by reason, and work for which no time was left.

use super::sites::Site;
use super::view::View;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use wgoose_measure::ledger::{Cause, Record, UNTRIED};

/// What was not run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Configurations that were refused, by reason, the most first.
    pub refusals: Vec<Refusals>,
    /// Changes of plans that no time was left for, as the sweep said it.
    pub untried: Vec<String>,
    /// Sites whose number of configurations is known.
    pub counted_sites: usize,
    /// Configurations of these sites: all, refused, measured.
    pub configurations: [u64; 3],
}

/// Configurations that were refused for one reason. One of several sites counts at each.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusals {
    /// The class.
    pub cause: Cause,
    /// The reason.
    pub reason: String,
    /// How many.
    pub configurations: u64,
    /// Variants, as `op/variant`, or files.
    pub variants: BTreeSet<String>,
}

impl LeftOut {
    pub(super) fn of(view: &View<'_>, sites: &[Site]) -> Self {
        let mut reasons: BTreeMap<(String, String), Refusals> = BTreeMap::new();
        let mut add = |cause: Cause, reason: &str, configurations: u64, variant: String| {
            let known = reasons.entry((cause.to_string(), reason.to_owned())).or_insert_with(|| Refusals {
                cause,
                reason: reason.to_owned(),
                configurations: 0,
                variants: BTreeSet::new(),
            });
            known.configurations += configurations;
            known.variants.insert(variant);
        };
        for entry in view.records.as_slice() {
            if let Record::Refused(refused) = &entry.record
                && view.is_device(&refused.device)
            {
                // What was refused one by one is named with its configuration.
                let variant = refused.variant.split(' ').next().unwrap_or_default();
                let name = match &refused.site {
                    Some(site) if !variant.contains('/') => format!("{}/{variant}", site.key.op),
                    _ => variant.to_owned(),
                };
                let reason = &refused.reason;
                add(reason.cause, &reason.text, u64::from(refused.configurations), name);
            }
        }
        let mut refusals: Vec<Refusals> = reasons.into_values().collect();
        refusals.sort_by_key(|refusals| Reverse(refusals.configurations));
        let untried = view.decisions().filter(|decision| decision.stage == UNTRIED);
        let (mut counted_sites, mut configurations) = (0, [0; 3]);
        for site in sites {
            if let Some([all, refused]) = site.configurations {
                let own = [all, refused, (site.points.len() as u64).min(all.saturating_sub(refused))];
                counted_sites += 1;
                configurations.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
        }
        let untried = untried.map(|decision| decision.text.clone()).collect();
        LeftOut { refusals, untried, counted_sites, configurations }
    }
}
