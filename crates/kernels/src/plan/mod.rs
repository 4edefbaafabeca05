//! The plan: everything that can be chosen for a device and a model, nothing that can be derived. Stored as RON.

mod bindable;
mod default_kernel;
mod error;
mod evidence;
mod site_class;
#[cfg(test)]
mod tests;

pub use bindable::bindable_fusions;
pub use default_kernel::default_kernel;
pub use error::PlanError;
pub use evidence::{Evidence, StepEvidence};
pub use site_class::{SiteClass, bucket};

use crate::{Kernel, Limits, Numerics, Site, Sources, Tunables, Variant, ops};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use wgoose_graph::{Format, Fusion, FusionSet, LayerWeight, ModelShape, Weight};

/// Version of the plan's schema; another one is refused.
pub const SCHEMA: u32 = 2;

/// What a device is, for deciding whether a plan made on another one may be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFingerprint {
    /// Adapter name.
    pub adapter: String,
    /// PCI vendor id.
    pub vendor: u32,
    /// PCI device id.
    pub device: u32,
    /// Driver name and version.
    pub driver: String,
    /// Graphics API.
    pub backend: String,
    /// Version of wgpu.
    pub wgpu: String,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The device it was made for.
    pub device: DeviceFingerprint,
    /// Sizes of the models it is for.
    pub model: ModelShape,
    /// Most tokens in one pass when a prompt is read.
    pub prefill_chunk: u32,
    /// Fusions of the graphs.
    pub fusions: Fusions,
    /// Formats of the file whose matrices are repacked in tiles on the GPU; the others stay as they lie in the file. A
    /// plan without tiles does not name the field, and has the hash that it had before there were any.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub repack: BTreeSet<Format>,
    /// Workgroups of the persistent step: decoding of one sequence runs the stages of many layers as one dispatch of so
    /// many workgroups, all resident, where the device was seen to keep them so. `None`: a chain of dispatches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<u32>,
    /// Matrices of a layer that lie in columns on the GPU, where their format has such a layout; this goes before tiles.
    /// Only `FfnValue` can: what it is multiplied with is mostly zeros. Not named where there are none, as above.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub columns: BTreeSet<LayerWeight>,
    /// Kernels chosen; a site not named here takes the default.
    pub choices: Vec<Choice>,
    /// What the tuner measured. `None` in a default plan.
    pub evidence: Option<Evidence>,
}

/// What every schema has.
#[derive(Deserialize)]
struct Versioned {
    schema: u32,
}

/// Fusions of the three graphs: what pays for one token need not pay for several, nor for a chunk of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusions {
    /// Passes with one token of one sequence.
    pub decode: FusionSet,
    /// Passes with one token of each of several sequences.
    pub together: FusionSet,
    /// All other passes.
    pub prefill: FusionSet,
}

impl Fusions {
    /// The same in all.
    pub fn all(set: FusionSet) -> Self {
        Fusions { decode: set.clone(), together: set.clone(), prefill: set }
    }
}

/// The kernel chosen for the sites of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The sites it is for.
    pub site: SiteClass,
    /// The variant's name.
    pub variant: String,
    /// Its tunables.
    pub tunables: Tunables,
    /// Hash of the variant's WGSL files: an edited kernel loses its place in old plans.
    pub source: String,
}

impl Choice {
    /// What the chosen variant computes with; that of an unknown variant is not known, and no plan with it is used.
    pub fn numerics(&self) -> Numerics {
        let variant = ops::variants(&self.site.op).iter().find(|v| v.name == self.variant);
        variant.map_or(Numerics::F32, Variant::numerics)
    }
}

impl Plan {
    /// The plan that every device has, from limits alone: first admitted variants, default tunables, and of the default
    /// fusions those that the device can bind.
    pub fn default_for(device: DeviceFingerprint, model: ModelShape, limits: &Limits) -> Plan {
        let bindable = bindable_fusions(&model, limits);
        let mut fusions = Plan::default_fusions();
        fusions.decode.retain(|fusion| bindable.contains(fusion));
        fusions.together.retain(|fusion| bindable.contains(fusion));
        fusions.prefill.retain(|fusion| bindable.contains(fusion));
        let (repack, columns, choices) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        let (prefill_chunk, persistent, evidence) = (64, None, None);
        Plan { schema: SCHEMA, device, model, prefill_chunk, fusions, repack, columns, persistent, choices, evidence }
    }

