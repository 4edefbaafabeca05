//! The zip archive that torch.save writes: entries are stored, not compressed, so each is a piece of the file.

use super::ArchiveError;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder};
use std::collections::HashMap;
use std::ops::Range;

/// The end of an archive may be followed by a comment of 64 KiB; searching further back would read tensors.
const MAX_TAIL: u64 = (1 << 16) + 22;

/// The program that describes the tensors; its folder is the root of all entries.
const PROGRAM: &str = "data.pkl";

/// The entries of the folder that holds `data.pkl`.
pub(super) struct Archive<'a> {
    zip: rawzip::ZipSliceArchive<&'a [u8]>,
    /// The folder, with its slash.
    root: String,
    entries: HashMap<String, Entry>,
}

struct Entry {
    place: ZipArchiveEntryWayfinder,
    stored: bool,
}

impl<'a> Archive<'a> {
    /// Reads the central directory.
    pub(super) fn read(file: &'a [u8]) -> Result<Self, ArchiveError> {
        let zip = ZipArchive::with_max_search_space(MAX_TAIL).locate_in_slice(file).map_err(|(_, error)| error)?;
        let root = match root(&zip)? {
            Some(root) => root,
            None => {
                return Err(
                    packed(&zip)?.map_or_else(|| ArchiveError::Missing(PROGRAM.to_owned()), ArchiveError::Packed)
                );
            }
        };
        let mut entries = HashMap::new();
        for record in zip.entries() {
            let record = record?;
            let path = record.file_path();
            let name = std::str::from_utf8(path.as_ref()).ok().and_then(|path| path.strip_prefix(&root));
            let Some(name) = name else { continue };
            let stored = record.compression_method() == CompressionMethod::STORE && !record.flags().is_encrypted();
            if entries.insert(name.to_owned(), Entry { place: record.wayfinder(), stored }).is_some() {
                return Err(ArchiveError::Duplicate(format!("{root}{name}")));
            }
        }
        Ok(Archive { zip, root, entries })
    }

    /// Where the pickle program lies in the file.
    pub(super) fn program(&self) -> Result<Range<usize>, ArchiveError> {
        self.get(PROGRAM)?.ok_or_else(|| ArchiveError::Missing(format!("{}{PROGRAM}", self.root)))
    }

    /// Where the numbers of a storage lie in the file.
    pub(super) fn storage(&self, key: &str) -> Result<Range<usize>, ArchiveError> {
        let name = format!("data/{key}");
        self.get(&name)?.ok_or_else(|| ArchiveError::Missing(format!("{}{name}", self.root)))
    }

    /// Where an entry lies in the file, if there is one.
    pub(super) fn get(&self, name: &str) -> Result<Option<Range<usize>>, ArchiveError> {
        let Some(entry) = self.entries.get(name) else { return Ok(None) };
        let same_size = entry.place.compressed_size_hint() == entry.place.uncompressed_size_hint();
        if !entry.stored || !same_size {
            return Err(ArchiveError::NotStored { entry: format!("{}{name}", self.root) });
        }
        // Checked by `get_entry` to lie inside the file, hence inside the address space.
        let (start, end) = self.zip.get_entry(entry.place)?.compressed_data_range();
        Ok(Some(start as usize..end as usize))
    }
}

/// The folder of the program.
fn root(zip: &rawzip::ZipSliceArchive<&[u8]>) -> Result<Option<String>, ArchiveError> {
    for record in zip.entries() {
        let record = record?;
        let path = record.file_path();
        let root = std::str::from_utf8(path.as_ref()).ok().and_then(|path| path.strip_suffix(PROGRAM));
        if let Some(root) = root
            && (root.is_empty() || root.ends_with('/'))
        {
            return Ok(Some(root.to_owned()));
        }
    }
    Ok(None)
}

/// The first entry that is a model by its name.
fn packed(zip: &rawzip::ZipSliceArchive<&[u8]>) -> Result<Option<String>, ArchiveError> {
    const ENDINGS: [&str; 5] = [".pth", ".safetensors", ".st", ".gguf", ".bin"];
    for record in zip.entries() {
        let record = record?;
        let path = record.file_path();
        let name = std::str::from_utf8(path.as_ref()).ok();
        if let Some(name) = name.filter(|name| ENDINGS.iter().any(|ending| name.ends_with(ending))) {
            return Ok(Some(name.chars().take(100).collect()));
        }
    }
    Ok(None)
}
