//! The store on disk: one file per kernel, in a folder per device: its compiled pipelines, and apart from them what checks of the
//! device gave. Whatever is wrong with an entry, it is a miss, and so is one that another user can have written: drivers are handed
//! what is in it as it is. Whatever is wrong with the folder, nothing is kept.

use crate::device::device_key;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::SystemTime;
use wgoose_files::NewFile;
use wgoose_kernels::{DeviceFingerprint, KernelHash};

/// Version of the entries, and of everything that shapes a pipeline beyond the kernel's text (how it is compiled and with
/// which features the device is opened) and the outcome of a check (its numbers): a change there must change this number.
const VERSION: u32 = 2;
/// How an entry begins.
const MAGIC: [u8; 8] = *b"wgoosepl";
/// Magic, version, checksum.
const HEADER: usize = 8 + 4 + 32;
/// A folder with more entries than this...
const MOST_ENTRIES: usize = 4096;
/// ...is cut down to this many, so that it is not cut at every new kernel.
const ENTRIES_LEFT: usize = 3072;

/// What is kept of the kernels of one device.
pub(crate) struct Store {
    folder: PathBuf,
    device: String,
}

impl Store {
    /// The compiled pipelines of a device in a cache folder, which is made when the first entry is written.
    pub(super) fn pipelines(cache: &Path, device: &DeviceFingerprint) -> Self {
        Store::new(cache, "pipelines", device)
    }

    /// What checks of a device gave, by the kernel that they ran.
    pub(crate) fn checks(cache: &Path, device: &DeviceFingerprint) -> Self {
        Store::new(cache, "checks", device)
    }

    fn new(cache: &Path, what: &str, device: &DeviceFingerprint) -> Self {
        let device = device_key(VERSION, device);
        Store { folder: cache.join(what).join(&device), device }
    }

    /// What was saved for a kernel on this device; `None` if nothing was, it is not whole, or another user can have written it.
    pub(crate) fn load(&self, kernel: &KernelHash) -> Option<Vec<u8>> {
        let mut entry = wgoose_files::read_own(&self.path(kernel)).ok()?;
        let (header, payload) = entry.split_at_checked(HEADER)?;
        if header != self.header(kernel, payload) {
            return None;
        }
        entry.drain(..HEADER);
        Some(entry)
    }

    /// Saves what the driver made of a kernel, in place of what is there. Warns once a process if that is not possible.
    pub(crate) fn save(&self, kernel: &KernelHash, payload: &[u8]) {
        static WARNED: Once = Once::new();
        if let Err(why) = self.write(kernel, payload) {
            WARNED.call_once(|| {
                tracing::warn!("compiled pipelines and checks cannot be kept in {}: {why}", self.folder.display());
            });
        }
    }

    /// Removes the oldest entries if there are too many.
    pub(super) fn prune(&self) {
        // What cannot be listed or removed stays: the bound is there for the disk's sake, not for ours.
        let _ = prune(&self.folder, MOST_ENTRIES, ENTRIES_LEFT);
    }

    fn path(&self, kernel: &KernelHash) -> PathBuf {
        self.folder.join(format!("{kernel}.bin"))
    }

    /// Renamed into place: other processes see the old entry or the new one, whole.
    fn write(&self, kernel: &KernelHash, payload: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let mut new = NewFile::own_beside(&self.path(kernel))?;
        new.file().write_all(&self.header(kernel, payload))?;
        new.file().write_all(payload)?;
        new.finish_unsynced()
    }

    /// The checksum covers whom the entry is for: one that was copied to another place is not valid there.
    fn header(&self, kernel: &KernelHash, payload: &[u8]) -> [u8; HEADER] {
        let checksum =
            blake3::Hasher::new().update(self.device.as_bytes()).update(&kernel.0).update(payload).finalize();
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..].copy_from_slice(checksum.as_bytes());
        header
    }
}

