//! Options of cold starts.

use crate::options::place;
use std::path::PathBuf;

/// What else `bench` can be asked for. Where these conflict with `cold`, clap waives that `cold` is required.
const OTHERS: [&str; 4] = ["title", "workload", "packed", "decode"];

/// Options that `bench` takes with `--cold` only.
#[derive(clap::Args)]
pub(crate) struct ColdOptions {
    /// Measure cold starts: time to first token of fresh processes, with and without cached pipelines.
    #[arg(long, conflicts_with_all = ["title", "change", "save", "cache", "prefill_tokens", "decode_tokens", "sequences"])]
    pub(crate) cold: bool,
    /// With --cold: also measure starts with nothing of the model file in the page cache.
    #[arg(long, requires = "cold", conflicts_with_all = OTHERS)]
    pub(super) drop_page_cache: bool,
    /// With --cold: write a timeline of one more start, with warm caches, to this file, for ui.perfetto.dev.
    #[arg(long, requires = "cold", conflicts_with_all = OTHERS, value_name = "FILE", value_parser = place())]
    pub(super) timeline: Option<PathBuf>,
}
