//! A variant: one way to compute an op. One WGSL file, complete by itself.

use crate::config::{Config, ConfigError, SpelledConfig};
use crate::heuristics::Heuristics;
use crate::library::Library;
use crate::wgsl::{Declared, Names, Outline, Rule, Setting, TextError};
use crate::{Feature, Instance, KernelError, Knows, Limits, Packed, Precision, Refusal};
use std::sync::Arc;
use wgoose_graph::Format;

/// One way to compute an op.
#[derive(Clone, Debug)]
pub struct Variant {
    folder: String,
    name: String,
    path: Arc<str>,
    idea: String,
    grid: Rule,
    partials: Option<Rule>,
    tunables: Vec<Declared>,
    places: Vec<(Option<String>, u32)>,
    library: Arc<Library>,
    heuristics: Arc<Heuristics>,
}

impl Variant {
    /// The variant in a file of the library.
    ///
    /// # Errors
    /// The file lacks what every variant says.
    pub(crate) fn new(library: &Arc<Library>, path: &Arc<str>) -> Result<Variant, TextError> {
        let document = library.document(path)?;
        let lacks = |what: &str| TextError::at(path, 1, format!("a kernel file says its {what}: '// {what}: ..'"));
        let mut parts = path.split('/').skip(1);
        let (Some(folder), Some(name), None) = (parts.next(), parts.next(), parts.next()) else {
            return Err(TextError::at(path, 1, "kernels of ops are in ops/OP/VARIANT.wgsl"));
        };
        Ok(Variant {
            folder: folder.to_owned(),
            name: name.to_owned(),
            path: Arc::clone(path),
            idea: document.idea.clone().ok_or_else(|| lacks("idea"))?,
            grid: document.grid.clone().ok_or_else(|| lacks("grid"))?,
            partials: document.partials.clone(),
            tunables: document.tunables.clone(),
            places: document.places.clone(),
            library: Arc::clone(library),
            heuristics: Arc::default(),
        })
    }

    /// The same, whose configurations these rules may prune.
    pub(crate) fn with_heuristics(&self, heuristics: &Arc<Heuristics>) -> Variant {
        Variant { heuristics: Arc::clone(heuristics), ..self.clone() }
    }

    /// `folder/name`.
    pub fn id(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }

    /// The folder of the ops that it serves.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Its name among the variants of the folder.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One sentence: how it computes the op.
    pub fn idea(&self) -> &str {
        &self.idea
    }

    /// Its file, below the folder of the kernels, without `.wgsl`.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Whether it makes the same kernels as another variant of its op, as their files differ in comments at most.
    pub fn is_copy_of(&self, other: &Variant) -> bool {
        let documents = (self.library.document(&self.path), other.library.document(&other.path));
        matches!(documents, (Ok(own), Ok(other)) if own.substance().eq(other.substance()))
    }

    /// Whether some configuration needs a device feature.
    pub fn may_need(&self, feature: Feature) -> bool {
        self.library.may_need(&self.path, feature)
    }

    /// Its place among the variants that an op tries without a plan, the smallest first; `None` if only a plan takes
    /// it.
    pub(crate) fn default_place(&self, op: &str) -> Option<u32> {
        let of_op = self.places.iter().find(|(name, _)| name.as_deref() == Some(op));
        of_op.or_else(|| self.places.iter().find(|(name, _)| name.is_none())).map(|(_, place)| *place)
    }

    /// Names and choices of its tunables, in the order of declaration.
    pub fn tunables(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tunables.iter().map(|t| (t.name.as_str(), t.choices.as_slice()))
    }

    /// The default of every tunable.
    pub fn default_config(&self) -> Config {
        Config::new(self.tunables.iter().map(|t| t.default as u8).collect())
    }

    /// Every configuration: the default, then what differs from it in one tunable, in two, ...
    pub fn configs(&self) -> Vec<Config> {
        let default = self.default_config();
        let mut all = Config::all(&self.tunables);
        all.sort_by_key(|config| config.distance(&default));
        all
    }

    /// Whether a configuration takes the default of every tuned import.
    pub(crate) fn has_default_imports(&self, config: &Config) -> bool {
        let is_default = |(t, choice): (&Declared, &u8)| !t.is_import || t.default == usize::from(*choice);
        self.tunables.iter().zip(config.choices()).all(is_default)
    }