/// Removes the oldest files of a folder that holds more than `most`, down to `left`.
fn prune(folder: &Path, most: usize, left: usize) -> io::Result<()> {
    let mut files: Vec<(SystemTime, PathBuf)> = fs::read_dir(folder)?
        .flatten()
        .filter_map(|file| {
            let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.modified().ok()?, file.path()))
        })
        .collect();
    if files.len() <= most {
        return Ok(());
    }
    files.sort();
    for (_, file) in files.iter().take(files.len() - left) {
        // Another process may have been faster.
        let _ = fs::remove_file(file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn fingerprint() -> DeviceFingerprint {
        DeviceFingerprint {
            adapter: "goose".to_owned(),
            vendor: 1,
            device: 2,
            driver: "3".to_owned(),
            backend: "vulkan".to_owned(),
            wgpu: "30".to_owned(),
        }
    }

    const KERNEL: KernelHash = KernelHash([7; 16]);

    #[test]
    fn a_saved_entry_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::pipelines(folder.path(), &fingerprint());
        assert_eq!(store.load(&KERNEL), None);
        for payload in [b"first".as_slice(), b"", b"another"] {
            store.save(&KERNEL, payload);
            assert_eq!(store.load(&KERNEL).as_deref(), Some(payload));
        }
        assert_eq!(store.load(&KernelHash([8; 16])), None);
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 1, "nothing but the entry is left behind");
    }

    #[test]
    fn an_entry_that_is_not_whole_is_a_miss_and_can_be_saved_again() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::pipelines(folder.path(), &fingerprint());
        let path = store.path(&KERNEL);
        store.save(&KERNEL, b"payload");
        let good = fs::read(&path).unwrap();
        let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|len| good[..len].to_vec()).collect();
        bad.extend((0..good.len()).map(|i| {
            let mut flipped = good.clone();
            flipped[i] ^= 1;
            flipped
        }));
        bad.push([good.as_slice(), b"!"].concat());
        bad.push(vec![0; 4096]);
        for entry in bad {
            fs::write(&path, &entry).unwrap();
            assert_eq!(store.load(&KERNEL), None, "{entry:?}");
        }
        store.save(&KERNEL, b"payload");
        assert_eq!(fs::read(&path).unwrap(), good);
    }

    #[cfg(unix)]
    #[test]
    fn an_entry_that_others_may_write_is_a_miss() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let store = Store::checks(folder.path(), &fingerprint());
        store.save(&KERNEL, b"right");
        assert_eq!(store.load(&KERNEL).as_deref(), Some(b"right".as_slice()));
        fs::set_permissions(store.path(&KERNEL), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(store.load(&KERNEL), None);
        store.save(&KERNEL, b"right");
        assert_eq!(store.load(&KERNEL).as_deref(), Some(b"right".as_slice()));
    }

    #[test]
    fn entries_of_other_kernels_and_devices_are_misses() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::pipelines(folder.path(), &fingerprint());
        store.save(&KERNEL, b"payload");
        let other_kernel = KernelHash([8; 16]);
        fs::copy(store.path(&KERNEL), store.path(&other_kernel)).unwrap();
        assert_eq!(store.load(&other_kernel), None);

        let changes: [fn(&mut DeviceFingerprint); 7] = [
            |f| f.adapter.push('!'),
            |f| f.vendor += 1,
            |f| f.device += 1,
            |f| f.driver.push('!'),
            |f| f.backend.push('!'),
            |f| f.wgpu.push('!'),
            // The same letters, divided otherwise.
            |f| f.driver = std::mem::take(&mut f.adapter) + &f.driver,
        ];
        for change in changes {
            let mut other = fingerprint();
            change(&mut other);
            let other_store = Store::pipelines(folder.path(), &other);
            assert_eq!(other_store.load(&KERNEL), None, "{other:?}");
            fs::create_dir_all(&other_store.folder).unwrap();
            fs::copy(store.path(&KERNEL), other_store.path(&KERNEL)).unwrap();
            assert_eq!(other_store.load(&KERNEL), None, "copied to {other:?}");
        }
        assert_eq!(store.load(&KERNEL).as_deref(), Some(b"payload".as_slice()));
    }

    #[test]
    fn a_folder_that_cannot_be_made_keeps_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "in the way").unwrap();
        let store = Store::pipelines(&file, &fingerprint());
        assert!(store.write(&KERNEL, b"payload").is_err());
        store.save(&KERNEL, b"payload");
        store.prune();
        assert_eq!(store.load(&KERNEL), None);
        assert_eq!(fs::read(&file).unwrap(), b"in the way");
    }

    #[test]
    fn the_oldest_entries_go() {
        let folder = tempfile::tempdir().unwrap();
        // Written in an order that is neither that of the names nor that of their age.
        for i in [3u64, 0, 5, 1, 4, 2] {
            let file = fs::File::create(folder.path().join(format!("{}.bin", 9 - i))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + i)).unwrap();
        }
        fs::create_dir(folder.path().join("a folder")).unwrap();
        let left = || {
            let mut ages: Vec<u64> = fs::read_dir(folder.path())
                .unwrap()
                .map(|file| file.unwrap().metadata().unwrap())
                .filter(fs::Metadata::is_file)
                .map(|m| m.modified().unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1000)
                .collect();
            ages.sort_unstable();
            ages
        };
        prune(folder.path(), 6, 2).unwrap();
        assert_eq!(left(), [0, 1, 2, 3, 4, 5], "as many as may be");
        prune(folder.path(), 5, 2).unwrap();
        assert_eq!(left(), [4, 5]);
    }
}
