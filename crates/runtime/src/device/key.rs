//! Under which name things of a device are kept on disk.

use wgoose_kernels::DeviceFingerprint;

/// Hash of every field of a fingerprint, and of the version of what is kept: 32 hexadecimal digits.
pub(crate) fn device_key(version: u32, fingerprint: &DeviceFingerprint) -> String {
    let DeviceFingerprint { adapter, vendor, device, driver, backend, wgpu } = fingerprint;
    let mut hasher = blake3::Hasher::new();
    for number in [version, *vendor, *device] {
        hasher.update(&number.to_le_bytes());
    }
    for text in [adapter, driver, backend, wgpu] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}
