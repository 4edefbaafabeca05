//! The shards of a model, merged as one file would be.

use super::{ShardError, ShardSet, file_name};
use crate::contents::{Contents, Part};
use crate::error::LoadError;
use crate::files::{ModelFiles, PlacedFile};
use crate::model;
use crate::names::Container;
use std::ops::Range;

/// What the files of a model hold together.
pub(crate) struct Merged {
    pub(crate) container: Container,
    /// The tensors of all files by their places; everything else as the first file says it.
    pub(crate) contents: Contents,
    /// The places of the bytes that describe tensors, for each file.
    pub(crate) headers: Vec<Range<usize>>,
}

/// Reads all files but their tensors.
pub(crate) fn merge(files: &ModelFiles, set: &ShardSet) -> Result<Merged, LoadError> {
    let mut merged: Option<Merged> = None;
    for (number, placed) in files.iter().enumerate() {
        let of_file = |why: LoadError| why.of_file(placed.file.path());
        let (container, contents) = model::contents(placed.file.bytes()).map_err(of_file)?;
        if let Some(others) = merged.as_ref().map(|merged| merged.container).filter(|others| *others != container) {
            let shard = file_name(placed.file.path());
            return Err(ShardError::MixedContainers { shard, found: container, others }.into());
        }
        if container == Container::Gguf {
            check_part(contents.part, number, placed, set).map_err(|why| of_file(why.into()))?;
        }
        check_index(&contents, placed, set)?;
        let header = contents.header.start + placed.base..contents.header.end + placed.base;
        match &mut merged {
            None => merged = Some(Merged { container, contents, headers: vec![header] }),
            Some(merged) => {
                merged.headers.push(header);
                append(merged, contents, placed, files)?;
            }
        }
    }
    let merged = merged.ok_or(ShardError::NoModel)?;
    if let Some(Part { tensors: Some(declared), .. }) = merged.contents.part {
        let found = merged.contents.directory.names().count();
        if declared != found as u64 {
            return Err(ShardError::SplitTensors { declared, found }.into());
        }
    }
    Ok(merged)
}

/// Adds the tensors of a further shard.
fn append(merged: &mut Merged, next: Contents, placed: &PlacedFile, files: &ModelFiles) -> Result<(), ShardError> {
    let directory = &mut merged.contents.directory;
    let twice = next.directory.names().find_map(|name| Some((name, directory.get(name)?)));
    if let Some((tensor, other)) = twice {
        return Err(ShardError::TwoShards {
            tensor: tensor.to_owned(),
            first: file_name(files.locate(other.bytes.start).0.path()),
            second: file_name(placed.file.path()),
        });
    }
    directory.append(next.directory, placed.base);
    Ok(())
}

/// Whether a shard has the tensors that the index says it has.
fn check_index(contents: &Contents, placed: &PlacedFile, set: &ShardSet) -> Result<(), ShardError> {
    let Some(index) = &set.index else { return Ok(()) };
    let shard = file_name(placed.file.path());
    match index.tensors_of(&shard).iter().find(|tensor| contents.directory.get(tensor).is_none()) {
        None => Ok(()),
        Some(tensor) => Err(ShardError::LacksTensor { tensor: tensor.clone(), shard }),
    }
}

/// Whether a GGUF file is the part that its name says: the one of that number, from 0 on.
fn check_part(part: Option<Part>, number: usize, placed: &PlacedFile, set: &ShardSet) -> Result<(), ShardError> {
    let shard = || file_name(placed.file.path());
    let count = set.files.len();
    match part {
        None if set.is_numbered && count > 1 => Err(ShardError::NotSplit { shard: shard() }),
        None => Ok(()),
        Some(part) if !set.is_numbered => {
            Err(ShardError::SplitName { number: part.number.saturating_add(1), count: part.count })
        }
        Some(part) if (part.number, part.count) != (number as u64, count as u64) => {
            Err(ShardError::SplitNumber { shard: shard(), number: part.number.saturating_add(1), count: part.count })
        }
        Some(_) => Ok(()),
    }
}
