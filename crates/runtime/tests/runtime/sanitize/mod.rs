//! Every variant of every op under the sanitizer: forwards and backwards, in subgroups of 32, at its default or, with
//! `WGOOSE_CHOICES=1`, at every choice of every tunable. `WGOOSE_KERNEL=op` or `op/variant` runs that alone,
//! `WGOOSE_SUBGROUP=8` in subgroups of another size. No device is needed.

mod device;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use wgoose_kernels::{Variant, ops};
use wgoose_plans::catalogue;
use wgoose_runtime::kernel_bench::sanitize::{Coverage, SanitizeOptions, cases, sanitize, widest_limits};

/// What is said of a variant, and whether it is wrong.
fn judged(op: &str, variant: &Variant, options: &SanitizeOptions, coverage: Coverage) -> (String, bool) {
    let (limits, begun) = (widest_limits(options.subgroup_size), Instant::now());
    let cases = cases(op, variant, &limits, coverage).unwrap();
    let (mut text, mut is_wrong) = (String::new(), false);
    for case in &cases {
        let label = case.label();
        match sanitize(&case.kernel, &case.case, &limits, options) {
            Ok(findings) => findings.into_iter().for_each(|finding| {
                is_wrong |= finding.finding.allowed.is_none();
                text += &format!("\n  {label}\n  {finding}");
            }),
            Err(error) => {
                is_wrong = true;
                text += &format!("\n  {label}\n  {error}");
            }
        }
    }
    let (count, seconds) = (cases.len(), begun.elapsed().as_secs_f64());
    (format!("{op}/{}: {count} kernels in {seconds:.1} s{text}", variant.name()), is_wrong)
}

#[test]
fn every_variant_is_clean() {
    let catalogue = catalogue::embedded();
    let asked = std::env::var("WGOOSE_KERNEL").unwrap_or_default();
    let subgroup_size = std::env::var("WGOOSE_SUBGROUP").map_or(32, |size| size.parse().unwrap());
    let coverage = match std::env::var_os("WGOOSE_CHOICES") {
        Some(_) => Coverage::Choices,
        None => Coverage::Default,
    };
    let options = SanitizeOptions { subgroup_size, ..SanitizeOptions::default() };
    let all = ops::ALL.iter().flat_map(|op| catalogue.variants(op.name).iter().map(|variant| (op.name, variant)));
    let is_asked =
        |op: &str, variant: &Variant| asked.is_empty() || asked == op || asked == format!("{op}/{}", variant.name());
    let found: Vec<(&str, &Variant)> = all.filter(|(op, variant)| is_asked(op, variant)).collect();
    assert!(!found.is_empty(), "there is no kernel {asked}");
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some((op, variant)) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (text, is_wrong) = judged(op, variant, &options, coverage);
            println!("{text}");
            if is_wrong {
                wrong.lock().unwrap().push(text);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
