//! `wgoose kernel`

use crate::Failure;
use crate::kernel::{Target, run_once, watch};
use crate::options::{CacheOptions, KernelOptions};
use std::path::PathBuf;
use wgoose_graph::Format;

/// Is a kernel right, and how fast beside its siblings? Without an op, list what there is.
///
/// Every variant named runs at each choice of its tunables and at random cases, held against the op's reference. A case that
/// fails is shrunk and saved as a file, which --case runs again. Then all variants of the op are timed at its instances in a
/// model, also where the default plan fuses the op away.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An op, or one of its variants: OP or OP/VARIANT.
    target: Option<Target>,
    /// Time at the op's instances in this model: a file, or a size such as 0.1B.
    #[arg(long, default_value = "0.1B")]
    pub(crate) model: PathBuf,
    /// Format of the matrices of a model that is only a size.
    #[arg(long, default_value = "F16")]
    pub(crate) format: Format,
    /// Time passes of so many tokens of one sequence; 0 times nothing.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_value = "1,64")]
    pub(crate) tokens: Vec<u32>,
    /// Random cases of each variant.
    #[arg(long, default_value_t = 20)]
    pub(crate) cases: u32,
    /// What they are drawn with: the same seed, the same cases.
    #[arg(long, default_value_t = 7)]
    pub(crate) seed: u64,
    /// Seconds to spend on varying the tunables of VARIANT while it is timed.
    #[arg(long, default_value_t = 10)]
    pub(crate) budget: u64,
    /// Also time configurations that the kernel's file prunes.
    #[arg(long)]
    pub(crate) exhaustive: bool,
    /// Run only the case in this file, saved when it failed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "watch"])]
    pub(crate) case: Option<PathBuf>,
    /// Run again whenever a file of the folder of kernels changes.
    #[arg(long, requires_all = ["folder", "target"])]
    watch: bool,
    /// Adapter: an index of `wgoose devices`, or a part of its name.
    #[arg(long)]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) kernels: KernelOptions,
    #[command(flatten)]
    pub(crate) cache: CacheOptions,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    match args.watch {
        true => watch(args, args.target.as_ref()),
        false => run_once(args, args.target.as_ref(), &args.kernels),
    }
}
