//! Names of numbered shards: `STEM-00002-of-00005.ENDING`, as Hugging Face and llama.cpp write them.

use std::path::{Path, PathBuf};

/// Digits of a number in a name.
const DIGITS: usize = 5;

/// A numbered shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShardName {
    folder: PathBuf,
    stem: String,
    /// From 1 on.
    pub(super) number: u32,
    /// How many shards there are.
    pub(super) count: u32,
    ending: String,
}

impl ShardName {
    /// By the name of a file; `None` if it is another name.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let (rest, ending) = path.file_name()?.to_str()?.rsplit_once('.')?;
        let (rest, count) = rest.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)?, digits(count)?);
        (1..=count).contains(&number).then(|| ShardName {
            folder: path.parent().unwrap_or(Path::new("")).to_owned(),
            stem: stem.to_owned(),
            number,
            count,
            ending: ending.to_owned(),
        })
    }

    /// The shard of that number.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        let ShardName { folder, stem, count, ending, .. } = self;
        folder.join(format!("{stem}-{number:0DIGITS$}-of-{count:0DIGITS$}.{ending}"))
    }

    /// The name without number and ending.
    pub(super) fn stem(&self) -> &str {
        &self.stem
    }

    /// The file that would have all of them.
    pub(super) fn whole(&self) -> String {
        format!("{}.{}", self.stem, self.ending)
    }

    /// The index that would list them.
    pub(super) fn index(&self) -> PathBuf {
        self.folder.join(format!("{}{}", self.whole(), super::index::ENDING))
    }
}

fn digits(text: &str) -> Option<u32> {
    let plain = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_names_are_told_from_others() {
        let name = ShardName::of(Path::new("a.b/model-of-a-goose-00002-of-00003.safetensors")).unwrap();
        assert_eq!((name.number, name.count, name.whole().as_str()), (2, 3, "model-of-a-goose.safetensors"));
        assert_eq!(name.path(3), Path::new("a.b/model-of-a-goose-00003-of-00003.safetensors"));
        assert_eq!(name.index(), Path::new("a.b/model-of-a-goose.safetensors.index.json"));
        for other in
            ["a.gguf", "a-00000-of-00002.gguf", "a-00003-of-00002.gguf", "a-1-of-2.gguf", "a-00001-of-+0002.st"]
        {
            assert_eq!(ShardName::of(Path::new(other)), None, "{other}");
        }
    }
}