    /// Reads a configuration as plans spell it.
    ///
    /// # Errors
    /// A tunable that is missing or unknown, or a choice that there is not.
    pub fn config(&self, spelled: &SpelledConfig) -> Result<Config, ConfigError> {
        Config::read(&self.id(), &self.tunables, spelled)
    }

    /// A configuration as plans spell it.
    pub fn spell(&self, config: &Config) -> SpelledConfig {
        config.spelled(&self.tunables)
    }

    /// Its id and a configuration, for people.
    pub fn label(&self, config: &Config) -> String {
        let choices = self.tunables.iter().zip(config.choices());
        let of =
            |(t, c): (&Declared, &u8)| format!(" {}={}", t.name, t.choices.get(usize::from(*c)).map_or("?", |c| c));
        self.id() + &choices.map(of).collect::<String>()
    }

    /// The value of a numeric tunable on a device with these limits; `None` if it has no such tunable or that is no
    /// number.
    pub fn tunable(&self, config: &Config, name: &str, limits: &Limits) -> Option<u32> {
        let at = self.tunables.iter().position(|t| t.name == name)?;
        let choice = self.tunables[at].choices.get(usize::from(*config.choices().get(at)?))?;
        self.library.choice_value(&self.path, choice, limits)
    }

    /// The least precise of what it computes with.
    pub fn precision(&self, config: &Config) -> Precision {
        self.library.traits(&self.path, &|name| self.import(config, name)).precision
    }

    /// Whether only a plan takes a configuration.
    pub fn is_plan_only(&self, config: &Config) -> bool {
        self.library.traits(&self.path, &|name| self.import(config, name)).is_plan_only
    }

    /// How a configuration adds sums up; `None` if none of its files says, or one says that no other kernel does so.
    /// Kernels of one op that have the same give the same bits for a row, whatever their tiles and however many rows
    /// there are.
    pub fn sums(&self, config: &Config) -> Option<String> {
        self.library.traits(&self.path, &|name| self.import(config, name)).sums
    }

    pub(crate) fn library(&self) -> &Library {
        &self.library
    }

    pub(crate) fn outline(&self, instance: &Instance, config: &Config) -> Result<Arc<Outline>, TextError> {
        self.library.outline(&self.path, &|operand| instance.reader(operand), &|name| self.import(config, name))
    }

    /// The files that its kernel is made of at an instance, its own first: paths as [`Variant::path`].
    ///
    /// # Errors
    /// A file that is wrong.
    pub fn files(&self, instance: &Instance, config: &Config) -> Result<Vec<Arc<str>>, TextError> {
        Ok(self.outline(instance, config)?.files.clone())
    }

    /// Workgroups of its dispatch.
    ///
    /// # Errors
    /// Its grid has no value.
    pub fn workgroups(&self, instance: &Instance, config: &Config, limits: &Limits) -> Result<u64, TextError> {
        let outline = self.outline(instance, config)?;
        let (op, device) = (|name: &str| instance.fact(name), |name: &str| limits.named(name));
        outline.number(&self.grid, &Names::new(&outline, &self.setting(config, &op, &device)))
    }

    /// Values that its workgroups hand to one another through memory.
    ///
    /// # Errors
    /// Their number has no value.
    pub fn partials(&self, instance: &Instance, config: &Config, limits: &Limits) -> Result<u64, TextError> {
        let Some(partials) = &self.partials else { return Ok(0) };
        let outline = self.outline(instance, config)?;
        let (op, device) = (|name: &str| instance.fact(name), |name: &str| limits.named(name));
        outline.number(partials, &Names::new(&outline, &self.setting(config, &op, &device)))
    }

