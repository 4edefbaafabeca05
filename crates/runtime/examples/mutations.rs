//! Does the sanitizer see what it is for? Takes away each barrier and each bounds test of the kernels of a variant in
//! turn, and prints a table of what is found.
//!
//! `cargo run --release -p wgoose-runtime --example mutations -- OP/VARIANT [default]`

use std::collections::BTreeMap;
use wgoose_kernels::ops;
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::sanitize::{
    Coverage, SanitizeOptions, SanitizedCase, cases, dispatch, shader, widest_limits,
};
use wgoose_sanitizer::{FindingKind, MutationKind, SanitizerError};

/// What became of a mutation in all kernels that have it.
#[derive(Default)]
struct Fate {
    found: BTreeMap<FindingKind, u32>,
    endless: u32,
    missed: u32,
}

/// Something that is taken away: the file and line, and what it is.
type Place = (String, MutationKind);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, coverage) = match &arguments[..] {
        [name] => (name, Coverage::Choices),
        [name, word] if word == "default" => (name, Coverage::Default),
        _ => return Err("OP/VARIANT [default]".into()),
    };
    let (op, variant) = name.split_once('/').ok_or("OP/VARIANT")?;
    let op = ops::ALL.iter().find(|known| known.name == op).ok_or("there is no such op")?.name;
    let catalogue = catalogue::embedded();
    let variant = catalogue.variant(op, variant).ok_or("there is no such variant")?;
    let (options, mut fates) = (SanitizeOptions::default(), BTreeMap::<Place, Fate>::new());
    for case in cases(op, variant, &widest_limits(options.subgroup_size), coverage)? {
        mutate(&case, &options, &mut fates)?;
    }
    println!("{:<34} {:<18} {:>6} {:>7} {:>7}  as", "line", "without the", "found", "endless", "missed");
    for ((place, kind), fate) in &fates {
        let found: u32 = fate.found.values().sum();
        let names: Vec<&str> = fate.found.keys().map(|kind| kind.name()).collect();
        let (endless, missed, names) = (fate.endless, fate.missed, names.join(" "));
        println!("{place:<34} {:<18} {found:>6} {endless:>7} {missed:>7}  {names}", kind.to_string());
    }
    let seen = fates.values().filter(|fate| !fate.found.is_empty() || fate.endless > 0).count();
    println!("{seen} of {} found in some kernel", fates.len());
    Ok(())
}

/// Takes away each thing of a kernel in turn.
fn mutate(
    case: &SanitizedCase,
    options: &SanitizeOptions,
    fates: &mut BTreeMap<Place, Fate>,
) -> Result<(), Box<dyn std::error::Error>> {
    let limits = widest_limits(options.subgroup_size);
    let dispatch = dispatch(&case.kernel, &case.case, &limits, options)?;
    let whole = shader(&case.kernel)?;
    let before = whole.check(&dispatch, &options.orders)?;
    let known = |finding: &wgoose_sanitizer::Finding| {
        before.findings.iter().any(|f| (f.kind, f.first.line) == (finding.kind, finding.first.line))
    };
    for mutation in whole.mutations()? {
        let place = match case.kernel.origins.of(mutation.line) {
            Some((file, line)) => format!("{file}:{line}"),
            None => "the text".to_owned(),
        };
        let fate = fates.entry((place, mutation.kind)).or_default();
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
