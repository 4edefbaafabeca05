//! How an arm differs from the baseline: what a plan can say, another model, other kernel files, another way to drive
//! it.

use super::arm::Arm;
use super::source::{Source, SourceError};
use crate::driver::Drive;
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::space::{InstanceGroup, groups};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_graph::{Format, FusionSet, LayerWeight, Weight};
use wgoose_kernels::plan::Choice;
use wgoose_kernels::{
    Catalogue, Config, ConfigError, HandOver, KernelError, LibraryError, Limits, Plan, PlanError, Precision,
    StateFormat,
};
use wgoose_loader::Model;
use wgoose_plans::catalogue;
use wgoose_runtime::Device;

/// A difference; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Difference {
    /// The plan in this file instead; what follows differs from it.
    pub plan: Option<PathBuf>,
    /// Fusions that it has besides, each in the passes that it is for.
    pub with: FusionSet,
    /// Fusions that it does without, in all passes.
    pub without: FusionSet,
    /// Most tokens in one pass when a prompt is read.
    pub chunk: Option<u32>,
    /// Formats whose blocks are interleaved.
    pub interleave: Option<BTreeSet<Format>>,
    /// Matrices of a layer that are K-major.
    pub k_major: Option<BTreeSet<LayerWeight>>,
    /// Whether decoding runs as a persistent kernel, of as many workgroups as the device has multiprocessors.
    pub persistent: Option<bool>,
    /// How the stages of a persistent kernel hand values over.
    pub hand_over: Option<HandOver>,
    /// The least precise arithmetic of kernels.
    pub precision: Option<Precision>,
    /// How the WKV state is stored.
    pub state: Option<StateFormat>,
    /// Kernels for op instances. Tunables that are not named are those of the baseline where it names the same variant,
    /// else as near to their defaults as the op instance and the device allow.
    pub kernels: Vec<Seed>,
    /// A folder of kernels, laid out like `kernels-wgsl/`, that take the places of the program's.
    pub kernel_files: Option<PathBuf>,
    /// Another model.
    pub model: Option<Source>,
    /// The same synthetic model in other formats.
    pub mix: Option<String>,
    /// How the plan is driven.
    pub drive: Option<Drive>,
}

/// Why there is no such arm.
#[derive(Debug, thiserror::Error)]
pub enum DifferenceError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder of kernels.
    #[error(transparent)]
    Kernels(#[from] LibraryError),
    /// The model.
    #[error(transparent)]
    Model(#[from] SourceError),
    /// A variant that there is not.
    #[error("there is no kernel {0}")]
    Unknown(String),
    /// A tunable that there is not, or a choice.
    #[error("{kernel}: {source}")]
    Config {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        source: ConfigError,
    },
    /// A kernel that no pass has a place for.
    #[error("{kernel} serves no op instance of the workload{}", why.as_ref().map_or(String::new(), |why| format!(": {why}")))]
    NoPlace {
        /// The kernel.
        kernel: String,
        /// Why it was refused at one that has its op and sizes, if there is one.
        why: Option<String>,
    },
    /// A fusion that is not there, or is there already.
    #[error("the plan that it differs from {} the fusion {fusion}", if *has { "has" } else { "does not have" })]
    Fusion {
        /// Which.
        fusion: String,
        /// Whether it has it.
        has: bool,
    },
    /// A way to hand over that nothing takes.
    #[error("only a megakernel synchronises its phases: say persistent: true")]
    NothingHandedOver,
    /// An arm that runs as the baseline does.
    #[error("{0} is the baseline: the workload runs the same kernels in the same way")]
    Nothing(String),
    /// The difference in formats of a model that was named by hand.
    #[error("only a synthetic model has other mixes: name another model")]
    NoMix,
}

impl DifferenceError {
    /// Whether another device may have such an arm.
    pub fn is_of_the_device(&self) -> bool {
        use DifferenceError::{Fusion, NoPlace, Nothing};
        matches!(self, NoPlace { .. } | Fusion { .. } | Nothing(_))
    }
}

/// Where differences are made.
pub struct Ground<'a> {
    /// The device.
    pub device: &'a Device,
    /// What is timed.
    pub scenarios: &'a [Scenario],
    /// Where paths begin.
    pub folder: &'a Path,
    /// Where synthetic models are kept.
    pub models: &'a Path,
    /// The baseline's model, as it was declared.
    pub source: Option<&'a Source>,
    /// Is told how far a model is written.
    pub progress: &'a dyn Fn(u64, u64),
}

