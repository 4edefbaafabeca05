//! Does it race, read past a bound or read what nobody wrote?

use super::args::{Args, Target};
use crate::failure::Failure;
use std::time::Instant;
use wgoose_kernels::Variant;
use wgoose_runtime::kernel_bench::sanitize::{
    Coverage, KernelFinding, SanitizeOptions, cases, sanitize, widest_limits,
};

/// The file and the line of the first access.
pub(super) fn place(found: &KernelFinding) -> (Option<String>, Option<usize>) {
    match found.first.rsplit_once(':') {
        Some((file, line)) => (Some(file.to_owned()), line.parse().ok()),
        None => (None, None),
    }
}

/// Runs variants under the sanitizer, at every choice of every tunable; an error if it finds anything.
pub(super) fn all(args: &Args, target: &Target, variants: &[&Variant]) -> Result<(), Failure> {
    let options = SanitizeOptions { subgroup_size: args.subgroup_size, ..SanitizeOptions::default() };
    let limits = widest_limits(options.subgroup_size);
    let mut wrong = Vec::new();
    for variant in variants {
        let id = format!("{}/{}", target.op, variant.name());
        outln!("{id}: {}", variant.idea());
        let (begun, mut faults) = (Instant::now(), 0);
        let cases = cases(&target.op, variant, &limits, Coverage::Choices)?;
        for case in &cases {
            for found in sanitize(&case.kernel, &case.case, &limits, &options)? {
                faults += usize::from(found.finding.allowed.is_none());
                outln!("  {}\n  {found}", case.label());
            }
        }
        let (count, seconds) = (cases.len(), begun.elapsed().as_secs_f64());
        match (count, faults) {
            (0, _) => outln!("  not run: no kernel of it can be made for subgroups of {}", options.subgroup_size),
            (_, 0) => outln!("  clean: {count} kernels ({seconds:.1} s)"),
            _ => {
                outln!("  WRONG: {faults} findings in {count} kernels ({seconds:.1} s)");
                wrong.push(id);
            }
        }
        if count == 0 && target.variant.is_some() {
            return Err(format!("{}/{} was not run", target.op, variant.name()).into());
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("the sanitizer found faults: {}", wrong.join(", ")).into()),
    }
}
