//! Which adapter is meant: by index, PCI address, UUID or name.

use crate::RuntimeError;

/// What tells one adapter of a machine from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdapterIdentity {
    /// As the driver calls it; two cards of a kind have one name.
    pub name: String,
    /// Its address on the PCI bus, `0000:3b:00.0`, where it has one.
    pub pci: Option<String>,
    /// Its UUID, where the driver tells (Vulkan): what `nvidia-smi -L` prints behind `GPU-`.
    pub uuid: Option<String>,
}

/// `NVIDIA H100 80GB HBM3 at 0000:3b:00.0`
impl std::fmt::Display for AdapterIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        self.pci.as_ref().map_or(Ok(()), |pci| write!(f, " at {pci}"))
    }
}

impl AdapterIdentity {
    /// `0000:3b:00.0` is also meant by `3b:00.0`.
    fn has_address(&self, wanted: &str) -> bool {
        let Some(pci) = self.pci.as_ref().filter(|_| wanted.contains(':')).map(|pci| pci.to_lowercase()) else {
            return false;
        };
        let wanted = wanted.to_lowercase();
        pci == wanted || pci.strip_suffix(&wanted).is_some_and(|domain| domain.ends_with(':'))
    }

    fn has_uuid(&self, wanted: &str) -> bool {
        let digits = |uuid: &str| uuid.to_lowercase().trim_start_matches("gpu-").replace('-', "");
        self.uuid.as_ref().is_some_and(|uuid| digits(uuid) == digits(wanted))
    }

    /// A UUID in five groups of digits.
    pub(super) fn uuid_of(bytes: [u8; 16]) -> Option<String> {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        (bytes != [0; 16]).then(|| parts.join("-"))
    }
}

/// Where the adapter is that is meant; the first if none is. A number is an index, whatever digits names have.
pub(crate) fn position(adapters: &[AdapterIdentity], wanted: Option<&str>) -> Result<usize, RuntimeError> {
    let list = |which: &[usize]| which.iter().map(|i| format!("{i}: {}", adapters[*i])).collect::<Vec<_>>().join(", ");
    let all: Vec<usize> = (0..adapters.len()).collect();
    let Some(wanted) = wanted else { return all.first().copied().ok_or(RuntimeError::NoAdapter) };
    let unknown = || RuntimeError::UnknownAdapter { wanted: wanted.to_owned(), available: list(&all) };
    let of = |is_one: &dyn Fn(&AdapterIdentity) -> bool| -> Vec<usize> {
        all.iter().copied().filter(|i| is_one(&adapters[*i])).collect()
    };
    if adapters.is_empty() {
        return Err(RuntimeError::NoAdapter);
    }
    if let Ok(index) = wanted.parse::<usize>() {
        return Some(index).filter(|index| *index < adapters.len()).ok_or_else(unknown);
    }
    let part = wanted.to_lowercase();
    let by_identity = of(&|adapter| adapter.has_address(wanted) || adapter.has_uuid(wanted));
    let found = match by_identity.is_empty() {
        true => of(&|adapter| adapter.name.to_lowercase().contains(&part)),
        false => by_identity,
    };
    match &found[..] {
        [] => Err(unknown()),
        [one] => Ok(*one),
        several => Err(RuntimeError::AmbiguousAdapter { wanted: wanted.to_owned(), several: list(several) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapters() -> Vec<AdapterIdentity> {
        let adapter = |name: &str, pci: &str, first: u8| AdapterIdentity {
            name: name.to_owned(),
            pci: Some(pci.to_owned()),
            uuid: AdapterIdentity::uuid_of([first; 16]),
        };
        let software = AdapterIdentity { name: "llvmpipe (LLVM 15.0.6, 256 bits)".to_owned(), ..Default::default() };
        vec![
            adapter("NVIDIA H100 80GB HBM3", "0000:3b:00.0", 0x1a),
            adapter("NVIDIA H100 80GB HBM3", "0001:3b:00.0", 0x2b),
            adapter("NVIDIA GeForce RTX 3060", "0000:AF:00.0", 0),
            software,
        ]
    }

    #[test]
    fn an_adapter_is_meant_by_index_address_uuid_or_name() {
        let uuid = "GPU-2b2b2b2b-2b2b-2b2b-2b2b-2b2b2b2b2b2b";
        for (wanted, index) in [
            ("0", 0),
            ("3", 3),
            ("rtx", 2),
            ("RTX 3060", 2),
            ("0001:3b:00.0", 1),
            ("af:00.0", 2),
            ("0000:AF:00.0", 2),
            (uuid, 1),
            (&uuid[4..], 1),
            ("1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a", 0),
            ("LLVM", 3),
        ] {
            assert_eq!(position(&adapters(), Some(wanted)).unwrap(), index, "{wanted}");
        }
        assert_eq!(position(&adapters(), None).unwrap(), 0);
    }

    #[test]
    fn a_name_of_no_or_several_adapters_is_refused() {
        let error = |wanted: &str| position(&adapters(), Some(wanted)).unwrap_err().to_string();
        // Digits of a name are no index.
        for wanted in ["60", "3060", "15", "4", "amd", "00.0", "3b:00.1"] {
            assert!(error(wanted).starts_with(&format!("no adapter matches '{wanted}': there are 0: NVIDIA H100")));
        }
        let two = "0: NVIDIA H100 80GB HBM3 at 0000:3b:00.0, 1: NVIDIA H100 80GB HBM3 at 0001:3b:00.0";
        for wanted in ["h100", "3b:00.0"] {
            assert!(error(wanted).contains(two), "{}", error(wanted));
        }
        assert!(matches!(position(&[], Some("0")), Err(RuntimeError::NoAdapter)));
    }
}
