//! The plan: everything that can be chosen for a device and a model, nothing that can be derived. Stored as RON.

mod bindable;
mod default_kernel;
mod error;
mod evidence;
mod file;
mod invariant;
#[cfg(test)]
mod tests;
mod tuning_key;

pub use bindable::bindable_fusions;
pub use default_kernel::default_kernel;
pub use error::PlanError;
pub use evidence::{Checked, Evidence, ScenarioEvidence};
pub use tuning_key::TuningKey;

use crate::{Catalogue, Config, Instance, Kernel, KernelError, Limits, Precision, SpelledConfig, StateFormat, Variant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::path::Path;
use wgoose_graph::{Format, Fusion, FusionSet, LayerWeight, ModelShape, Weight};

/// Version of the plan's schema; another one is refused.
pub const SCHEMA: u32 = 3;

/// Longest name in a plan.
const MOST_NAME_BYTES: usize = 1024;

/// Fusions that put matrices of different formats in one op.
const GROUPS: [Fusion; 2] = [Fusion::LoraGroup, Fusion::Project];

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

impl DeviceFingerprint {
    /// Whether it is the same GPU by the same API, whatever the versions of the driver and of wgpu.
    pub fn is_same_gpu(&self, other: &DeviceFingerprint) -> bool {
        let gpu = |d: &DeviceFingerprint| (d.vendor, d.device);
        gpu(self) == gpu(other) && self.adapter == other.adapter && self.backend == other.backend
    }
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
    /// Multiprocessors of the device, as measured when the plan was made ([`Limits::multiprocessors`]): the fixed grids
    /// of its kernels are multiples of this.
    pub multiprocessors: u32,
    /// Formats of the file whose blocks are interleaved by eight on the GPU; the others stay as they are in the file. A
    /// plan that interleaves none does not name the field.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub interleave: BTreeSet<Format>,
    /// Workgroups of the persistent kernel: decoding of one sequence runs the stages of many layers as one dispatch of
    /// so many workgroups, all resident, where the device was seen to keep them so. `None`: one dispatch per op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistent: Option<u32>,
    /// How the stages of the persistent kernel hand values over. Not named where that is behind barriers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hand_over: crate::HandOver,
    /// Matrices of a layer that are K-major on the GPU, where their format has such a layout; this goes before
    /// interleaving. Only `FfnValue` can be: most of its x is zeros. Not named where there are none.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub k_major: BTreeSet<LayerWeight>,
    /// The least precise arithmetic of kernels that it does not name. Not named where that is f32.
    #[serde(default, skip_serializing_if = "is_default")]
    pub precision: Precision,
    /// How the WKV matrices of the state are stored. f16 belongs to the f16 class, whatever the kernels. Not named
    /// where it is f32.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state: StateFormat,
    /// Whether results are independent of the batch, to the bit ([`Plan::batch_invariant`]). Not named where they may
    /// depend on it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub invariant: bool,
    /// Kernels chosen; an instance not named here takes the default.
    pub choices: Vec<Choice>,
    /// What the tuner measured of this very content ([`Plan::with_evidence`]). `None` in a default plan.
    pub evidence: Option<Evidence>,
    /// Whether its file had evidence of another content, which was left out when it was read.
    #[serde(skip)]
    pub lost_evidence: bool,
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
    pub batched: FusionSet,
    /// All other passes.
    pub prefill: FusionSet,
}

impl Fusions {
    /// The same in all.
    pub fn all(set: FusionSet) -> Self {
        Fusions { decode: set.clone(), batched: set.clone(), prefill: set }
    }
}

/// The kernel chosen for the op instances of one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The instances it is for.
    pub key: TuningKey,
    /// The variant's name.
    pub variant: String,
    /// Its configuration.
    #[serde(deserialize_with = "crate::config::each_once")]
    pub config: SpelledConfig,
    /// Hash of the variant's WGSL files: an edited kernel loses its place in old plans.
    pub source: String,
}

impl Choice {
    /// A choice of a variant that there is.
    ///
    /// # Errors
    /// A file that is wrong.
    pub fn new(key: TuningKey, variant: &Variant, config: &Config) -> Result<Choice, PlanError> {
        let source = variant.source_hash(&key.formats, config)?;
        Ok(Choice { key, variant: variant.name().to_owned(), config: variant.spell(config), source })
    }

