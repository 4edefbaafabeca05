//! The prefixes that a session keeps.

use super::{Beginning, History, PrefixCache, PrefixOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// A prefix cache, and where its session stands.
#[derive(Clone)]
pub(crate) struct Prefixes {
    /// Shared with forks.
    pub(crate) cache: Arc<Mutex<PrefixCache>>,
    pub(crate) history: History,
    pub(crate) every: Option<usize>,
}

impl Prefixes {
    pub(crate) fn new(options: &PrefixOptions) -> Self {
        let cache = Arc::new(Mutex::new(PrefixCache::new(options.budget)));
        Prefixes { cache, history: History::since(Beginning::ZERO), every: options.every.map(usize::from) }
    }
}
