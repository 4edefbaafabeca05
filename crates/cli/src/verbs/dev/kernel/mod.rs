//! `wgoose dev kernel`: lists variants, tests them, times them or runs them under the sanitizer, and does so again
//! when a file changes.

mod args;
mod card;
mod judged;
mod list;
mod sanitize;
mod seen;
mod sites;
mod test;
mod timing;
mod watch;

pub(crate) use args::Args;

use crate::failure::{Failure, Judged};
use crate::options::KernelOptions;
use judged::Judge;
use std::hash::{BuildHasher, Hasher, RandomState};
use wgoose_measure::judge::Verdict;
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
    let judge = Judge::new(args.json, args.seed.unwrap_or_else(new_seed));
    let catalogue = match kernels.catalogue() {
        Err(error) if args.json => {
            let Some(text) = judged::broken_file(&error) else { return Err(error.into()) };
            judge
                .say(&judge.plain(text.path.trim_start_matches("ops/"), Verdict::Refused, text.why.clone()).at(text))?;
            return Err(Judged { verdict: Verdict::Refused, why: error.to_string() }.into());
        }
        read => read?,
    };
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
    if args.card {
        return card::print(args, &device, &catalogue, target);
    }
    let variants = target.variants(&catalogue)?;
    if test::all(args, (&device, &catalogue), (target, &variants), &judge)? {
        timing::time(args, &device, &catalogue, (target, &judge))?;
    }
    let named = target.variant.as_ref().map(|variant| format!("{}/{variant}", target.op));
    if !args.json {
        outln!("seed {}", judge.seed);
    }
    judge.end(named.as_deref())
}

/// A seed that nobody knows before.
fn new_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}
