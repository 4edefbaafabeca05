//! The index of a sharded model: `{"metadata": {...}, "weight_map": {"TENSOR": "SHARD", ...}}`.

use super::ShardError;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::{Component, Path};

/// How the name of an index ends, behind that of the file it stands for.
pub(super) const ENDING: &str = ".index.json";

/// The tensors of each shard, by its name.
#[derive(Debug)]
pub(super) struct Index(BTreeMap<String, Vec<String>>);

/// The part of the file that is read.
#[derive(serde::Deserialize)]
struct Text {
    weight_map: Option<HashMap<String, String>>,
}

/// Whether a file is JSON by its first bytes. A safetensors file may begin with `{`, but its length ends with zeros.
pub(super) fn is_json(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = wgoose_files::open(path).and_then(|file| file.take(8).read_to_end(&mut start));
    read.is_ok() && start.trim_ascii_start().starts_with(b"{") && !start.ends_with(&[0; 4])
}

impl Index {
    /// Reads the text of an index. Names of shards are plain names of files.
    pub(super) fn parse(text: &[u8]) -> Result<Self, ShardError> {
        let Text { weight_map } = serde_json::from_slice(text)?;
        let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (tensor, shard) in weight_map.ok_or(ShardError::NoIndex)? {
            shards.entry(shard).or_default().push(tensor);
        }
        match shards.keys().find(|shard| !is_file_name(shard)) {
            _ if shards.is_empty() => Err(ShardError::EmptyIndex),
            Some(shard) => Err(ShardError::NoFileName { shard: shard.clone() }),
            None => Ok(Index(shards)),
        }
    }

    /// The names of all shards, sorted.
    pub(super) fn shards(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The tensors that a shard has, in no particular order.
    pub(super) fn tensors_of(&self, shard: &str) -> &[String] {
        self.0.get(shard).map_or(&[], Vec::as_slice)
    }
}

/// Whether a name leads to no other folder.
fn is_file_name(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(only)), None) if only == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_outside_the_folder_of_its_index_is_refused() {
        for name in ["../a.st", "/a.st", "a/b.st", "..", ".", "", "a.st/"] {
            let text = serde_json::json!({ "weight_map": { "emb.weight": name } }).to_string();
            let error = Index::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(&error, ShardError::NoFileName { shard } if shard == name), "{error}");
        }
    }
}
