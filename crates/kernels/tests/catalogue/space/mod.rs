//! The space of the kernels is what it was before each became one file: `before.txt` says what the code of commit eb8e1fa
//! admitted, refused and why, configuration by configuration; here it is reproduced in today's words, modulo the table of
//! renames, with every difference listed.
//!
//! The golden has the instances, then of every variant its tunables, a letter for each reason, and of every result (a letter a
//! configuration, `.` for admitted, run lengths before the letters) the instances that have it, each with the lower bits of a
//! hash over the workgroups of what is admitted.

mod renames;

use crate::instances::{self, bare, narrow, wide};
use rayon::prelude::*;
use renames::{DEFAULT_DIFFERENCES, DIFFERENCES, REASONS, Renamed, renamed};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_kernels::{Catalogue, Config, Instance, Kernel, KernelError, Limits, Refusal, SpelledConfig, Variant, plan};

const BEFORE: &str = include_str!("before.txt");

fn limits(name: &str) -> Limits {
    match name {
        "wide" => wide(),
        "narrow" => narrow(),
        _ => bare(),
    }
}

/// Results, and the instances that have them with their hashes.
type Results = (Vec<char>, Vec<(usize, u32)>);

/// A variant as the golden has it.
struct Before<'a> {
    op: &'a str,
    variant: &'a str,
    tunables: Vec<(&'a str, Vec<&'a str>)>,
    reasons: BTreeMap<char, &'a str>,
    results: Vec<Results>,
}

fn before() -> Vec<Before<'static>> {
    let mut all: Vec<Before<'static>> = Vec::new();
    let mut lines = BEFORE.lines().filter(|line| !line.starts_with("site ")).peekable();
    while let Some(line) = lines.next() {
        let Some(head) = line.strip_prefix("variant ") else { continue };
        let (op, rest) = head.split_once(' ').unwrap();
        let variant = rest.split(' ').next().unwrap();
        all.push(Before { op, variant, tunables: vec![], reasons: BTreeMap::new(), results: vec![] });
        let last = all.last_mut().unwrap();
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            let line = line.trim_start();
            if let Some(tunable) = line.strip_prefix("tune ") {
                let (name, choices) = tunable.split_once(": ").unwrap();
                last.tunables.push((name, choices.split(' ').collect()));
            } else if let Some((letter, reason)) = line.split_once(' ').filter(|(letter, _)| is_letter(letter)) {
                last.reasons.insert(letter.chars().next().unwrap(), reason);
            } else {
                let of = |site: &str| {
                    let (site, hash) = site.split_once(':').unwrap();
                    (site.parse().unwrap(), u32::from_str_radix(hash, 16).unwrap())
                };
                let sites = lines.next().unwrap().trim().split(' ').map(of).collect();
                last.results.push((unpacked(line), sites));
            }
        }
    }
    all
}

fn is_letter(text: &str) -> bool {
    text.len() == 1 && text.bytes().all(|b| b.is_ascii_lowercase())
}

/// `3a.` is `aaa.`.
fn unpacked(text: &str) -> Vec<char> {
    let (mut out, mut count) = (Vec::new(), 0);
    for c in text.chars() {
        match c.to_digit(10) {
            Some(digit) => count = count * 10 + digit as usize,
            None => out.extend(std::iter::repeat_n(c, std::mem::take(&mut count).max(1))),
        }
    }
    out
}

impl Before<'_> {
    /// Its configurations in the order of the results, the last tunable changing fastest.
    fn configs(&self) -> Vec<SpelledConfig> {
        let mut all = vec![SpelledConfig::new()];
        for (name, choices) in &self.tunables {
            let with = |config: &SpelledConfig, choice: &str| {
                let mut config = config.clone();
                config.insert((*name).to_owned(), choice.to_owned());
                config
            };
            all = all.iter().flat_map(|config| choices.iter().map(move |c| with(config, c))).collect();
        }
        all
    }

    /// Those in today's words, of the variant that took its place.
    fn today<'c>(&self, catalogue: &'c Catalogue) -> (&'c Variant, Vec<Config>) {
        let Renamed { variant, config } = renamed(self.op, self.variant);
        let variant = catalogue.variant(self.op, variant).unwrap_or_else(|| panic!("{} has no {variant}", self.op));
        let configs = self.configs().iter().map(|old| variant.config(&config(old)).unwrap()).collect();
        (variant, configs)
    }
}

/// The reason of a refusal, without what differs from instance to instance.
fn reason(error: &KernelError) -> String {
    match error {
        KernelError::Refused(Refusal::Illegal { reason, .. }) => reason.clone(),
        KernelError::Refused(Refusal::Pruned { reason, .. }) => format!("pruned: {reason}"),
        KernelError::Refused(Refusal::Reader { .. }) => "no reader".to_owned(),
        KernelError::Refused(Refusal::Feature(feature)) => format!("feature: {feature}"),
        other => panic!("{other}"),
    }
}