    /// The same kernel for other instances of the op.
    ///
    /// # Errors
    /// There is no such variant or configuration, or a file is wrong.
    pub fn for_key(&self, key: TuningKey, catalogue: &Catalogue) -> Result<Choice, PlanError> {
        let (variant, config) = self.resolve(catalogue)?;
        Choice::new(key, variant, &config)
    }

    /// The least precise of what its kernel computes with; f32 if there is no such kernel.
    pub fn precision(&self, catalogue: &Catalogue) -> Precision {
        self.resolve(catalogue).map_or(Precision::F32, |(variant, config)| variant.precision(&config))
    }

    /// Checks that its kernel is the one that was measured.
    ///
    /// # Errors
    /// There is no such variant or configuration, or its files have changed.
    pub fn check(&self, catalogue: &Catalogue) -> Result<(), PlanError> {
        let (variant, config) = self.resolve(catalogue)?;
        match variant.source_hash(&self.key.formats, &config)? == self.source {
            true => Ok(()),
            false => Err(PlanError::Changed(variant.id())),
        }
    }

    /// The variant and configuration that it means.
    ///
    /// # Errors
    /// There is no such variant or configuration.
    pub(crate) fn resolve<'c>(&self, catalogue: &'c Catalogue) -> Result<(&'c Variant, Config), PlanError> {
        let name = || format!("{}/{}", self.key.op, self.variant);
        let variant = catalogue.variant(&self.key.op, &self.variant).ok_or_else(|| PlanError::Unknown(name()))?;
        let config = variant.config(&self.config);
        let config = config.map_err(|error| PlanError::Config { key: self.key.to_string(), error: Box::new(error) })?;
        Ok((variant, config))
    }
}

impl fmt::Display for Choice {
    /// `variant NAME=value ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.variant)?;
        self.config.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

impl Plan {
    /// The plan that every device has, from limits alone: first admitted variants, default tunables, and of the default
    /// fusions those that the device can bind. A software adapter does without the one of seven matrices, whose kernel
    /// takes it up to 50 s to compile (llvmpipe of Mesa 22.3, Q8_0) and saves it nothing.
    pub fn default_for(device: DeviceFingerprint, model: ModelShape, limits: &Limits) -> Plan {
        let mut serves = bindable_fusions(&model, limits);
        if limits.is_cpu {
            serves.remove(&Fusion::Project);
        }
        let has_matrix_units = limits.has_matrix_units();
        let mut fusions = Plan::default_fusions(has_matrix_units);
        for set in [&mut fusions.decode, &mut fusions.batched, &mut fusions.prefill] {
            set.retain(|fusion| serves.contains(fusion));
        }
        Plan {
            schema: SCHEMA,
            device,
            model,
            prefill_chunk: if has_matrix_units { 2048 } else { 64 },
            fusions,
            multiprocessors: limits.multiprocessors,
            interleave: BTreeSet::new(),
            persistent: None,
            hand_over: crate::HandOver::Barrier,
            k_major: BTreeSet::new(),
            precision: if has_matrix_units { Precision::F16 } else { Precision::F32 },
            state: StateFormat::F32,
            invariant: false,
            choices: Vec::new(),
            evidence: None,
            lost_evidence: false,
        }
    }

