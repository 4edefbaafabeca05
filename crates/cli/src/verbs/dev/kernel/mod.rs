//! `wgoose dev kernel`: lists variants, tests them, times them or runs them under the sanitizer, and does so again
//! when a file changes.

mod args;
mod list;
mod sanitize;
mod seen;
mod test;
mod timing;
mod watch;

pub(crate) use args::Args;

use crate::failure::Failure;
use crate::options::KernelOptions;
use wgoose_runtime::DeviceOptions;
use wgoose_runtime::kernel_bench::open_measured;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if !args.watch {
        return once(args, &args.kernels);
    }
    let folder = args.kernels.folder().ok_or("--watch needs --kernels")?;
    watch::watch(folder, || once(args, &args.kernels.anew()))
}

/// Lists, sanitizes, runs a saved case, or tests and times.
fn once(args: &Args, kernels: &KernelOptions) -> Result<(), Failure> {
    let catalogue = kernels.catalogue()?;
    if args.target.is_none() && args.case.is_none() {
        return list::list(&catalogue);
    }
    if let Some(target) = args.target.as_ref().filter(|_| args.sanitize) {
        return sanitize::all(args, target, &target.variants(&catalogue)?);
    }
    let (adapter, cache) = (args.device.clone(), args.cache.folder());
    let device = open_measured(&DeviceOptions { adapter, cache, ..DeviceOptions::default() })?;
    if let Some(file) = &args.case {
        return test::again(&device, &catalogue, file);
    }
    let Some(target) = &args.target else { return Ok(()) };
    let variants = target.variants(&catalogue)?;
    test::all(args, &device, target, &variants)?;
    timing::time(args, &device, &catalogue, target)
}