#[test]
fn what_was_admitted_is_admitted_and_what_was_refused_is_refused() {
    let instances = instances::all();
    let described: Vec<String> =
        instances.iter().enumerate().map(|(i, (l, d, _))| format!("site {i} {l} {d}")).collect();
    let golden: Vec<&str> = BEFORE.lines().filter(|line| line.starts_with("site ")).collect();
    assert_eq!(golden.len(), described.len());
    // Formats have other names: their number must be the same, and all else.
    for (golden, today) in golden.iter().zip(&described) {
        let of = |text: &str| text.split(' ').count();
        let sizes = |text: &str| text.split('[').next().unwrap().to_owned();
        assert_eq!((sizes(golden), of(golden)), (sizes(today), of(today)));
    }
    let catalogue = Catalogue::embedded();
    let known: BTreeSet<(&str, &str)> = REASONS.iter().copied().collect();
    let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
    let mut compared = 0;
    for before in before() {
        let (variant, configs) = before.today(&catalogue);
        let found: Vec<String> = before
            .results
            .par_iter()
            .flat_map(|(results, sites)| {
                assert_eq!(results.len(), configs.len(), "{} {}", before.op, before.variant);
                sites
                    .par_iter()
                    .flat_map_iter(|(site, hash)| {
                        differences(&before, variant, &configs, results, &instances[*site], *hash, &known)
                    })
                    .collect::<Vec<_>>()
            })
            .collect();
        compared += before.results.iter().map(|(results, sites)| results.len() * sites.len()).sum::<usize>();
        found.into_iter().for_each(|difference| *unknown.entry(difference).or_default() += 1);
    }
    println!("{compared} configurations compared");
    assert_listed(&unknown, DIFFERENCES);
}

/// Every difference that there is is listed, and no other.
fn assert_listed(found: &BTreeMap<String, usize>, listed: &[(&str, &str)]) {
    let listed: BTreeSet<&str> = listed.iter().map(|(what, _)| *what).collect();
    let unlisted: Vec<_> = found.iter().filter(|(what, _)| !listed.contains(what.as_str())).collect();
    assert!(unlisted.is_empty(), "differences that are not listed: {unlisted:#?}");
    let gone: Vec<_> = listed.iter().filter(|what| !found.contains_key(**what)).collect();
    assert!(gone.is_empty(), "differences that are listed and are none: {gone:#?}");
}

#[test]
fn defaults_are_what_they_were() {
    let (instances, catalogue) = (instances::all(), Catalogue::embedded());
    let mut lines = BEFORE.lines().skip_while(|line| !line.starts_with("default "));
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    while let (Some(head), Some(sites)) = (lines.next(), lines.next()) {
        let (op, kernel) = head.strip_prefix("default ").unwrap().split_once(": ").unwrap();
        let mut words = kernel.split(' ').filter(|word| !word.is_empty());
        let old = words.next().unwrap();
        let spelled: SpelledConfig =
            words.map(|w| w.split_once('=').unwrap()).map(|(a, b)| (a.into(), b.into())).collect();
        let today = (old != "none").then(|| renamed(op, old)).map(|r| (r.variant, (r.config)(&spelled)));
        let differences: Vec<String> = sites
            .trim()
            .split(' ')
            .collect::<Vec<_>>()
            .into_par_iter()
            .filter_map(|site| {
                let number: usize = site.trim_end_matches('b').parse().unwrap();
                let (device, _, instance) = &instances[number];
                let device = if site.ends_with('b') { "bare" } else { device };
                let now = plan::default_kernel(instance, &limits(device), &catalogue).ok();
                let now = now.map(|(variant, config, _)| (variant.name(), variant.spell(&config)));
                let text = |of: &Option<(&str, SpelledConfig)>| match of {
                    Some((variant, config)) => {
                        let config = config.iter().map(|(n, v)| format!(" {n}={v}")).collect::<String>();
                        format!("{variant}{config}")
                    }
                    None => "none".to_owned(),
                };
                if was_default_refused(op, &today, instance, &limits(device), &catalogue)
                    && today.as_ref().map(|t| t.0) == now.as_ref().map(|n| n.0)
                {
                    return None;
                }
                let (was, is) = (text(&today), text(&now));
                (was != is).then(|| format!("{op} on a {device} device: {was} is now {is}"))
            })
            .collect();
        differences.into_iter().for_each(|difference| *found.entry(difference).or_default() += 1);
    }
    assert_listed(&found, DEFAULT_DIFFERENCES);
}

/// Where a variant's default was refused, its first configuration that was not was taken; now it is the one nearest to the
/// default.
fn was_default_refused(
    op: &str,
    was: &Option<(&str, SpelledConfig)>,
    instance: &Instance,
    limits: &Limits,
    catalogue: &Catalogue,
) -> bool {
    let variant = was.as_ref().and_then(|(variant, _)| catalogue.variant(op, variant));
    let runs = |v: &Variant| {
        let config = v.default_config();
        v.admits(instance, &config, limits).is_ok() && Kernel::new(v, instance, &config, limits).is_ok()
    };
    variant.is_some_and(|v| !runs(v))
}

/// What differs at one instance, in words.
fn differences(
    before: &Before<'_>,
    variant: &Variant,
    configs: &[Config],
    results: &[char],
    (device, _, instance): &(&str, String, Instance),
    hash: u32,
    known: &BTreeSet<(&str, &str)>,
) -> BTreeSet<String> {
    let limits = limits(device);
    let mut found = BTreeSet::new();
    let mut workgroups = 0xcbf2_9ce4_8422_2325_u64;
    let mut same = true;
    for (config, result) in configs.iter().zip(results) {
        match (variant.admits(instance, config, &limits), before.reasons.get(result)) {
            (Ok(()), None) => {
                let count = variant.workgroups(instance, config, &limits).unwrap();
                workgroups = (workgroups ^ count).wrapping_mul(0x100_0000_01b3);
            }
            (Err(error), Some(old)) => {
                let new = reason(&error);
                if !known.contains(&(old, new.as_str())) {
                    found.insert(format!("{}: '{old}' is now '{new}'", variant.id()));
                }
            }
            (Ok(()), Some(old)) => {
                same = false;
                found.insert(format!("{}: admits what was refused: {old}", variant.id()));
            }
            (Err(error), None) => {
                same = false;
                found.insert(format!("{}: refuses what was admitted: {}", variant.id(), reason(&error)));
            }
        }
    }
    if same && workgroups as u32 & 0xff_ffff != hash {
        found.insert(format!("{}: other workgroups", variant.id()));
    }
    found
}
