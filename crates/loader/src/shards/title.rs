//! The title of a model, from the path of its file.

use super::file_name;
use super::folder::WHOLE;
use super::name::ShardName;
use std::path::Path;

/// The name of its first file without number and ending. Hugging Face's libraries give every model the same name: there
/// it is the name of the folder, and in a cache that of the repository.
pub(crate) fn title(first: &Path) -> String {
    let (whole, stem) = match ShardName::of(first) {
        Some(shard) => (shard.whole(), shard.stem().to_owned()),
        None => (file_name(first), first.file_stem().unwrap_or_default().to_string_lossy().into_owned()),
    };
    if !WHOLE.contains(&whole.as_str()) {
        return stem;
    }
    let absolute = std::path::absolute(first).unwrap_or_else(|_| first.to_owned());
    let Some(folder) = absolute.parent() else { return stem };
    match folder.parent() {
        Some(snapshots) if snapshots.ends_with("snapshots") => {
            let repository = file_name(snapshots.parent().unwrap_or(folder));
            repository.rsplit("--").next().unwrap_or(&repository).to_owned()
        }
        _ => file_name(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_called_by_their_file_or_by_their_folder() {
        for (path, is) in [
            ("a/rwkv7-g1-1.5b.pth", "rwkv7-g1-1.5b"),
            ("model.gguf", "model"),
            ("a/goose-1.5b-F16-00001-of-00003.gguf", "goose-1.5b-F16"),
            ("a/RWKV7-G1-1.5B/model.safetensors", "RWKV7-G1-1.5B"),
            ("a/RWKV7-G1-1.5B/model-00001-of-00003.safetensors", "RWKV7-G1-1.5B"),
            ("models--owner--RWKV7-G1/snapshots/01ab/pytorch_model.bin", "RWKV7-G1"),
        ] {
            assert_eq!(title(Path::new(path)), is, "{path}");
        }
    }
}