    /// Every fusion but those that only a tuner can tell to pay, and the adapters and projections apart in prefill, where
    /// each fills a tiled product of its own.
    pub fn default_fusions() -> Fusions {
        let default = |fusion: &Fusion| !fusion.is_for_decode() && *fusion != Fusion::TimeMixHeads;
        let mut fusions = Fusions::all(Fusion::ALL.into_iter().filter(default).collect());
        fusions.prefill.retain(|fusion| ![Fusion::LoraGroup, Fusion::Project].contains(fusion));
        fusions
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The file, its syntax (unknown fields included), its schema, or a choice that no plan can have.
    pub fn load(path: &Path) -> Result<Plan, PlanError> {
        let io = |source| PlanError::Io { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(io)?;
        // First, for other schemas have other fields.
        if let Ok(Versioned { schema }) = ron::from_str(&text)
            && schema != SCHEMA
        {
            return Err(PlanError::Schema(schema));
        }
        let plan: Plan = ron::from_str(&text).map_err(|e| PlanError::Parse {
            path: path.to_owned(),
            line: e.span.start.line,
            column: e.span.start.col,
            why: e.code.to_string(),
        })?;
        if !(1..=65535).contains(&plan.prefill_chunk) {
            return Err(PlanError::Chunk(plan.prefill_chunk));
        }
        if let Some(workgroups) = plan.persistent.filter(|n| !(1..=65535).contains(n)) {
            return Err(PlanError::Workgroups(workgroups));
        }
        if let Some(format) = plan.repack.iter().find(|format| format.tiled().is_none()) {
            return Err(PlanError::Repack(*format));
        }
        match plan.columns.iter().find(|role| **role != LayerWeight::FfnValue) {
            Some(role) => Err(PlanError::Columns(*role)),
            None => Ok(plan),
        }
    }

    /// How a matrix lies on the GPU that has this format in the file.
    pub fn format_on_gpu(&self, weight: Weight, in_file: Format) -> Format {
        let in_columns = matches!(weight, Weight::Layer(_, role) if self.columns.contains(&role));
        let columns = in_file.in_columns().filter(|_| in_columns);
        let tiles = in_file.tiled().filter(|_| self.repack.contains(&in_file));
        columns.or(tiles).unwrap_or(in_file)
    }

    /// The roughest numbers that any of its kernels computes with.
    pub fn numerics(&self) -> Numerics {
        self.choices.iter().map(Choice::numerics).max().unwrap_or_default()
    }

    /// The plan as RON.
    pub fn to_ron(&self) -> String {
        let pretty = ron::ser::PrettyConfig::new().struct_names(false).depth_limit(3);
        ron::ser::to_string_pretty(self, pretty).unwrap_or_default() + "\n"
    }

    /// Content hash of what the plan chooses, 32 hex digits; its evidence does not count.
    pub fn hash(&self) -> String {
        let bare = Plan { evidence: None, ..self.clone() };
        blake3::hash(bare.to_ron().as_bytes()).to_hex()[..32].to_owned()
    }

    /// Writes the plan, whole or not at all; its folder is made.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), PlanError> {
        let io = |source| PlanError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(io)?;
        wgoose_files::replace(path, |file| file.write_all(self.to_ron().as_bytes())).map(drop).map_err(io)
    }

    /// Checks that the plan may be used: this device, a model of this shape, kernels as they were measured.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn check(&self, device: &DeviceFingerprint, model: &ModelShape, sources: &Sources) -> Result<(), PlanError> {
        let (a, b) = (&self.device, device);
        let parts = [
            ("adapter", a.adapter.clone(), b.adapter.clone()),
            ("vendor", a.vendor.to_string(), b.vendor.to_string()),
            ("device id", a.device.to_string(), b.device.to_string()),
            ("driver", a.driver.clone(), b.driver.clone()),
            ("backend", a.backend.clone(), b.backend.clone()),
            ("wgpu", a.wgpu.clone(), b.wgpu.clone()),
        ];
        if let Some((what, plan, here)) = parts.into_iter().find(|(_, plan, here)| plan != here) {
            return Err(PlanError::Device { what, plan, here });
        }
        self.check_kernels(model, sources)
    }