    /// Every fusion but those that only a tuner can tell to pay. In prefill, matrix units are too fast for a recurrence
    /// that does all of a time mix: what can be done for all tokens at once is split from it. Without them each of the
    /// adapters and projections fills a tiled product of its own.
    pub fn default_fusions(has_matrix_units: bool) -> Fusions {
        let for_tuners = [Fusion::TimeMixHeads, Fusion::TimeMixSplit];
        let default = |fusion: &Fusion| !fusion.is_for_decode() && !for_tuners.contains(fusion);
        let mut fusions = Fusions::all(Fusion::ALL.into_iter().filter(default).collect());
        if has_matrix_units {
            fusions.prefill.remove(&Fusion::TimeMixCore);
            fusions.prefill.insert(Fusion::TimeMixSplit);
        } else {
            fusions.prefill.retain(|fusion| !GROUPS.contains(fusion));
        }
        fusions
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// The file, its syntax (unknown fields included), its schema, or a choice that no plan can have.
    pub fn load(path: &Path) -> Result<Plan, PlanError> {
        Plan::parse(&file::text(path)?, path).map_err(|error| error.in_file(path))
    }

    /// The plan in a text, as [`Plan::load`]; `path` says in errors where the text is from. Evidence of another content
    /// than the text's is left out.
    ///
    /// # Errors
    /// Its syntax (unknown fields included), its schema, or a choice that no plan can have.
    pub fn parse(text: &str, path: &Path) -> Result<Plan, PlanError> {
        // First, for other schemas have other fields.
        if let Ok(Versioned { schema }) = ron::from_str(text)
            && schema != SCHEMA
        {
            return Err(PlanError::Schema(schema));
        }
        let plan: Plan = ron::from_str(text).map_err(|e| PlanError::Parse {
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
        if !(1..=65535).contains(&plan.multiprocessors) {
            return Err(PlanError::Multiprocessors(plan.multiprocessors));
        }
        if let Some(format) = plan.interleave.iter().find(|format| format.interleaved().is_none()) {
            return Err(PlanError::Interleave(*format));
        }
        if let Some(name) = plan.names().find(|name| name.len() > MOST_NAME_BYTES || name.contains(char::is_control)) {
            return Err(PlanError::Name(name.len()));
        }
        let mut keys = BTreeSet::new();
        if let Some(choice) = plan.choices.iter().find(|choice| !keys.insert(&choice.key)) {
            return Err(PlanError::Twice(choice.key.to_string()));
        }
        if plan.invariant && !plan.is_invariant_throughout() {
            return Err(PlanError::Invariant);
        }
        match plan.k_major.iter().find(|role| **role != LayerWeight::FfnValue) {
            Some(role) => Err(PlanError::KMajor(*role)),
            None => Ok(plan.without_lost_evidence()),
        }
    }

    /// Every name in it.
    fn names(&self) -> impl Iterator<Item = &String> {
        let device = [&self.device.adapter, &self.device.driver, &self.device.backend, &self.device.wgpu];
        let of_choices = self.choices.iter().flat_map(|choice| {
            let config = choice.config.iter().flat_map(|(name, value)| [name, value]);
            config.chain([&choice.key.op, &choice.variant, &choice.source])
        });
        let of_evidence = self.evidence.iter().flat_map(|evidence| {
            let scenarios = evidence.scenarios.iter().map(|of| &of.scenario);
            scenarios.chain([&evidence.plan, &evidence.model, &evidence.quality_hash, &evidence.ledger])
        });
        device.into_iter().chain(of_choices).chain(of_evidence)
    }

    /// The format on the GPU of a matrix that has this one in the file.
    pub fn format_on_gpu(&self, weight: Weight, in_file: Format) -> Format {
        let is_k_major = matches!(weight, Weight::Layer(_, role) if self.k_major.contains(&role));
        let k_major = in_file.k_major().filter(|_| is_k_major);
        let interleaved = in_file.interleaved().filter(|_| self.interleave.contains(&in_file));
        k_major.or(interleaved).unwrap_or(in_file)
    }

    /// The precision of its class: that of its products, or of its state where that is coarser.
    pub fn least_precise(&self, catalogue: &Catalogue) -> Precision {
        let class = self.class(catalogue);
        class.products.max(class.state.precision())
    }

    /// The plan without kernels less precise than that, nor such a state. Where it now takes matrix units for all of a
    /// layer's matrices at once, those whose weights f16 holds go alone: adapters, in other formats as a rule, would
    /// keep the others from the units.
    #[must_use]
    pub fn at_most(mut self, precision: Precision, catalogue: &Catalogue) -> Plan {
        self.choices.retain(|choice| choice.precision(catalogue) <= precision);
        if precision < Precision::F16 && self.precision >= Precision::F16 {
            self.fusions.prefill.retain(|fusion| !GROUPS.contains(fusion));
        }
        let state = if self.state.precision() <= precision { self.state } else { StateFormat::F32 };
        Plan { precision: self.precision.min(precision), state, ..self }
    }

    /// A device's limits with the number of multiprocessors that the plan was made with.
    pub fn limits(&self, device: &Limits) -> Limits {
        Limits { multiprocessors: self.multiprocessors, ..device.clone() }
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
    pub fn check(
        &self,
        device: &DeviceFingerprint,
        model: &ModelShape,
        catalogue: &Catalogue,
    ) -> Result<(), PlanError> {
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
        self.check_kernels(model, catalogue)
    }

    /// Checks everything but the device.
    ///
    /// # Errors
    /// The first thing that differs.
    pub fn check_kernels(&self, model: &ModelShape, catalogue: &Catalogue) -> Result<(), PlanError> {
        if self.model != *model {
            let norm = |m: &ModelShape| if m.embedding_norm { "" } else { ", no norm of the embedding" };
            let head = |m: &ModelShape| if m.output_head { "" } else { ", no output head" };
            let text = |m: &ModelShape| {
                format!("{} layers of width {}, vocabulary {}{}{}", m.layers, m.width, m.vocab, norm(m), head(m))
            };
            return Err(PlanError::Model { plan: text(&self.model), here: text(model) });
        }
        self.choices.iter().try_for_each(|choice| choice.check(catalogue))
    }

    /// Takes a kernel for a kind of op instance, in place of the one that it had.
    pub fn adopt(&mut self, choice: Choice) {
        self.choices.retain(|other| other.key != choice.key);
        self.choices.push(choice);
    }

    /// What the plan chose for instances like this one: for its own bucket, then for the larger ones that it names; a
    /// single row has nothing in common with larger buckets and takes its own only. The boolean says whether it is the
    /// instance's own bucket.
    fn choices_for(&self, instance: &Instance, catalogue: &Catalogue) -> Vec<(&Choice, bool)> {
        let key = TuningKey::of(instance);
        let serves = |bucket: u32| bucket == key.up_to_rows || (bucket > key.up_to_rows && key.up_to_rows > 1);
        let like = |c: &&Choice| serves(c.key.up_to_rows) && c.key.in_bucket(key.up_to_rows) == key;
        let mut found: Vec<&Choice> = self.choices.iter().filter(like).collect();
        found.retain(|c| catalogue.allows(&c.key.op, &c.variant));
        found.sort_by_key(|c| c.key.up_to_rows);
        found.into_iter().map(|c| (c, c.key.up_to_rows == key.up_to_rows)).collect()
    }

    /// The variant and configuration that an instance takes, as far as can be told without a text: a device whose
    /// limits refuse its kernel takes another.
    ///
    /// # Errors
    /// As [`Plan::choose`].
    pub fn first_admitted<'c>(
        &self,
        instance: &Instance,
        limits: &Limits,
        catalogue: &'c Catalogue,
    ) -> Result<Option<(&'c Variant, Config)>, PlanError> {
        for (choice, is_own_bucket) in self.choices_for(instance, catalogue) {
            let (variant, config) = choice.resolve(catalogue)?;
            match if is_own_bucket { Ok(()) } else { variant.admits(instance, &config, limits) } {
                Ok(()) => return Ok(Some((catalogue.taken(instance.op.name(), variant), config))),
                Err(KernelError::Refused(_)) => {}
                Err(KernelError::Text(error)) => return Err(error.into()),
            }
        }
        Ok(default_kernel::first_admitted(instance, self.precision, limits, catalogue, None)?)
    }

    /// The variant and configuration for an instance that have the bits of another one's: the first of the defaults
    /// that adds up in this order ([`Variant::sums`]); `None` if none does.
    ///
    /// # Errors
    /// A file is wrong.
    pub fn first_with_sums<'c>(
        &self,
        sums: &str,
        instance: &Instance,
        limits: &Limits,
        catalogue: &'c Catalogue,
    ) -> Result<Option<(&'c Variant, Config)>, PlanError> {
        Ok(default_kernel::first_admitted(instance, self.precision, limits, catalogue, Some(sums))?)
    }

    /// The kernel for an instance: the plan's choice for its bucket, else for a larger one, else the default.
    ///
    /// # Errors
    /// The choice for this very bucket is refused, no variant serves the instance, or a file is wrong.
    pub fn choose<'c>(
        &self,
        instance: &Instance,
        limits: &Limits,
        catalogue: &'c Catalogue,
    ) -> Result<(&'c Variant, Config, Kernel), PlanError> {
        for (choice, is_own_bucket) in self.choices_for(instance, catalogue) {
            let (variant, config) = choice.resolve(catalogue)?;
            // Speed heuristics are about the bucket that was measured; a smaller one is for the default where they
            // prune the choice.
            let admitted = if is_own_bucket { Ok(()) } else { variant.admits(instance, &config, limits) };
            match admitted.and_then(|()| Kernel::new(variant, instance, &config, limits)) {
                Ok(kernel) => return Ok((catalogue.taken(instance.op.name(), variant), config, kernel)),
                Err(KernelError::Text(error)) => return Err(error.into()),
                Err(KernelError::Refused(refusal)) if is_own_bucket => {
                    return Err(PlanError::Refused { kernel: variant.label(&config), refusal });
                }
                Err(KernelError::Refused(_)) => {}
            }
        }
        default_kernel(instance, self.precision, limits, catalogue)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
