//! The plan: everything that can be chosen for a device and a model, nothing that can be derived. Stored as RON.

use crate::{Limits, Refusal, Site, Sources, SpecialiseError, Tunables, Variant, kernel::Kernel, ops};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use wgoose_graph::{Format, Fusion, FusionSet, ModelShape};

/// Version of the plan's schema; another one is refused.
pub const SCHEMA: u32 = 1;

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
    /// Kernels chosen; a site not named here takes the default.
    pub choices: Vec<Choice>,
    /// What the tuner measured. `None` in a default plan.
    pub evidence: Option<Evidence>,
}

/// Fusions of the two graphs: what pays for one token need not pay for a chunk of a prompt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fusions {
    /// Passes with one token per sequence.
    pub decode: FusionSet,
    /// All other passes.
    pub prefill: FusionSet,
}

impl Fusions {
    /// The same in both.
    pub fn both(set: FusionSet) -> Self {
        Fusions { decode: set.clone(), prefill: set }
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

/// Sites that take the same kernel: same op, sizes, formats and token bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteClass {
    /// The op's name.
    pub op: String,
    /// Columns of the input.
    pub k: u32,
    /// Columns of the output.
    pub m: u32,
    /// Formats of the op's matrices, in operand order.
    pub formats: Vec<Format>,
    /// It serves row counts up to this one, from the next smaller bucket on.
    pub up_to_rows: u32,
}

/// The token bucket of a row count: the smallest of 1, 4, 16, 64, 256, ... that is not below it.
pub fn bucket(rows: u32) -> u32 {
    let power = rows.max(1).next_power_of_two();
    if power.trailing_zeros().is_multiple_of(2) { power } else { power.saturating_mul(2) }
}

impl SiteClass {
    /// The class of a site.
    pub fn of(site: &Site) -> Self {
        SiteClass {
            op: site.op.name().to_owned(),
            k: site.k,
            m: site.m,
            formats: site.inputs.iter().filter_map(|i| i.format).collect(),
            up_to_rows: bucket(site.rows),
        }
    }
}

impl SiteClass {
    /// The same sites in another bucket.
    fn in_bucket(&self, up_to_rows: u32) -> Self {
        SiteClass { up_to_rows, ..self.clone() }
    }
}

impl std::fmt::Display for SiteClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}x{}", self.op, self.k, self.m)?;
        self.formats.iter().try_for_each(|format| write!(f, " {format}"))?;
        write!(f, " rows<={}", self.up_to_rows)
    }
}

/// What the tuner measured for a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Fingerprint of the model file it was tuned with; the quality hash is that file's.
    pub model: String,
    /// Hash of the greedy tokens at the certified positions.
    pub quality_hash: String,
    /// How many positions were certified, and of how many.
    pub certified: (u32, u32),
    /// Root-mean-square error of the logits relative to the reference, token 0 apart.
    pub rms_error: f64,
    /// Whole steps, default against this plan.
    pub steps: Vec<StepEvidence>,
    /// Name of the ledger file with the raw samples.
    pub ledger: String,
}

/// One whole step, default against this plan, measured in interleaved pairs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepEvidence {
    /// `decode` or `prefill`.
    pub step: String,
    /// Tokens in the step.
    pub tokens: u32,
    /// Median microseconds with the default plan.
    pub default_us: f64,
    /// Median microseconds with this plan.
    pub tuned_us: f64,
    /// 95 % confidence interval of default / tuned.
    pub speedup: (f64, f64),
    /// Pairs measured.
    pub pairs: u32,
}

/// Why a plan cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file cannot be read or written.
    #[error("plan {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The text is no plan.
    #[error("plan {}: line {line}, column {column}: {why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        why: String,
    },
    /// Another version of the schema.
    #[error("the plan has schema {0}, this program reads {SCHEMA}: tune again")]
    Schema(u32),
    /// Made for another device.
    #[error(
        "the plan was made for another device: {what} was '{plan}', here it is '{here}'; tune again, or allow a foreign plan"
    )]
    Device {
        /// Which part of the fingerprint.
        what: &'static str,
        /// In the plan.
        plan: String,
        /// On this device.
        here: String,
    },
    /// Made for another model.
    #[error("the plan was made for a model of another shape ({plan}), this one has {here}: tune again")]
    Model {
        /// In the plan.
        plan: String,
        /// Of this model.
        here: String,
    },
    /// Names a variant that does not exist.
    #[error("the plan names {0}, which this program does not have: tune again")]
    Unknown(String),
    /// A kernel is not the one that was measured.
    #[error("{0} has changed since the plan was made: tune again")]
    Changed(String),
    /// A chosen kernel does not run here.
    #[error("the plan's {kernel} is refused: {refusal}")]
    Refused {
        /// The kernel.
        kernel: String,
        /// Why.
        refusal: Refusal,
    },
    /// No variant at all serves a site.
    #[error("no kernel of '{op}' runs at {site} on this device: {refusals}")]
    NoKernel {
        /// The op.
        op: &'static str,
        /// The site.
        site: String,
        /// Every variant's reason.
        refusals: String,
    },
    /// A kernel file cannot be read.
    #[error(transparent)]
    Source(#[from] SpecialiseError),
    /// Sizes or chunk that no plan can have.
    #[error("the plan's prefill chunk is {0}: it must be between 1 and 65535")]
    Chunk(u32),
}

