//! What `wgoose kernel` does: lists variants, tests them, times them, and does so again when a file changes.

mod list;
mod test;
mod timing;
mod watch;

pub(crate) use watch::watch;

use crate::Failure;
use crate::options::KernelOptions;
use crate::verbs::kernel::Args;
use std::str::FromStr;
use wgoose_kernels::{Catalogue, Variant, ops};
use wgoose_runtime::DeviceOptions;
use wgoose_runtime::lab::open_measured;

/// An op, and one of its variants if only that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) op: String,
    pub(crate) variant: Option<String>,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (op, variant) = text.split_once('/').map_or((text, None), |(op, variant)| (op, Some(variant)));
        if ops::ALL.iter().all(|known| known.name != op) {
            let known: Vec<&str> = ops::ALL.iter().map(|op| op.name).collect();
            return Err(format!("there is no op '{op}': the ops are {}", known.join(", ")));
        }
        Ok(Target { op: op.to_owned(), variant: variant.map(str::to_owned) })
    }
}

impl Target {
    /// The variants that are meant, of which there is one at least.
    fn variants<'c>(&self, catalogue: &'c Catalogue) -> Result<Vec<&'c Variant>, Failure> {
        let all = catalogue.variants(&self.op);
        let Some(name) = &self.variant else { return Ok(all.iter().collect()) };
        let found: Vec<&Variant> = all.iter().filter(|v| v.name() == *name).collect();
        if found.is_empty() {
            let known: Vec<&str> = all.iter().map(Variant::name).collect();
            let op = &self.op;
            return Err(format!("{op} has no variant '{name}': it has {}", known.join(", ")).into());
        }
        Ok(found)
    }
}

/// Lists, runs a saved case, or tests and times.
pub(crate) fn run_once(args: &Args, target: Option<&Target>, kernels: &KernelOptions) -> Result<(), Failure> {
    let catalogue = kernels.catalogue()?;
    if target.is_none() && args.case.is_none() {
        return list::list(&catalogue);
    }
    let (adapter, cache) = (args.device.clone(), args.cache.folder());
    let device = open_measured(&DeviceOptions { adapter, cache, ..DeviceOptions::default() })?;
    if let Some(file) = &args.case {
        return test::again(&device, &catalogue, file);
    }
    let Some(target) = target else { return Ok(()) };
    let variants = target.variants(&catalogue)?;
    test::all(args, &device, target, &variants)?;
    timing::time(args, &device, &catalogue, target)
}
