//! Rooflines on disk: one JSON file a device, next to the compiled pipelines. A file that is not whole, or of another
//! device, counts as absent.

use super::{Roofline, SCHEMA};
use crate::device::device_key;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use wgoose_kernels::DeviceFingerprint;

/// Where the roofline of a device is kept in a cache folder.
pub fn path(cache: &Path, device: &DeviceFingerprint) -> PathBuf {
    cache.join("roofline").join(device_key(SCHEMA, device)).with_extension("json")
}

/// The roofline of a device that was kept in a cache folder, if there is one.
pub fn load(cache: &Path, device: &DeviceFingerprint) -> Option<Roofline> {
    let roofline: Roofline = serde_json::from_slice(&std::fs::read(path(cache, device)).ok()?).ok()?;
    (roofline.schema == SCHEMA && roofline.device == *device).then_some(roofline)
}

/// Writes a roofline as JSON, in place of what is there: others see the old file or the new one, whole. Its folder is
/// made.
///
/// # Errors
/// The folder cannot be made, or the file not be written.
pub fn save(roofline: &Roofline, path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let write = |file: &mut File| {
        serde_json::to_writer_pretty(&mut *file, roofline)?;
        file.write_all(b"\n")
    };
    wgoose_files::replace(path, write).map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::{Figure, Quantity};
    use super::*;

    fn roofline() -> Roofline {
        let device = DeviceFingerprint {
            adapter: "goose".to_owned(),
            vendor: 1,
            device: 2,
            driver: "3".to_owned(),
            backend: "vulkan".to_owned(),
            wgpu: "30".to_owned(),
        };
        let figures = vec![
            Figure::new(Quantity::ReadBandwidth, &[1.1, 1.2, 1.3], "read"),
            Figure::missing(Quantity::MatrixF16, "there are none"),
        ];
        Roofline { schema: SCHEMA, device, clock: "GPU timestamps".to_owned(), figures }
    }

    #[test]
    fn a_saved_roofline_is_loaded_by_its_device_only() {
        let (folder, saved) = (tempfile::tempdir().unwrap(), roofline());
        assert_eq!(load(folder.path(), &saved.device), None);
        let place = path(folder.path(), &saved.device);
        for _ in 0..2 {
            save(&saved, &place).unwrap();
            assert_eq!(load(folder.path(), &saved.device).as_ref(), Some(&saved));
        }
        assert_eq!(std::fs::read_dir(place.parent().unwrap()).unwrap().count(), 1, "nothing else is left behind");
        let other = DeviceFingerprint { driver: "4".to_owned(), ..saved.device.clone() };
        assert_eq!(load(folder.path(), &other), None);
        std::fs::copy(&place, path(folder.path(), &other)).unwrap();
        assert_eq!(load(folder.path(), &other), None, "copied from another device");
        let whole = std::fs::read(&place).unwrap();
        std::fs::write(&place, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(load(folder.path(), &saved.device), None);
        save(&Roofline { schema: SCHEMA + 1, ..saved.clone() }, &place).unwrap();
        assert_eq!(load(folder.path(), &saved.device), None);
    }
}
