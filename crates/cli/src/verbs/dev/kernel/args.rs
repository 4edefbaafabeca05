//! What `wgoose dev kernel` is asked for.

use crate::failure::Failure;
use crate::options::{CacheOptions, KernelOptions};
use std::path::PathBuf;
use std::str::FromStr;
use wgoose_graph::Format;
use wgoose_kernels::{Catalogue, NoSuchVariant, Variant};

/// Is a kernel right, and how fast beside its siblings? Without an op, list what there is.
///
/// Every variant named runs at each choice of its tunables and at random cases, held against the op's reference. A case
/// that fails is shrunk and saved as a file, which --case runs again. Then all variants of the op are timed at its
/// instances in a model, also where the default plan fuses the op away. Each variant has the same time to vary its
/// tunables. The best of each are compared in interleaved pairs: VARIANT with its siblings, or all variants with the
/// op's first default. FAST and SLOW are sure by 95 % and at least 2 %, SAME surely is less, AMBIGUOUS says that the
/// samples do not tell.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An op, or one of its variants: OP or OP/VARIANT.
    pub(super) target: Option<Target>,
    /// Time at the op's instances in this model: a file, or a size such as 0.1B.
    #[arg(long, default_value = "0.1B")]
    pub(super) model: PathBuf,
    /// Format of the matrices of a model that is only a size.
    #[arg(long, default_value = "F16")]
    pub(super) format: Format,
    /// Time passes of so many tokens of one sequence; 0 times nothing.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,64")]
    pub(super) tokens: Vec<u32>,
    /// Random cases of each variant.
    #[arg(long, default_value_t = 20)]
    pub(super) cases: u32,
    /// What they are drawn with: the same seed, the same cases.
    #[arg(long, default_value_t = 7)]
    pub(super) seed: u64,
    /// Seconds to spend at each instance on varying tunables: all variants have the same share.
    #[arg(long, default_value_t = 10)]
    pub(super) budget: u64,
    /// Also time configurations that the kernel's file prunes.
    #[arg(long)]
    pub(super) exhaustive: bool,
    /// Run only the case in this file, saved when it failed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "watch"])]
    pub(super) case: Option<PathBuf>,
    /// Run again whenever a file of the folder of kernels changes.
    #[arg(long, requires_all = ["folder", "target"])]
    pub(super) watch: bool,
    /// Adapter: an index, PCI address, UUID or name as `wgoose devices` prints them, or an unambiguous part of the
    /// name.
    #[arg(long)]
    pub(super) device: Option<String>,
    #[command(flatten)]
    pub(super) kernels: KernelOptions,
    #[command(flatten)]
    pub(super) cache: CacheOptions,
}

/// An op, and one of its variants if only that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) op: String,
    pub(super) variant: Option<String>,
}

impl FromStr for Target {
    type Err = NoSuchVariant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (op, variant) = text.split_once('/').map_or((text, None), |(op, variant)| (op, Some(variant)));
        let op = NoSuchVariant::unless_op(op)?;
        Ok(Target { op: op.to_owned(), variant: variant.map(str::to_owned) })
    }
}

impl Target {
    /// The variants that are meant, of which there is one at least.
    pub(super) fn variants<'c>(&self, catalogue: &'c Catalogue) -> Result<Vec<&'c Variant>, Failure> {
        let all = catalogue.variants(&self.op);
        let Some(name) = &self.variant else { return Ok(all.iter().collect()) };
        Ok(vec![catalogue.named(&self.op, name)?])
    }
}
