//! Arguments of `wgoose dev kernel`.

use crate::failure::Failure;
use crate::options::{CacheOptions, KernelOptions};
use std::path::PathBuf;
use std::str::FromStr;
use wgoose_graph::Format;
use wgoose_kernels::{Catalogue, NoSuchVariant, Variant};

/// Test a kernel, then time it against its siblings. Without an op, list all ops and variants.
///
/// Each named variant runs under the sanitizer, and is checked against the op's CPU reference: at every number of rows
/// up to two of its largest tiles, at every choice of its tunables and at random cases. A failing case is shrunk and
/// saved as a file, which --case runs again. Then all variants of the op are timed at the op's instances in a model,
/// even where the default plan fuses the op away. Each variant gets the same time to vary its tunables. The best
/// configurations are compared in interleaved pairs: VARIANT with its siblings, or all variants with the op's first
/// default. Verdicts at 95 % confidence: FAST or SLOW by at least 2 %, SAME within 2 %, AMBIGUOUS if the samples do not
/// decide.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An op, or one of its variants: OP or OP/VARIANT.
    pub(super) target: Option<Target>,
    /// Model whose op instances are timed: a file, or a published size such as 0.1B.
    #[arg(long, default_value = "0.1B")]
    pub(super) model: PathBuf,
    /// Matrix format of a model given by size.
    #[arg(long, default_value = "F16")]
    pub(super) format: Format,
    /// Tokens in the timed passes, of one sequence; 0 skips timing.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,64")]
    pub(super) tokens: Vec<u32>,
    /// Also time decode steps at these batch sizes.
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) sequences: Vec<u32>,
    /// Random test cases for each variant.
    #[arg(long, default_value_t = 20)]
    pub(super) cases: u32,
    /// Seed of all random numbers. Default: another one each time, which is printed.
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Time for varying tunables at each op instance, in seconds; every variant gets the same share.
    #[arg(long, default_value_t = 10)]
    pub(super) budget: u64,
    /// Also time legal configurations that speed heuristics exclude.
    #[arg(long)]
    pub(super) exhaustive: bool,
    /// Run only the saved case in this file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "watch"])]
    pub(super) case: Option<PathBuf>,
    /// Run again whenever a file in the --kernels folder changes.
    #[arg(long, requires_all = ["folder", "target"])]
    pub(super) watch: bool,
    /// Run on the CPU under the sanitizer instead of testing and timing, at every choice of every tunable, forwards and
    /// backwards: races, indices out of bounds, unwritten reads, divergence, results that depend on the order. Needs no
    /// device. A finding that no comment in the kernel allows is an error.
    #[arg(long, requires = "target", conflicts_with_all = ["case", "seen"])]
    pub(super) sanitize: bool,
    /// Subgroup size under the sanitizer: 4, 8, 16, 32 or 64.
    #[arg(long, value_name = "N", default_value_t = 32, requires = "sanitize", value_parser = subgroup_size)]
    pub(super) subgroup_size: u32,
    /// Print what somebody needs to write another kernel of the op: formula, operands, sizes, tolerance, the time at
    /// the memory roofline, the best kernel known on this device, the rules of a file.
    #[arg(long, requires = "target", conflicts_with_all = ["case", "seen", "watch", "sanitize"])]
    pub(super) card: bool,
    /// Print JSON, an object a line, and exit with the code of the verdict: 0 FASTER, 10 SAME, 11 UNSURE, 12 SLOWER, 20
    /// REFUSED, 21 WRONG, 22 RACE, 23 IMPOSSIBLE, 24 CRASHED, 25 TIMEOUT.
    #[arg(long, requires = "target", conflicts_with_all = ["case", "seen", "watch", "sanitize"])]
    pub(super) json: bool,
    /// Write what was seen into each timed file of the --kernels folder, as a line `// seen:`: the variant's share of
    /// the
    /// memory roofline at the op instance that moves most bytes, with the fewest of --tokens. Needs the roofline that
    /// `wgoose dev roofline` measured.
    #[arg(long, requires_all = ["folder", "target"], conflicts_with = "watch")]
    pub(super) seen: bool,
    /// GPU adapter: an index, PCI address, UUID or name from `wgoose devices`, or an unambiguous part of a name.
    #[arg(long)]
    pub(super) device: Option<String>,
    #[command(flatten)]
    pub(super) kernels: KernelOptions,
    #[command(flatten)]
    pub(super) cache: CacheOptions,
}

fn subgroup_size(text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| [4, 8, 16, 32, 64].contains(size));
    size.ok_or_else(|| "a subgroup has 4, 8, 16, 32 or 64 threads".to_owned())
}

/// An op, and one of its variants if only that is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) op: String,
    pub(super) variant: Option<String>,
}

impl Args {
    /// Whether kernels are tested only.
    pub(super) fn times_nothing(&self) -> bool {
        self.sequences.is_empty() && self.tokens.iter().all(|tokens| *tokens == 0)
    }
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