impl Difference {
    /// An arm that differs so from another one; where nothing is named it is that one, whose difference from itself is
    /// noise.
    ///
    /// # Errors
    /// There is no such arm, or it does not differ in what is named: its reason.
    pub fn of(&self, from: &Arm, name: &str, ground: &Ground<'_>) -> Result<Arm, DifferenceError> {
        if self.plan.is_none() {
            self.differs_in_fusions(&from.plan)?;
        }
        let arm = self.on(from, name, ground)?;
        let is_named = *self != Difference::default();
        if is_named && arm.runs_as(from, ground.scenarios, ground.device.limits()) {
            return Err(DifferenceError::Nothing(format!("'{name}'")));
        }
        Ok(arm)
    }

    /// An arm that has all this, whatever of it the other one has, and is as the other one else.
    ///
    /// # Errors
    /// There is no such arm: its reason.
    pub fn on(&self, from: &Arm, name: &str, ground: &Ground<'_>) -> Result<Arm, DifferenceError> {
        let model = match self.source(ground)? {
            Some(source) => source.open(ground.models, ground.folder, ground.progress)?,
            None => Arc::clone(&from.model),
        };
        let catalogue = match &self.kernel_files {
            Some(folder) => catalogue::with_folder(&ground.folder.join(folder))?,
            None => Arc::clone(&from.catalogue),
        };
        let mut plan = match &self.plan {
            Some(path) => self.read(&ground.folder.join(path), &model, &catalogue, ground.device)?,
            None => Plan { model: *model.shape(), ..from.plan.clone() },
        };
        if self.kernel_files.is_some() {
            // The kernels of those names, as they are in the folder.
            let choices = plan.choices.iter().map(|choice| choice.for_key(choice.key.clone(), &catalogue));
            plan.choices = choices.collect::<Result<_, _>>()?;
        }
        self.fuse(&mut plan);
        plan.prefill_chunk = self.chunk.unwrap_or(plan.prefill_chunk);
        plan.interleave = self.interleave.clone().unwrap_or(plan.interleave);
        plan.k_major = self.k_major.clone().unwrap_or(plan.k_major);
        plan.state = self.state.unwrap_or(plan.state);
        if let Some(precision) = self.precision {
            plan = Plan { precision, ..plan.at_most(precision, &catalogue) };
        }
        if let Some(is_persistent) = self.persistent {
            plan.persistent = is_persistent.then_some(plan.multiprocessors);
        }
        plan.hand_over = match self.hand_over {
            Some(_) if plan.persistent.is_none() => return Err(DifferenceError::NothingHandedOver),
            hand_over => hand_over.unwrap_or(plan.hand_over),
        };
        for kernel in &self.kernels {
            self.adopt(kernel, &mut plan, (&model, &catalogue), ground)?;
        }
        let drive = self.drive.unwrap_or(from.drive);
        Ok(Arm { name: name.to_owned(), plan: Plan { evidence: None, ..plan }, model, catalogue, drive })
    }

    /// The model, where it is another.
    fn source(&self, ground: &Ground<'_>) -> Result<Option<Source>, DifferenceError> {
        match (&self.model, &self.mix) {
            (None, None) => Ok(None),
            (Some(source), None) => Ok(Some(source.clone())),
            (own, Some(mix)) => {
                let source = own.as_ref().or(ground.source).ok_or(DifferenceError::NoMix)?;
                Ok(Some(source.in_mix(mix)?))
            }
        }
    }

    fn read(
        &self,
        path: &Path,
        model: &Model,
        catalogue: &Catalogue,
        device: &Device,
    ) -> Result<Plan, DifferenceError> {
        let plan = Plan::load(path)?;
        let checked = match self.kernel_files {
            // Its kernels are those of the folder.
            Some(_) => plan.check(device.fingerprint(), model.shape(), &catalogue::embedded()),
            None => plan.check(device.fingerprint(), model.shape(), catalogue),
        };
        checked.map_err(|error| error.in_file(path))?;
        Ok(plan)
    }

