//! The one model in a folder.

use super::index::ENDING;
use super::name::ShardName;
use super::{ShardError, ShardSet, indexed, numbered};
use crate::error::LoadError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How the names of model files end.
const ENDINGS: [&str; 6] = ["gguf", "safetensors", "st", "pth", "pt", "bin"];

/// What Hugging Face's trainers write beside a model, as PyTorch writes it: no model.
const TRAINING: [&str; 5] = ["training_args", "optimizer", "scheduler", "scaler", "rng_state"];

/// What Hugging Face's libraries call a model in one file. Of both, they read the first.
pub(super) const WHOLE: [&str; 2] = ["model.safetensors", "pytorch_model.bin"];

/// Where a model may be.
enum Candidate {
    Index(PathBuf),
    Shards(ShardName),
    File(PathBuf),
}

/// The files of the model in a folder, or in the current snapshot of a folder of Hugging Face's cache.
pub(super) fn find(folder: &Path) -> Result<ShardSet, LoadError> {
    let of_folder = |why: ShardError| LoadError::from(why).of_file(folder);
    let names = names(folder).map_err(|source| LoadError::Io { path: folder.to_owned(), source })?;
    let mut candidates = candidates(folder, &names);
    if candidates.len() > 1 && candidates.keys().all(|name| WHOLE.contains(&name.as_str())) {
        candidates.retain(|name, _| name == WHOLE[0]);
    }
    if candidates.len() > 1 {
        return Err(of_folder(ShardError::SeveralModels { models: candidates.into_keys().collect() }));
    }
    match candidates.into_values().next() {
        Some(Candidate::Index(path)) => indexed(&path),
        Some(Candidate::Shards(name)) => numbered(&name).map_err(of_folder),
        Some(Candidate::File(path)) => Ok(ShardSet { has_folder: true, ..ShardSet::one(&path) }),
        None => match snapshot(folder) {
            Some(snapshot) => find(&snapshot),
            None => Err(of_folder(ShardError::NoModel)),
        },
    }
}

/// The names of all files in a folder, also through symbolic links, sorted. Those that are no UTF-8 are left out.
fn names(folder: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().is_file()
        {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Each model by the name that it would have in one file; an index comes before the shards that it lists.
fn candidates(folder: &Path, names: &BTreeSet<String>) -> BTreeMap<String, Candidate> {
    let mut found = BTreeMap::new();
    let indices: BTreeSet<&str> = names.iter().filter_map(|name| name.strip_suffix(ENDING)).collect();
    for whole in &indices {
        found.insert((*whole).to_owned(), Candidate::Index(folder.join(format!("{whole}{ENDING}"))));
    }
    for name in names.iter().filter(|name| is_model(name)) {
        let path = folder.join(name);
        match ShardName::of(&path) {
            Some(shard) if indices.contains(shard.whole().as_str()) => {}
            Some(shard) => {
                let several = format!("{} in {} files", shard.whole(), shard.count);
                found.entry(several).or_insert(Candidate::Shards(shard));
            }
            None => {
                found.entry(name.clone()).or_insert(Candidate::File(path));
            }
        }
    }
    found
}

/// Whether a file may hold a model, by its name.
fn is_model(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let ending = ending.to_ascii_lowercase();
    ENDINGS.contains(&ending.as_str()) && !TRAINING.iter().any(|other| stem.starts_with(other))
}

/// The snapshot that a folder of Hugging Face's cache (`models--OWNER--NAME`) has as `main`, or its only one.
fn snapshot(folder: &Path) -> Option<PathBuf> {
    let snapshots = folder.join("snapshots");
    if let Ok(main) = wgoose_files::read_to_string(&folder.join("refs/main")) {
        let snapshot = snapshots.join(main.trim());
        return (is_plain(main.trim()) && snapshot.is_dir()).then_some(snapshot);
    }
    let mut found = std::fs::read_dir(snapshots).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let only = found.next().filter(|path| path.is_dir())?;
    found.next().is_none().then_some(only)
}

/// Whether a text is the hash of a commit: no path out of the folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}
