//! Why a path names no complete model.

use crate::error::LoadError;
use crate::names::Container;
use std::path::PathBuf;

/// Why a folder, an index or a shard names no complete model.
#[derive(Debug, thiserror::Error)]
pub enum ShardError {
    /// A folder without a model file.
    #[error(
        "no model in this folder: expected a file that ends in .gguf, .safetensors, .st, .pth or .bin, or an index"
    )]
    NoModel,
    /// A folder with more than one.
    #[error("{} models in this folder, name one: {}", models.len(), listed(models))]
    SeveralModels {
        /// Their files.
        models: Vec<String>,
    },
    /// Shards are not there.
    #[error("{} of {of} shards missing: {} (download them to the same folder)", missing.len(), listed(missing))]
    Missing {
        /// Their file names.
        missing: Vec<String>,
        /// How many shards the model has.
        of: usize,
    },
    /// A JSON file of another kind.
    #[error("JSON without a 'weight_map', which an index of shards has: name the model's file, or its folder")]
    NoIndex,
    /// An index without tensors.
    #[error("the 'weight_map' of the index lists no tensor: download it again")]
    EmptyIndex,
    /// An index that is no JSON, or has values of other kinds.
    #[error("index of shards: {0} (download it again)")]
    Json(#[from] serde_json::Error),
    /// An index that names files elsewhere.
    #[error("the index calls a shard '{shard}': expected the name of a file in its folder")]
    NoFileName {
        /// The name.
        shard: String,
    },
    /// The index beside a shard is wrong.
    #[error("{0}")]
    Index(Box<LoadError>),
    /// A shard that the index beside it does not list.
    #[error("'{}' does not list this file: it is a shard of another model", index.display())]
    NotListed {
        /// The index.
        index: PathBuf,
    },
    /// Shards of different kinds.
    #[error("'{shard}' is {found}, the shards before it are {others}: they are not of one model")]
    MixedContainers {
        /// The shard.
        shard: String,
        /// What it is.
        found: Container,
        /// What the shards before it are.
        others: Container,
    },
    /// Two shards have a tensor of one name.
    #[error("tensor '{tensor}' is both in '{first}' and in '{second}': the shards are not of one model")]
    TwoShards {
        /// The tensor.
        tensor: String,
        /// A shard that has it.
        first: String,
        /// Another one.
        second: String,
    },
    /// A shard lacks a tensor.
    #[error("the index says that tensor '{tensor}' is in '{shard}', which lacks it: the shards are not of one model")]
    LacksTensor {
        /// The tensor.
        tensor: String,
        /// Where the index says it is.
        shard: String,
    },
    /// A part of a split GGUF file with another name.
    #[error(
        "part {number} of {count} of a split GGUF file, whose name does not say so: rename the parts to \
        NAME-{number:05}-of-{count:05}.gguf and so on"
    )]
    SplitName {
        /// Its number, from 1 on.
        number: u64,
        /// How many parts there are.
        count: u64,
    },
    /// A numbered GGUF file says that it has another number, or that there are other parts.
    #[error(
        "'{shard}' says that it is part {number} of {count}, its name says otherwise: the parts are not of one model"
    )]
    SplitNumber {
        /// The file.
        shard: String,
        /// The number that it has by its keys, from 1 on.
        number: u64,
        /// How many parts there are by its keys.
        count: u64,
    },
    /// A numbered GGUF file that is no part.
    #[error("'{shard}' has no key 'split.count': it is no part of a split GGUF file, as its name says")]
    NotSplit {
        /// The file.
        shard: String,
    },
    /// The parts of a split GGUF file do not have the number of tensors that it had.
    #[error("key 'split.tensors.count' says {declared}, the parts have {found} tensors: they are not of one model")]
    SplitTensors {
        /// What the first part says.
        declared: u64,
        /// How many there are.
        found: usize,
    },
}

/// Names that are printed.
const NAMED: usize = 4;

/// The first of some names.
fn listed(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().take(NAMED).map(|name| format!("'{name}'")).collect();
    match names.len() > NAMED {
        true => format!("{}, ...", quoted.join(", ")),
        false => quoted.join(", "),
    }
}
