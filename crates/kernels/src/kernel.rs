//! A kernel: a variant specialised for an op instance, validated, ready to be compiled by a runtime.

use crate::library::Library;
use crate::wgsl::{LineOrigins, Names, Outline, Reader, Setting, Text, TextError, module};
use crate::{Access, Binding, Config, Facts, Instance, KernelError, Limits, Refusal, Variant};
use std::sync::Arc;

/// Identity of a kernel: the hash of its final text, comments apart. A name is not an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelHash(pub [u8; 16]);

impl std::fmt::Display for KernelHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A variant specialised for an op instance, or a kernel of no op.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Variant and configuration, for people.
    pub label: String,
    /// Final text.
    pub wgsl: String,
    /// Where its lines come from.
    pub origins: LineOrigins,
    /// Hash of the final text without its comments.
    pub hash: KernelHash,
    /// What is known of it.
    pub facts: Facts,
    /// Workgroups to dispatch.
    pub workgroups: u64,
    /// Values (f32) that they hand to one another: the size of the binding `partials`.
    pub partials: u64,
    /// Whether all of its text is this program's: every other runs with checks.
    pub is_trusted: bool,
}

impl Kernel {
    /// Specialises a variant, whatever speed heuristics say of the configuration.
    ///
    /// # Errors
    /// The constraint that it breaks, or a text that is wrong.
    pub fn new(
        variant: &Variant,
        instance: &Instance,
        config: &Config,
        limits: &Limits,
    ) -> Result<Kernel, KernelError> {
        let outline = variant.outline(instance, config)?;
        let kernel = Kernel::of_variant(variant, &outline, instance, config, limits)?;
        variant.library().uses(&outline);
        Ok(kernel)
    }

    /// The kernel of a variant's outline, not noted as one that is used.
    pub(crate) fn of_variant(
        variant: &Variant,
        outline: &Outline,
        instance: &Instance,
        config: &Config,
        limits: &Limits,
    ) -> Result<Kernel, KernelError> {
        variant.check(outline, instance, config, limits, false)?;
        let (op, device) = (|name: &str| instance.fact(name), |name: &str| limits.named(name));
        let text = outline.text(&variant.setting(config, &op, &device))?;
        let workgroups = variant.workgroups(instance, config, limits)?;
        let partials = variant.partials(instance, config, limits)?;
        let kernel = Kernel::of_outline(variant.label(config), outline, text, workgroups, limits, variant.library())?;
        let is_foreign = |b: &&Binding| b.access == Access::ReadWrite && !instance.may_write(&b.name);
        if let Some(binding) = kernel.facts.bindings.iter().find(is_foreign) {
            let why = format!("it may write to {}, which other ops read: bind it as 'read'", binding.name);
            return Err(TextError::at(variant.path(), 1, why).into());
        }
        Ok(Kernel { partials, ..kernel })
    }

    /// A kernel of no op, whose tunables are chosen by name; its workgroups are 1.
    pub(crate) fn of_device(
        library: &Library,
        path: &str,
        chosen: &[(&str, &str)],
        limits: &Limits,
    ) -> Result<Kernel, KernelError> {
        let path: Arc<str> = Arc::from(path);
        let document = library.document(&path)?;
        let choice = |name: &str| chosen.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let mut config = Vec::new();
        for tunable in &document.tunables {
            let wanted = choice(&tunable.name).unwrap_or_else(|| tunable.choices[tunable.default].clone());
            let at = tunable.choices.iter().position(|c| *c == wanted);
            config.push(at.ok_or(Refusal::None("the kernel has no such choice"))? as u8);
        }
        let outline = library.outline(&path, &|_| Reader::Absent, &choice)?;
        if let Some(missing) = outline.needs.iter().find(|f| !limits.features.contains(f)) {
            return Err(Refusal::Feature(*missing).into());
        }
        let device = |name: &str| limits.named(name);
        let setting = Setting { tunables: &document.tunables, chosen: &config, op: &|_| None, device: &device };
        if let Some(broken) = outline.broken(&Names::new(&outline, &setting))? {
            return Err(Refusal::broken(broken).into());
        }
        let label = chosen.iter().fold(path.to_string(), |label, (name, value)| format!("{label} {name}={value}"));
        let kernel = Kernel::of_outline(label, &outline, outline.text(&setting)?, 1, limits, library)?;
        library.uses(&outline);
        Ok(kernel)
    }

    fn of_outline(
        label: String,
        outline: &Outline,
        text: Text,
        workgroups: u64,
        limits: &Limits,
        library: &Library,
    ) -> Result<Kernel, KernelError> {
        let facts = library.facts(outline, &text)?;
        let kernel = Kernel::assemble(label, text, facts, workgroups, limits)?;
        Ok(Kernel { is_trusted: outline.files.iter().all(|file| library.is_embedded(file)), ..kernel })
    }

    /// Refuses what a device with these limits cannot run. Nothing is known of where its text comes from: it is not
    /// trusted.
    pub(crate) fn assemble(
        label: String,
        text: Text,
        facts: Facts,
        workgroups: u64,
        limits: &Limits,
    ) -> Result<Kernel, KernelError> {
        let most = |what, need: u64, limit: u64| match need > limit {
            true => Err(Refusal::Limit { what, need, limit }),
            false => Ok(()),
        };
        let storage = facts.bindings.iter().filter(|b| b.access != crate::Access::Uniform).count() as u64;
        most("threads per workgroup", facts.threads().into(), limits.workgroup_threads.into())?;
        most("bytes of workgroup memory", facts.workgroup_memory.into(), limits.workgroup_memory.into())?;
        most("storage buffers", storage, limits.storage_buffers.into())?;
        let mut hash = KernelHash([0; 16]);
        hash.0.copy_from_slice(&text.hash().as_bytes()[..16]);
        let (wgsl, origins) = text.into_parts();
        Ok(Kernel { label, wgsl, origins, hash, facts, workgroups, partials: 0, is_trusted: false })
    }

    /// naga's module of its text, for runtimes that translate it themselves.
    ///
    /// # Errors
    /// What naga says; the text was validated before.
    pub fn module(&self) -> Result<(naga::Module, naga::valid::ModuleInfo), TextError> {
        module(&Text::of(&self.label, self.wgsl.clone()))
    }
}

/// Folds a number of workgroups into a dispatch: x first, then y (must match `workgroup_index` in
/// `kernels-wgsl/lib/op.wgsl`). `None` if even that is too small.
pub fn dispatch_size(workgroups: u64, limits: &Limits) -> Option<[u32; 3]> {
    let side = u64::from(limits.workgroups_per_dimension);
    let rows = workgroups.div_ceil(side).max(1);
    (rows <= side).then(|| [workgroups.div_ceil(rows) as u32, rows as u32, 1])
}
