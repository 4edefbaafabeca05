//! Which files a path names: one model file, the shards of one, or those in a folder.
//!
//! ```text
//! path --find--> ShardSet: paths in order, what an index says of them
//!                   |
//!                ModelFiles --merge--> Contents of all, as if of one file
//! ```

mod error;
mod folder;
mod index;
mod merge;
mod name;
mod title;

pub use error::ShardError;
pub(crate) use merge::{Merged, merge};
pub(crate) use title::title;

use crate::error::LoadError;
use index::Index;
use name::ShardName;
use std::path::{Path, PathBuf};

/// The files of a model.
#[derive(Debug)]
pub(crate) struct ShardSet {
    /// In the order of their numbers or names; at least one.
    pub(crate) files: Vec<PathBuf>,
    /// What an index says of them.
    index: Option<Index>,
    /// Whether the names are numbered.
    is_numbered: bool,
    /// Whether a `config.json` beside them is the model's: where the folder is, by its files or by what was named.
    pub(crate) has_folder: bool,
}

impl ShardSet {
    /// A model in one file, among others perhaps.
    pub(crate) fn one(path: &Path) -> Self {
        let is_whole = path.file_name().is_some_and(|name| folder::WHOLE.iter().any(|whole| name == *whole));
        ShardSet { files: vec![path.to_owned()], index: None, is_numbered: false, has_folder: is_whole }
    }
}

/// The files of the model that a path names: a folder, an index, a shard or a whole model.
pub(crate) fn find(path: &Path) -> Result<ShardSet, LoadError> {
    if path.is_dir() {
        return folder::find(path);
    }
    if index::is_json(path) {
        return indexed(path);
    }
    match ShardName::of(path) {
        Some(name) => numbered(&name).map_err(|why| LoadError::from(why).of_file(path)),
        None => Ok(ShardSet::one(path)),
    }
}

/// The shards that an index lists.
fn indexed(path: &Path) -> Result<ShardSet, LoadError> {
    let of_index = |why: ShardError| LoadError::from(why).of_file(path);
    let text = wgoose_files::read(path).map_err(|source| LoadError::Io { path: path.to_owned(), source })?;
    let index = Index::parse(&text).map_err(of_index)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let files: Vec<PathBuf> = index.shards().map(|name| folder.join(name)).collect();
    refuse_missing(&files).map_err(of_index)?;
    Ok(ShardSet { files, index: Some(index), is_numbered: false, has_folder: true })
}

/// The shard and those that its name counts, as the index beside them lists them where there is one.
fn numbered(name: &ShardName) -> Result<ShardSet, ShardError> {
    let index = name.index();
    if index.is_file() {
        let set = indexed(&index).map_err(|why| ShardError::Index(Box::new(why)))?;
        return match set.files.contains(&name.path(name.number)) {
            true => Ok(set),
            false => Err(ShardError::NotListed { index }),
        };
    }
    let files: Vec<PathBuf> = (1..=name.count).map(|number| name.path(number)).collect();
    refuse_missing(&files)?;
    Ok(ShardSet { files, index: None, is_numbered: true, has_folder: true })
}

fn refuse_missing(files: &[PathBuf]) -> Result<(), ShardError> {
    let missing: Vec<String> = files.iter().filter(|file| !file.is_file()).map(|file| file_name(file)).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(ShardError::Missing { missing, of: files.len() }),
    }
}

/// The last part of a path, to be printed.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
