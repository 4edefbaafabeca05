//! A kernel: a variant specialised for a site, validated, ready to be compiled by a runtime.

use crate::source::Sources;
use crate::specialise;
use crate::specialise::Specialised;
use crate::{Limits, Numerics, Reflection, Refusal, Site, Tunables, Variant, reflect};

/// Why a variant's text could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecialiseError {
    /// A file of the kernels' folder cannot be read.
    #[error("{path}: {why}")]
    Read {
        /// Path below the folder.
        path: &'static str,
        /// What the system said.
        why: String,
    },
    /// A tunable was given a value that is not among its choices.
    #[error("{path}: {name} = {value} is not one of its choices: {choices}")]
    Choice {
        /// Path below the folder.
        path: &'static str,
        /// The tunable.
        name: String,
        /// The value asked for.
        value: String,
        /// What could be asked for.
        choices: String,
    },
    /// The text is wrong.
    #[error("{path}:{line}: {why}")]
    Text {
        /// Path below the folder.
        path: &'static str,
        /// Line, from 1.
        line: usize,
        /// What naga or the importer says.
        why: String,
    },
}

impl SpecialiseError {
    pub(crate) fn at((path, line): (&'static str, usize), why: String) -> Self {
        SpecialiseError::Text { path, line, why }
    }
}

/// Identity of a kernel: the hash of its final text. A name is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelHash(pub [u8; 16]);

impl std::fmt::Display for KernelHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A variant specialised for a site, or a repacking.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// `op/variant` and tunables, for people.
    pub label: String,
    /// Final text.
    pub wgsl: String,
    /// Hash of the final text.
    pub hash: KernelHash,
    /// Its interface.
    pub reflection: Reflection,
    /// Workgroups to dispatch.
    pub units: u64,
    /// What it computes with.
    pub numerics: Numerics,
}

impl Kernel {
    /// Specialises a variant, or says why it cannot serve this site on a device with these limits.
    ///
    /// # Errors
    /// The typed reason.
    pub fn new(
        variant: &Variant,
        site: &Site,
        tunables: &Tunables,
        limits: &Limits,
        sources: &Sources,
    ) -> Result<Kernel, Refusal> {
        variant.admits(site, tunables, limits)?;
        let specialised = specialise::specialise(variant.wgsl, sources, Some(site), tunables)?;
        let label = format!("{} {tunables}", variant.id());
        let kernel =
            Kernel::assemble(label.trim_end().to_owned(), specialised, (variant.units)(site, tunables), limits)?;
        Ok(Kernel { numerics: variant.numerics(), ..kernel })
    }

    /// Validates a final text, and refuses what a device with these limits cannot run.
    pub(crate) fn assemble(
        label: String,
        specialised: Specialised,
        units: u64,
        limits: &Limits,
    ) -> Result<Kernel, Refusal> {
        let reflection = reflect::reflect(&specialised)?;
        let invocations: u32 = reflection.workgroup_size.iter().product();
        if invocations > limits.workgroup_invocations {
            let limit = limits.workgroup_invocations.into();
            return Err(Refusal::Limit { what: "invocations per workgroup", need: u64::from(invocations), limit });
        }
        if reflection.workgroup_memory > limits.workgroup_memory {
            let (need, limit) = (reflection.workgroup_memory.into(), limits.workgroup_memory.into());
            return Err(Refusal::Limit { what: "bytes of workgroup memory", need, limit });
        }
        let storage = reflection.bindings.iter().filter(|b| b.access != reflect::Access::Uniform).count() as u64;
        if storage > u64::from(limits.storage_buffers) {
            let limit = limits.storage_buffers.into();
            return Err(Refusal::Limit { what: "storage buffers", need: storage, limit });
        }
        let mut hash = KernelHash([0; 16]);
        hash.0.copy_from_slice(&blake3::hash(specialised.text.as_bytes()).as_bytes()[..16]);
        Ok(Kernel { label, wgsl: specialised.text, hash, reflection, units, numerics: Numerics::F32 })
    }
}

/// Folds a number of workgroups into a dispatch: x first, then y (twin: `unit_of` in `shared/unit.wgsl`). `None` if
/// even that is too small.
pub fn dispatch_size(units: u64, limits: &Limits) -> Option<[u32; 3]> {
    let side = u64::from(limits.workgroups_per_dimension);
    let rows = units.div_ceil(side).max(1);
    (rows <= side).then(|| [units.div_ceil(rows) as u32, rows as u32, 1])
}
