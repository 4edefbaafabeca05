//! Does the sanitizer see what it is for? Takes away each barrier, bounds test and clamp of kernels in turn, until a
//! kernel is found to need it: kernels share files. Prints a row for each variant as it is done; at the end, what no
//! kernel needs.
//!
//! `cargo run --release -p wgoose-runtime --example mutations -- [default] [OP/VARIANT ...]`
//!
//! Without a name it takes every variant. `default` keeps to the default configuration of each.

use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use wgoose_kernels::{Variant, ops};
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::sanitize::{
    Coverage, SanitizeOptions, SanitizedCase, cases, dispatch, shader, widest_limits,
};
use wgoose_sanitizer::{Finding, FindingKind, MutationKind, SanitizerError};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// What became of a mutation in all kernels that have it.
#[derive(Default)]
struct Fate {
    found: BTreeMap<FindingKind, u32>,
    endless: u32,
    missed: u32,
}

impl Fate {
    fn is_seen(&self) -> bool {
        !self.found.is_empty() || self.endless > 0
    }

    fn add(&mut self, other: Fate) {
        other.found.into_iter().for_each(|(kind, n)| *self.found.entry(kind).or_default() += n);
        self.endless += other.endless;
        self.missed += other.missed;
    }
}

/// Something that is taken away: the file and line, and what it is.
type Place = (String, MutationKind);

fn main() -> Result<(), Failure> {
    let (words, names): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|word| word == "default");
    let coverage = if words.is_empty() { Coverage::Choices } else { Coverage::Default };
    let catalogue = catalogue::embedded();
    let mut variants: Vec<(&'static str, &Variant)> = Vec::new();
    for op in ops::ALL {
        variants.extend(catalogue.variants(op.name).iter().map(|variant| (op.name, variant)));
    }
    if !names.is_empty() {
        variants.retain(|(op, variant)| names.contains(&format!("{op}/{}", variant.name())));
    }
    println!("{:<40} {:>8} {:>8} {:>8} {:>8}", "kernel", "places", "found", "endless", "missed");
    let all = Mutex::new(BTreeMap::<Place, Fate>::new());
    variants.par_iter().try_for_each(|(op, variant)| {
        let fates = mutated(op, variant, coverage, &|place| {
            all.lock().unwrap_or_else(PoisonError::into_inner).get(place).is_some_and(Fate::is_seen)
        })?;
        let count = |is: &dyn Fn(&Fate) -> bool| fates.values().filter(|fate| is(fate)).count();
        let found = count(&|fate| !fate.found.is_empty());
        let endless = count(&|fate| fate.found.is_empty() && fate.endless > 0);
        let (name, missed) = (format!("{op}/{}", variant.name()), count(&|fate| !fate.is_seen()));
        println!("{name:<40} {:>8} {found:>8} {endless:>8} {missed:>8}", fates.len());
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        fates.into_iter().for_each(|(place, fate)| all.entry(place).or_default().add(fate));
        Ok::<(), Failure>(())
    })?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    for kind in MutationKind::ALL {
        let places = all.iter().filter(|((_, of), _)| *of == kind);
        let (seen, missed): (Vec<_>, Vec<_>) = places.partition(|(_, fate)| fate.is_seen());
        println!("\nwithout the {kind}: {} of {} places found in a kernel", seen.len(), seen.len() + missed.len());
        missed.iter().for_each(|((place, _), fate)| println!("  {place}: not found in {} kernels", fate.missed));
    }
    Ok(())
}

/// Takes away each thing of a variant's kernels in turn, but for what is known to be needed.
fn mutated(
    op: &'static str,
    variant: &Variant,
    coverage: Coverage,
    is_needed: &dyn Fn(&Place) -> bool,
) -> Result<BTreeMap<Place, Fate>, Failure> {
    let (options, mut fates) = (SanitizeOptions::default(), BTreeMap::new());
    for case in cases(op, variant, &widest_limits(options.subgroup_size), coverage)? {
        mutate(&case, &options, &mut fates, is_needed)?;
    }
    Ok(fates)
}

/// Takes away each thing of a kernel in turn.
fn mutate(
    case: &SanitizedCase,
    options: &SanitizeOptions,
    fates: &mut BTreeMap<Place, Fate>,
    is_needed: &dyn Fn(&Place) -> bool,
) -> Result<(), Failure> {
    let limits = widest_limits(options.subgroup_size);
    let dispatch = dispatch(&case.kernel, &case.case, &limits, options)?;
    let whole = shader(&case.kernel)?;
    let before = whole.check(&dispatch, &options.orders)?;
    let known = |finding: &Finding| {
        before.findings.iter().any(|f| (f.kind, f.first.line) == (finding.kind, finding.first.line))
    };
    for mutation in whole.mutations()? {
        let place = match case.kernel.origins.of(mutation.line) {
            Some((file, line)) => format!("{file}:{line}"),
            None => "the text".to_owned(),
        };
        let place = (place, mutation.kind);
        if is_needed(&place) || fates.get(&place).is_some_and(Fate::is_seen) {
            continue;
        }
        let fate = fates.entry(place).or_default();
        match whole.without(&mutation).check(&dispatch, &options.orders) {
            Ok(report) => match report.faults().find(|finding| !known(finding)) {
                Some(finding) => *fate.found.entry(finding.kind).or_default() += 1,
                None => fate.missed += 1,
            },
            Err(SanitizerError::TooLong { .. }) => fate.endless += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