    /// That each fusion that is named makes a difference.
    fn differs_in_fusions(&self, plan: &Plan) -> Result<(), DifferenceError> {
        let sets = [&plan.fusions.decode, &plan.fusions.batched, &plan.fusions.prefill];
        let absent = self.without.iter().find(|fusion| !sets.iter().any(|set| set.contains(fusion)));
        let there = self.with.iter().find(|fusion| sets.iter().all(|set| set.contains(fusion)));
        match absent.map(|fusion| (fusion, false)).or(there.map(|fusion| (fusion, true))) {
            Some((fusion, has)) => Err(DifferenceError::Fusion { fusion: fusion.to_string(), has }),
            None => Ok(()),
        }
    }

    fn fuse(&self, plan: &mut Plan) {
        let fusions = &mut plan.fusions;
        for (set, is_decode) in
            [(&mut fusions.decode, true), (&mut fusions.batched, false), (&mut fusions.prefill, false)]
        {
            set.retain(|fusion| !self.without.contains(fusion));
            for fusion in self.with.iter().filter(|fusion| is_decode || !fusion.is_for_decode()) {
                // Where both are, the other one leaves it nothing to do.
                set.retain(|other| fusion.instead_of() != Some(*other));
                set.insert(*fusion);
            }
        }
    }

    /// Takes a kernel wherever it fits.
    fn adopt(
        &self,
        kernel: &Seed,
        plan: &mut Plan,
        (model, catalogue): (&Model, &Catalogue),
        ground: &Ground<'_>,
    ) -> Result<(), DifferenceError> {
        let Seed { op, variant: name, config: named, .. } = kernel;
        let variant = catalogue.variant(op, name).ok_or_else(|| DifferenceError::Unknown(format!("{op}/{name}")))?;
        let mut spelled = variant.spell(&variant.default_config());
        spelled.extend(named.clone());
        // That there are such tunables, and such choices of them.
        variant.config(&spelled).map_err(|source| DifferenceError::Config { kernel: kernel.to_string(), source })?;
        let says_so = |config: &Config| {
            let spelled = variant.spell(config);
            named.iter().all(|(tunable, choice)| spelled.get(tunable) == Some(choice))
        };
        let configs: Vec<Config> = variant.configs().into_iter().filter(says_so).collect();
        let limits: Limits = plan.limits(ground.device.limits());
        let (mut adopted, mut why) = (false, None);
        for site in sites(plan, model, ground.scenarios).iter().filter(|site| kernel.fits(&site.key)) {
            let refusal = |config: &Config| variant.is_legal(&site.instance, config, &limits).err();
            // What the plan has there says the rest, if it is the same variant.
            let chosen = plan.choices.iter().find(|choice| choice.key == site.key && choice.variant == *name);
            let own = chosen.and_then(|choice| {
                let mut spelled = choice.config.clone();
                spelled.extend(named.clone());
                variant.config(&spelled).ok()
            });
            let tried = own.as_ref().map_or(&configs[..], std::slice::from_ref);
            match tried.iter().find(|config| refusal(config).is_none()) {
                Some(config) => plan.adopt(Choice::new(site.key.clone(), variant, config)?),
                None => {
                    why = why.or_else(|| tried.first().and_then(refusal));
                    continue;
                }
            }
            adopted = true;
        }
        let why = why.map(|refusal: KernelError| refusal.to_string());
        if adopted { Ok(()) } else { Err(DifferenceError::NoPlace { kernel: kernel.to_string(), why }) }
    }
}

/// The op instances of what is timed with a plan.
pub fn sites(plan: &Plan, model: &Model, scenarios: &[Scenario]) -> Vec<InstanceGroup> {
    let format = |weight: Weight| plan.format_on_gpu(weight, model.tensor(weight).format());
    let mut sites: Vec<InstanceGroup> = Vec::new();
    for scenario in scenarios {
        let fusions = match scenario {
            Scenario { tokens: 1, sequences: 1, .. } => &plan.fusions.decode,
            Scenario { tokens: 1, .. } => &plan.fusions.batched,
            _ => &plan.fusions.prefill,
        };
        // A prompt is read in chunks.
        let tokens = scenario.tokens.min((plan.prefill_chunk / scenario.sequences.max(1)).max(1));
        for site in groups(model.shape(), Scenario { tokens, ..*scenario }, fusions, &format) {
            if sites.iter().all(|known| known.key != site.key) {
                sites.push(site);
            }
        }
    }
    sites
}
