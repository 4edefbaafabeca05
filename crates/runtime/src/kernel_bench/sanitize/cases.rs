//! Which kernels of a variant run: for one token and for several the smallest instance, of its default configuration or
//! of configurations until each choice of each tunable was there, plain and with what can be packed.

use crate::kernel_bench::property::{packable, where_all_suits};
use crate::kernel_bench::{Case, Numbers};
use std::collections::{BTreeSet, HashSet};
use wgoose_graph::Format;
use wgoose_kernels::{Config, Feature, Instance, Kernel, KernelError, Limits, Packed, TextError, Variant};

/// Formats that are tried first; others where a kernel takes none of these.
const FIRST_FORMATS: [&str; 3] = ["F16", "Q4_K", "Q8_0"];

/// Seed of the operands.
const SEED: u64 = 1;

/// How much of a variant is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// The configuration nearest to the default.
    Default,
    /// Configurations until each choice of each tunable was there.
    Choices,
}

/// A kernel and its operands.
pub struct SanitizedCase {
    /// The kernel, which has the variant and its configuration as its label.
    pub kernel: Kernel,
    /// Its operands.
    pub case: Case,
}

impl SanitizedCase {
    /// Kernel and sizes, for people.
    pub fn label(&self) -> String {
        let Instance { rows, k, m, packed, .. } = &self.case.instance;
        let format = self.case.instance.inputs.iter().find_map(|input| input.format);
        let format = format.map_or(String::new(), |format| format!(" {}", format.name()));
        let packed = if *packed == Packed::default() { "" } else { " packed" };
        format!("{} at {rows} rows, k {k}, m {m}{format}{packed}", self.kernel.label)
    }
}

/// Limits and features with which every kernel is made, for subgroups of a size.
pub fn widest_limits(subgroup_size: u32) -> Limits {
    let mut limits = Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_buffers: 32,
        min_subgroup: subgroup_size,
        ..Limits::webgpu()
    };
    limits.features.extend(Feature::ALL);
    if subgroup_size != 32 {
        limits.features.remove(&Feature::CooperativeMatrix);
    }
    limits
}

/// The kernels of a variant of an op that are run, with their operands.
///
/// # Errors
/// A kernel file that is wrong. Where no configuration can be made there are no cases.
pub fn cases(
    op: &str,
    variant: &Variant,
    limits: &Limits,
    coverage: Coverage,
) -> Result<Vec<SanitizedCase>, TextError> {
    let mut places: Vec<(usize, Instance)> =
        where_all_suits(op).into_iter().map(|place| (preference(place.format()), place.into_instance())).collect();
    places.sort_by_key(|(preference, i)| (*preference, u64::from(i.m) * u64::from(i.k)));
    let (mut all, mut made) = (Vec::new(), HashSet::new());
    let (mut covered, mut left) = (BTreeSet::new(), variant.configs());
    while !left.is_empty() && (all.is_empty() || coverage == Coverage::Choices) {
        let choices = |config: &Config| config.choices().iter().copied().enumerate().collect::<Vec<_>>();
        let fresh = |config: &Config| choices(config).iter().filter(|choice| !covered.contains(*choice)).count();
        // The nearest to the default first; then the one with most choices that were not there, of equals the nearest.
        let next = match all.is_empty() {
            true => 0,
            false => (0..left.len()).rev().max_by_key(|i| fresh(&left[*i])).unwrap_or_default(),
        };
        let config = left.remove(next);
        if !all.is_empty() && fresh(&config) == 0 {
            break;
        }
        for several in [false, true] {
            let suited = places.iter().filter(|(_, instance)| (instance.rows > 1) == several);
            let Some(kernels) = first_kernel(variant, suited.map(|(_, i)| i), &config, limits)? else { continue };
            covered.extend(choices(&config));
            for (kernel, instance) in kernels {
                if made.insert((kernel.hash, format!("{instance:?}"))) {
                    all.push(SanitizedCase { kernel, case: Case::random(&instance, Numbers::Even, SEED) });
                }
            }
        }
    }
    Ok(all)
}

fn preference(format: Format) -> usize {
    FIRST_FORMATS.iter().position(|first| *first == format.name()).unwrap_or(FIRST_FORMATS.len())
}

/// The kernel of a configuration at the first instance that it takes, and its form for packed values if it has one.
fn first_kernel<'i>(
    variant: &Variant,
    instances: impl Iterator<Item = &'i Instance>,
    config: &Config,
    limits: &Limits,
) -> Result<Option<Vec<(Kernel, Instance)>>, TextError> {
    for instance in instances {
        let Some(kernel) = legal(variant, instance, config, limits)? else { continue };
        let mut kernels = vec![(kernel, instance.clone())];
        let packed = packable(variant, instance, config, limits);
        if packed != Packed::default() {
            let instance = Instance { packed, ..instance.clone() };
            kernels.extend(legal(variant, &instance, config, limits)?.map(|kernel| (kernel, instance)));
        }
        return Ok(Some(kernels));
    }
    Ok(None)
}

/// The kernel of a configuration at an instance, if it is legal there.
fn legal(
    variant: &Variant,
    instance: &Instance,
    config: &Config,
    limits: &Limits,
) -> Result<Option<Kernel>, TextError> {
    match Kernel::new(variant, instance, config, limits) {
        Ok(kernel) => Ok(Some(kernel)),
        Err(KernelError::Refused(_)) => Ok(None),
        Err(KernelError::Text(error)) => Err(error),
    }
}