    /// Checks everything but the device.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn check_kernels(&self, model: &ModelShape, sources: &Sources) -> Result<(), PlanError> {
        if self.model != *model {
            let text = |m: &ModelShape| format!("{} layers of width {}, vocabulary {}", m.layers, m.width, m.vocab);
            return Err(PlanError::Model { plan: text(&self.model), here: text(model) });
        }
        for choice in &self.choices {
            let name = format!("{}/{}", choice.site.op, choice.variant);
            let variant = ops::variants(&choice.site.op).iter().find(|v| v.name == choice.variant);
            let variant = variant.ok_or_else(|| PlanError::Unknown(name.clone()))?;
            if variant.source_hash(&choice.site.formats, sources)? != choice.source {
                return Err(PlanError::Changed(name));
            }
        }
        Ok(())
    }

    /// What the plan chose for sites like this one: for its own token bucket, then for the larger ones it names; a single
    /// row has nothing in common with larger buckets and takes its own only. The boolean says whether it is the site's
    /// own bucket.
    pub fn choices(&self, site: &Site) -> impl Iterator<Item = (&'static Variant, &Tunables, bool)> {
        let class = SiteClass::of(site);
        let serves = |bucket: u32| bucket == class.up_to_rows || (bucket > class.up_to_rows && class.up_to_rows > 1);
        let like = |c: &&Choice| serves(c.site.up_to_rows) && c.site.in_bucket(class.up_to_rows) == class;
        let mut found: Vec<&Choice> = self.choices.iter().filter(like).collect();
        found.sort_by_key(|c| c.site.up_to_rows);
        let variants = ops::kernels(&site.op).variants;
        let known = move |c: &Choice| variants.iter().find(|v| v.name == c.variant);
        found.into_iter().filter_map(move |c| Some((known(c)?, &c.tunables, c.site.up_to_rows == class.up_to_rows)))
    }

    /// The kernel for a site: the plan's choice for its token bucket, else for a larger one, else the default.
    ///
    /// # Errors
    /// The choice for this very bucket is refused, or no variant serves the site.
    pub fn kernel(&self, site: &Site, limits: &Limits, sources: &Sources) -> Result<Kernel, PlanError> {
        self.choose(site, limits, sources).map(|(_, _, kernel)| kernel)
    }

    /// The kernel that the site would take if it had `rows` rows, whatever it has: one text for passes of any size, so
    /// that a row has the same bits in all of them.
    ///
    /// # Errors
    /// As [`Plan::kernel`] for that number of rows.
    pub fn kernel_as(&self, site: &Site, rows: u32, limits: &Limits, sources: &Sources) -> Result<Kernel, PlanError> {
        let (variant, tunables, kernel) = self.choose(&Site { rows, ..site.clone() }, limits, sources)?;
        Ok(Kernel { units: (variant.units)(site, &tunables), ..kernel })
    }

    fn choose(
        &self,
        site: &Site,
        limits: &Limits,
        sources: &Sources,
    ) -> Result<(&'static Variant, Tunables, Kernel), PlanError> {
        for (variant, tunables, own_bucket) in self.choices(site) {
            match Kernel::new(variant, site, tunables, limits, sources) {
                Ok(kernel) => return Ok((variant, tunables.clone(), kernel)),
                Err(refusal) if own_bucket => {
                    return Err(PlanError::Refused { kernel: format!("{} {tunables}", variant.id()), refusal });
                }
                Err(_) => {}
            }
        }
        default_kernel(site, limits, sources)
    }
}
