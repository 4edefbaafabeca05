//! The embedding cache: rows that were computed before, in memory and, if asked for, on disk.

mod key;
mod lru;
mod store;

pub(crate) use key::Key;
pub use store::StoreError;

use lru::Lru;
use std::path::PathBuf;
use std::sync::Arc;
use store::Store;

/// Where embeddings are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingCacheOptions {
    /// Most bytes in main memory. The least recently used go first.
    pub budget: u64,
    /// A file that keeps all of them, made if it is not there. One process at a time may have it open.
    pub store: Option<PathBuf>,
}

impl Default for EmbeddingCacheOptions {
    /// 64 MiB, no file.
    fn default() -> Self {
        EmbeddingCacheOptions { budget: 64 << 20, store: None }
    }
}

/// What an embedding cache has done, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbeddingCacheStats {
    /// Texts found in memory.
    pub hits: u64,
    /// Texts found on disk.
    pub store_hits: u64,
    /// Texts found nowhere.
    pub misses: u64,
    /// Texts that had to leave memory.
    pub evicted: u64,
    /// Texts in memory.
    pub entries: usize,
    /// Bytes in memory.
    pub bytes: u64,
    /// Stretches of the file that were broken when it was opened, and were skipped.
    pub skipped: u64,
}

/// Embeddings by what they are of.
#[derive(Debug)]
pub(crate) struct EmbeddingCache {
    memory: Lru,
    store: Option<Store>,
    stats: EmbeddingCacheStats,
}

impl EmbeddingCache {
    pub(crate) fn open(options: &EmbeddingCacheOptions) -> Result<Self, StoreError> {
        let store = options.store.as_deref().map(Store::open).transpose()?;
        Ok(EmbeddingCache { memory: Lru::new(options.budget), store, stats: EmbeddingCacheStats::default() })
    }

    pub(crate) fn get(&mut self, key: &Key) -> Option<Vec<f32>> {
        if let Some(value) = self.memory.get(key) {
            self.stats.hits += 1;
            return Some(value.to_vec());
        }
        let Some(value) = self.store.as_mut().and_then(|store| store.get(key)) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.store_hits += 1;
        self.stats.evicted += self.memory.insert(*key, value.clone().into());
        Some(value)
    }

    /// Keeps an embedding; in memory even if the file cannot be written.
    pub(crate) fn insert(&mut self, key: Key, value: &[f32]) -> Result<(), StoreError> {
        self.stats.evicted += self.memory.insert(key, Arc::from(value));
        self.store.as_mut().map_or(Ok(()), |store| store.append(key, value))
    }

    pub(crate) fn stats(&self) -> EmbeddingCacheStats {
        let skipped = self.store.as_ref().map_or(0, Store::skipped);
        EmbeddingCacheStats { entries: self.memory.len(), bytes: self.memory.bytes(), skipped, ..self.stats }
    }
}