    pub(crate) fn setting<'a>(
        &'a self,
        config: &'a Config,
        op: &'a dyn Fn(&str) -> Option<crate::wgsl::Fact>,
        device: &'a dyn Fn(&str) -> Option<u64>,
    ) -> Setting<'a> {
        Setting { tunables: &self.tunables, chosen: config.choices(), op, device }
    }

    /// Whether a configuration is legal at an instance on a device with these limits, as far as can be told without its
    /// text.
    ///
    /// # Errors
    /// The constraint, or a file that is wrong.
    pub fn is_legal(&self, instance: &Instance, config: &Config, limits: &Limits) -> Result<(), KernelError> {
        let outline = self.outline(instance, config)?;
        self.check(&outline, instance, config, limits, false)
    }

    /// What is packed of an instance, as far as the kernel of a configuration can take each so.
    pub fn takes(&self, instance: &Instance, config: &Config, limits: &Limits) -> Packed {
        let neither = Packed { x: false, y: false, ..instance.packed };
        let can = |packed: Packed| self.is_legal(&Instance { packed, ..instance.clone() }, config, limits).is_ok();
        let x = instance.packed.x && can(Packed { x: true, ..neither });
        let y = instance.packed.y && can(Packed { y: true, ..neither });
        Packed { x, y, ..neither }
    }

    /// Refuses what is not legal, and if `with_heuristics` what a speed heuristic prunes.
    pub(crate) fn check(
        &self,
        outline: &Outline,
        instance: &Instance,
        config: &Config,
        limits: &Limits,
        with_heuristics: bool,
    ) -> Result<(), KernelError> {
        if let Some(missing) = outline.needs.iter().find(|f| !limits.features.contains(f)) {
            return Err(Refusal::Feature(*missing).into());
        }
        if let Some((operand, format, readers)) = outline.missing.clone() {
            return Err(Refusal::Reader { operand, format, readers }.into());
        }
        let is_unknown = |(operand, knows): &(&str, Knows)| match knows {
            Knows::Size(name) => !outline.depends_on(name),
            Knows::Readers(_) => !outline.reads_by_format(operand),
        };
        if let Some((operand, knows)) = instance.packed.operands().find(is_unknown) {
            return Err(Refusal::Packed { operand, knows }.into());
        }
        let (op, device) = (|name: &str| instance.fact(name), |name: &str| limits.named(name));
        let setting = self.setting(config, &op, &device);
        let names = Names::new(outline, &setting);
        // Before the rules, which may divide by it: half of one multiprocessor is none.
        if outline.number(&self.grid, &names) == Ok(0) {
            let (path, line, rule) = (Arc::clone(&self.path), self.grid.line, self.grid.text.clone());
            return Err(Refusal::Illegal { path, line, rule, reason: "a grid without workgroups".to_owned() }.into());
        }
        if let Some(broken) = outline.broken(&names)? {
            return Err(Refusal::broken(broken).into());
        }
        if with_heuristics {
            let mut about = outline.files.iter().flat_map(|path| self.heuristics.about(path, limits.vendor));
            // A rule may be without a value where a folder has another file in the place of the one that it is about.
            if let Some(heuristic) = about.find(|heuristic| heuristic.rule.expression.truth(&names) == Ok(false)) {
                return Err(Refusal::pruned(heuristic).into());
            }
        }
        outline.number(&self.grid, &names)?;
        Ok(())
    }

    /// Whether a configuration is legal and no speed heuristic prunes it: what is tried unless it is asked for by name.
    ///
    /// # Errors
    /// The constraint or heuristic, or a file that is wrong.
    pub fn admits(&self, instance: &Instance, config: &Config, limits: &Limits) -> Result<(), KernelError> {
        let outline = self.outline(instance, config)?;
        self.check(&outline, instance, config, limits, true)
    }

    /// Whether a speed heuristic about its own file prunes every configuration: none need be asked.
    pub(crate) fn is_pruned_whole(&self, instance: &Instance, limits: &Limits) -> bool {
        let Ok(outline) = self.outline(instance, &self.default_config()) else { return false };
        let (op, device) = (|name: &str| instance.fact(name), |name: &str| limits.named(name));
        // Without tunables only rules that do without them have a value.
        let setting = Setting { tunables: &[], chosen: &[], op: &op, device: &device };
        let names = Names::new(&outline, &setting);
        let mut about = self.heuristics.about(&self.path, limits.vendor);
        about.any(|heuristic| heuristic.rule.expression.truth(&names) == Ok(false))
    }

    /// Hash of all files that a configuration may be made of where matrices have these formats, comments apart, 32 hex
    /// digits.
    ///
    /// # Errors
    /// A file that is not there.
    pub(crate) fn source_hash(&self, formats: &[Format], config: &Config) -> Result<String, TextError> {
        self.library.source_hash(&self.path, formats, &|name| self.import(config, name))
    }

    /// The choice of a tuned import.
    fn import(&self, config: &Config, name: &str) -> Option<String> {
        let at = self.tunables.iter().position(|t| t.name == name)?;
        let choice = config.choices().get(at).map_or(self.tunables[at].default, |c| usize::from(*c));
        self.tunables[at].choices.get(choice).cloned()
    }
}