impl Plan {
    /// The plan that every device has, from limits alone: first admitted variants, default tunables, every fusion, but
    /// the adapters apart in prefill, where each fills a tiled product of its own.
    pub fn default_for(device: DeviceFingerprint, model: ModelShape) -> Plan {
        let mut fusions = Fusions::both(Fusion::ALL.into());
        fusions.prefill.remove(&Fusion::LoraGroup);
        Plan { schema: SCHEMA, device, model, prefill_chunk: 64, fusions, choices: Vec::new(), evidence: None }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The file, its syntax (unknown fields included) or its schema.
    pub fn load(path: &Path) -> Result<Plan, PlanError> {
        let io = |source| PlanError::Io { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(io)?;
        let plan: Plan = ron::from_str(&text).map_err(|e| PlanError::Parse {
            path: path.to_owned(),
            line: e.span.start.line,
            column: e.span.start.col,
            why: e.code.to_string(),
        })?;
        match plan.schema {
            SCHEMA if (1..=65535).contains(&plan.prefill_chunk) => Ok(plan),
            SCHEMA => Err(PlanError::Chunk(plan.prefill_chunk)),
            other => Err(PlanError::Schema(other)),
        }
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

    /// Writes the plan: a temporary file beside it, then a rename, so that no reader ever sees half of it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), PlanError> {
        let io = |source| PlanError::Io { path: path.to_owned(), source };
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(io)?;
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(io)?;
        file.write_all(self.to_ron().as_bytes()).map_err(io)?;
        file.as_file().sync_all().map_err(io)?;
        file.persist(path).map_err(|e| io(e.error))?;
        Ok(())
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
            if variant.source_hash(sources)? != choice.source {
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
        for (variant, tunables, own_bucket) in self.choices(site) {
            match Kernel::new(variant, site, tunables, limits, sources) {
                Ok(kernel) => return Ok(kernel),
                Err(refusal) if own_bucket => {
                    return Err(PlanError::Refused { kernel: format!("{} {tunables}", variant.id()), refusal });
                }
                Err(_) => {}
            }
        }
        default_kernel(site, limits, sources).map(|(_, _, kernel)| kernel)
    }
}

/// The kernel that a site takes without a plan: the first variant, and of it the first point, that is not refused.
///
/// # Errors
/// Every variant is refused; each with its reason.
pub fn default_kernel(
    site: &Site,
    limits: &Limits,
    sources: &Sources,
) -> Result<(&'static Variant, Tunables, Kernel), PlanError> {
    let mut refusals = Vec::new();
    for variant in ops::kernels(&site.op).variants {
        let mut reason = None;
        for point in variant.points(sources)? {
            match Kernel::new(variant, site, &point, limits, sources) {
                Ok(kernel) => return Ok((variant, point, kernel)),
                Err(refusal) => reason = reason.or(Some(refusal)),
            }
        }
        refusals.extend(reason.map(|r| format!("{}: {r}", variant.name)));
    }
    let (op, site) = (site.op.name(), SiteClass::of(site).to_string());
    Err(PlanError::NoKernel { op, site, refusals: refusals.join("; ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let device = DeviceFingerprint {
            adapter: "a".into(),
            vendor: 1,
            device: 2,
            driver: "d".into(),
            backend: "Vulkan".into(),
            wgpu: "30".into(),
        };
        let mut plan = Plan::default_for(device, ModelShape::preset("0.1B").unwrap());
        let variant = &ops::variants("mul")[0];
        plan.choices.push(Choice {
            site: SiteClass { op: "mul".into(), k: 768, m: 768, formats: vec![], up_to_rows: 4 },
            variant: variant.name.into(),
            tunables: variant.defaults(&Sources::Embedded).unwrap(),
            source: variant.source_hash(&Sources::Embedded).unwrap(),
        });
        plan
    }

    #[test]
    fn buckets_serve_up_to() {
        assert_eq!([0, 1, 2, 4, 5, 16, 17, 64, 65, 256, 257].map(bucket), [1, 1, 4, 4, 16, 16, 64, 64, 256, 256, 1024]);
    }

    #[test]
    fn plans_round_trip_through_ron() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/plan.ron");
        plan().save(&path).unwrap();
        assert_eq!(Plan::load(&path).unwrap(), plan());
        let text = std::fs::read_to_string(&path).unwrap().replace("prefill_chunk", "prefill_chnk");
        std::fs::write(&path, text).unwrap();
        let error = Plan::load(&path).unwrap_err().to_string();
        assert!(error.contains("prefill_chnk"), "{error}");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn foreign_plans_are_refused_with_the_reason() {
        let (good, sources) = (plan(), Sources::Embedded);
        assert!(good.check(&good.device, &good.model, &sources).is_ok());
        let device = DeviceFingerprint { driver: "other".into(), ..good.device.clone() };
        let error = good.check(&device, &good.model, &sources).unwrap_err();
        assert!(matches!(error, PlanError::Device { what: "driver", .. }));
        let model = ModelShape { layers: 3, ..good.model };
        assert!(matches!(good.check(&good.device, &model, &sources), Err(PlanError::Model { .. })));
        let mut changed = good.clone();
        changed.choices[0].source = "0".into();
        assert!(matches!(changed.check(&good.device, &good.model, &sources), Err(PlanError::Changed(_))));
        changed.choices[0].variant = "none".into();
        assert!(matches!(changed.check(&good.device, &good.model, &sources), Err(PlanError::Unknown(_))));
    }
}
