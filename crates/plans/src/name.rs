//! How plans are called.

use crate::ModelClass;
use wgoose_kernels::DeviceFingerprint;

/// The name of the store's plan for a device and a model class, such as `nvidia-h200-32x2560-q4_k_m-3f09c2`: what people
/// recognise, then six digits of a hash of all that tells devices and classes apart.
pub fn plan_name(device: &DeviceFingerprint, class: &ModelClass) -> String {
    let DeviceFingerprint { adapter, vendor, device, backend, driver: _, wgpu: _ } = device;
    let identity = format!("{adapter}\n{vendor} {device} {backend}\n{}", class.identity());
    let hash = blake3::hash(identity.as_bytes()).to_hex();
    format!("{}-{}-{}", slug(adapter), class.name(), &hash[..6])
}

/// An adapter's name in lower case, every run of other characters than letters and digits a hyphen. Of a long one what comes
/// before the first bracket is enough: names are typed.
pub fn slug(adapter: &str) -> String {
    let words = adapter.split(['(', ',']).next().unwrap_or_default().to_lowercase();
    let words: Vec<&str> = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => "gpu".to_owned(),
        false => words.join("-"),
    }
}

/// What a name says of the model class, `32x2560-q4_k_m`, if it is the name of a plan for that device.
pub fn class_in_name<'a>(name: &'a str, device: &DeviceFingerprint) -> Option<&'a str> {
    let rest = name.strip_prefix(&slug(&device.adapter))?.strip_prefix('-')?;
    let is_hash = |end: &str| end.len() == 6 && end.bytes().all(|b| b.is_ascii_hexdigit());
    match rest.rsplit_once('-') {
        Some((class, end)) if is_hash(end) => Some(class),
        _ => Some(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{class, device};
    use wgoose_loader::synth::Mix;

    #[test]
    fn a_name_is_for_one_device_and_class() {
        let (h200, q4) = (device(), class("2.9B", Mix::Q4_K_M));
        let name = plan_name(&h200, &q4);
        assert!(name.starts_with("nvidia-h200-32x2560-q4_k_m-") && name.len() == 33, "{name}");
        assert_eq!(class_in_name(&name, &h200), Some("32x2560-q4_k_m"));
        assert_eq!(class_in_name("nvidia-h200-32x2560-q4_k_m", &h200), Some("32x2560-q4_k_m"));
        assert_eq!(class_in_name("else", &h200), None);
        assert_ne!(plan_name(&h200, &class("2.9B", Mix::F16)), name);
        let changed = |change: &dyn Fn(&mut DeviceFingerprint)| {
            let mut device = h200.clone();
            change(&mut device);
            plan_name(&device, &q4)
        };
        assert_ne!(changed(&|d| d.device += 1), name);
        assert_ne!(changed(&|d| d.vendor += 1), name);
        assert_ne!(changed(&|d| d.backend = "dx12".into()), name);
        assert_eq!(changed(&|d| (d.driver, d.wgpu) = ("new".into(), "99".into())), name, "updates do not lose a plan");
    }

    #[test]
    fn adapter_names_become_slugs() {
        assert_eq!(slug("llvmpipe (LLVM 15.0.6, 256 bits)"), "llvmpipe");
        assert_eq!(slug("AMD Radeon RX 7900 XTX (RADV NAVI31)"), "amd-radeon-rx-7900-xtx");
        assert_eq!(slug("(?)"), "gpu");
    }
}
