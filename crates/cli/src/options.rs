//! Options that several verbs share.

use crate::announce::{announce, announce_adapter};
use crate::failure::{Failure, WrongUsage};
use bytesize::ByteSize;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use wgoose_bench::{ConfiguredEngine, Subject};
use wgoose_files::default_cache_dir;
use wgoose_kernels::{Catalogue, Differing, LibraryError, Precision, StateFormat};
use wgoose_loader::Container;
use wgoose_loader::adapter::AdapterSource;
use wgoose_plans::catalogue;
use wgoose_runtime::{DeviceLimits, GpuExecutor, Residency};
use wgoose_session::{Backend, PlanChoice, Session, SessionBuilder, VocabularyChoice};

/// How a plan is named: see [`PlanChoice::named`]. A model is no plan.
pub(crate) fn plan_choice() -> impl TypedValueParser<Value = PlanChoice> {
    OsStringValueParser::new().try_map(|name| match PlanChoice::named(Some(name)) {
        PlanChoice::File(path) if Container::of_file(&path).is_some() => {
            Err("it is a model, not a plan: plans are written by wgoose tune")
        }
        choice => Ok(choice),
    })
}

/// How a vocabulary is named: see [`VocabularyChoice::named`].
pub(crate) fn vocabulary_choice() -> impl TypedValueParser<Value = VocabularyChoice> {
    OsStringValueParser::new().map(|name| VocabularyChoice::named(Some(name)))
}

/// Plans as [`plan_choice`] has them, and the one that is found by name too.
pub(crate) fn one_of_plans() -> impl TypedValueParser<Value = PlanChoice> {
    plan_choice().map(|plan| if plan.name().is_some_and(|name| name == "found") { PlanChoice::Find } else { plan })
}

/// Where a model runs, and how.
#[derive(Args)]
#[command(next_help_heading = "Device and plan")]
pub(crate) struct RunOptions {
    /// Run on the GPU, or on the slow CPU reference that defines correct results.
    #[arg(long, value_enum, default_value_t = BackendName::Gpu)]
    pub(crate) backend: BackendName,
    /// GPU adapter: an index, PCI address, UUID or name from `wgoose devices`, an unambiguous part of a name, or a
    /// backend: vulkan, metal, dx12, gl.
    #[arg(long)]
    pub(crate) device: Option<String>,
    /// Limits and features that kernels may use: all of the adapter's (own), the WebGPU defaults (webgpu), or the
    /// WebGPU defaults without timestamps and pipeline cache (low).
    #[arg(long, value_enum, default_value_t = LimitsName::Own)]
    pub(crate) limits: LimitsName,
    /// Plan file of `wgoose tune`, or `default` for the device's default plan. Without this option the plan that
    /// `wgoose tune` filed for this GPU and model is used, else a shipped plan, else the default.
    #[arg(long, value_name = "FILE|default", value_parser = plan_choice())]
    plan: Option<PlanChoice>,
    /// Accept a plan file that was tuned on another device.
    #[arg(long)]
    pub(crate) foreign_plan: bool,
    /// Ignore tensors that no op reads, which makes it another model. Without this option such a file is refused.
    #[arg(long)]
    pub(crate) ignore_unknown: bool,
    /// Vocabulary for a model file without one: a file like rwkv_vocab_v20230424.txt (each line an id, a Python literal
    /// and its length), or `world`. Default for models with 65,536 tokens: world.
    #[arg(long, value_name = "FILE|world", value_parser = vocabulary_choice())]
    pub(crate) vocab: Option<VocabularyChoice>,
    /// Merge an adapter into the model when it is opened: LoRA, PiSSA, DiSHA (Bone) or MiSS of RWKV-PEFT, or a folder
    /// that peft saved. SCALE multiplies the adapter's change; default: alpha / rank if a LoRA file has both, else 1.
    #[arg(long, value_name = "FILE[:SCALE]", value_parser = OsStringValueParser::new().map(AdapterSource::named))]
    adapter: Option<AdapterSource>,
    /// Initial matrices of a PiSSA adapter, before training: init_pissa.pth.
    #[arg(long, value_name = "FILE", requires = "adapter")]
    adapter_initial: Option<PathBuf>,
    /// Prefill chunk: the most prompt tokens in one pass. Default: the plan's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub(crate) chunk: Option<u32>,
    /// Coarsest arithmetic that kernels may use: f32, q15, f16 or q8. The plan's coarser choices are dropped.
    #[arg(long, value_name = "CLASS")]
    pub(crate) precision: Option<Precision>,
    /// Format of the WKV state on the GPU: f32, or f16 in half the memory. Default: the plan's. With --precision f32 or
    /// q15 it is f32.
    #[arg(long, value_name = "FORMAT")]
    pub(crate) state_format: Option<StateFormat>,
    /// Compute identical bits for a sequence at every batch size, at every position in the batch, and however its tokens
    /// are split into passes. Decoding is slower. The state is f32, and the plan's kernels are not used.
    #[arg(long)]
    batch_invariant: bool,
    /// Timeout for one GPU submission, in seconds. Default: 120; 3600 on a device that a CPU emulates.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    patience: Option<u64>,
    #[command(flatten)]
    pub(crate) kernels: KernelOptions,
    #[command(flatten)]
    variants: VariantOptions,
    #[command(flatten)]
    cache: CacheOptions,
    #[command(flatten)]
    memory: MemoryOptions,
}

/// Kernels beside those of the binary.
#[derive(Args, Default)]
#[command(next_help_heading = "Kernels and memory")]
pub(crate) struct KernelOptions {
    /// Also use the kernels in this folder, laid out like kernels-wgsl/. A file replaces the built-in kernel at its
    /// path, or adds one.
    #[arg(long = "kernels", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Read once, so that a command sees one state of the folder.
    #[arg(skip)]
    read: OnceCell<Arc<Catalogue>>,
}

impl KernelOptions {
    /// The kernels; a file that is wrong is an error.
    pub(crate) fn catalogue(&self) -> Result<Arc<Catalogue>, LibraryError> {
        self.read_with(catalogue::with_folder)
    }

    /// The kernels but for those of files that are wrong: [`Catalogue::broken`].
    pub(crate) fn catalogue_in_part(&self) -> Result<Arc<Catalogue>, LibraryError> {
        self.read_with(catalogue::with_folder_in_part)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The same folder, to be read again.
    pub(crate) fn anew(&self) -> KernelOptions {
        KernelOptions { folder: self.folder.clone(), read: OnceCell::new() }
    }

    fn read_with(
        &self,
        read: impl Fn(&Path) -> Result<Arc<Catalogue>, LibraryError>,
    ) -> Result<Arc<Catalogue>, LibraryError> {
        if let Some(known) = self.read.get() {
            return Ok(Arc::clone(known));
        }
        let catalogue = self.folder.as_deref().map_or_else(|| Ok(catalogue::embedded()), read)?;
        Ok(Arc::clone(self.read.get_or_init(|| catalogue)))
    }
}

/// When a command ends, it says which files of the folder differ from the binary's, and which of them it has used.
impl Drop for KernelOptions {
    fn drop(&mut self) {
        let (Some(catalogue), Some(folder)) = (self.read.get(), &self.folder) else { return };
        say_differing(folder, catalogue);
    }
}

/// Says which files of a folder of kernels differ from the binary's, and which of them were used.
pub(crate) fn say_differing(folder: &Path, catalogue: &Catalogue) {
    let differing = catalogue.differing();
    if differing.is_empty() {
        eprintln!("kernels of {}: all as in this program", folder.display());
    }
    for Differing { path, is_new, is_used } in differing {
        let standing = if is_new { "new" } else { "differs from this program's" };
        let used = if is_used { "used" } else { "not used by this run" };
        eprintln!("kernel file {}: {standing}, {used}", folder.join(path).display());
    }
}

/// Variants that serve their ops, whatever the plan says.
#[derive(Args, Default)]
#[command(next_help_heading = "Kernels and memory")]
struct VariantOptions {
    /// Use this variant for its op, whatever the plan says. Repeatable. `wgoose dev kernel` lists variants.
    #[arg(long = "variant", value_name = "OP/VARIANT", value_parser = variant)]
    forced: Vec<(String, String)>,
    /// Made once, so that it is known which were used.
    #[arg(skip)]
    made: OnceCell<Arc<Catalogue>>,
}

/// The op and the variant of an argument `OP/VARIANT`.
pub(crate) fn variant(text: &str) -> Result<(String, String), String> {
    let (op, variant) = text.split_once('/').ok_or("expected OP/VARIANT, such as layer_norm/workgroup")?;
    Ok((op.to_owned(), variant.to_owned()))
}

impl VariantOptions {
    /// These kernels, with the variants forced.
    fn of(&self, catalogue: Arc<Catalogue>) -> Result<Arc<Catalogue>, Failure> {
        if let Some(known) = self.made.get() {
            return Ok(Arc::clone(known));
        }
        let mut forcing = catalogue;
        for (op, variant) in &self.forced {
            forcing = Arc::new(forcing.forcing(op, variant).map_err(|why| WrongUsage(why.to_string()))?);
        }
        Ok(Arc::clone(self.made.get_or_init(|| forcing)))
    }
}

/// When a command ends, it says of each variant that it was to take whether it took it.
impl Drop for VariantOptions {
    fn drop(&mut self) {
        for (variant, is_used) in self.made.get().iter().flat_map(|catalogue| catalogue.forced()) {
            eprintln!(
                "variant {variant}: {}",
                if is_used { "used" } else { "not used by this run: no pass has its op" }
            );
        }
    }
}

/// When weights reach the GPU, and how long they stay.
#[derive(Args, Clone, Copy)]
#[command(next_help_heading = "Kernels and memory")]
pub(crate) struct MemoryOptions {
    /// Most GPU memory to use (600MiB, 2GB, ...). Weights that do not fit are streamed in every pass: same results,
    /// slower.
    #[arg(long, value_name = "SIZE", conflicts_with = "eager", value_parser = size)]
    gpu_budget: Option<ByteSize>,
    /// Upload all weights when the model is opened, not on first use.
    #[arg(long)]
    eager: bool,
}

impl MemoryOptions {
    fn residency(self) -> Residency {
        match self.gpu_budget {
            Some(budget) => Residency::Budget(budget.as_u64()),
            None if self.eager => Residency::Eager,
            None => Residency::Lazy,
        }
    }
}

/// Where compiled kernels are kept.
#[derive(Args)]
#[command(next_help_heading = "Kernels and memory")]
pub(crate) struct CacheOptions {
    /// Cache compiled kernels in this folder. Default: $WGOOSE_CACHE_DIR, else the user's cache folder.
    #[arg(long, value_name = "DIR", conflicts_with = "no_cache")]
    cache_dir: Option<PathBuf>,
    /// Compile every kernel again and cache none.
    #[arg(long)]
    no_cache: bool,
}

impl CacheOptions {
    /// The folder; `None` if nothing is to be kept.
    pub(crate) fn folder(&self) -> Option<PathBuf> {
        if self.no_cache { None } else { self.cache_dir.clone().or_else(default_cache_dir) }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum LimitsName {
    Own,
    Webgpu,
    Low,
}

impl LimitsName {
    /// The limits.
    pub(crate) fn limits(self) -> DeviceLimits {
        match self {
            LimitsName::Own => DeviceLimits::Own,
            LimitsName::Webgpu => DeviceLimits::WebGpu,
            LimitsName::Low => DeviceLimits::Low,
        }
    }

    /// Its name, unless it is the default.
    fn argument(self) -> Option<&'static str> {
        match self {
            LimitsName::Own => None,
            LimitsName::Webgpu => Some("webgpu"),
            LimitsName::Low => Some("low"),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum BackendName {
    Gpu,
    Cpu,
}

/// A size in bytes.
pub(crate) fn size(text: &str) -> Result<ByteSize, String> {
    text.parse().map_err(|_| "expected a size such as 600MiB or 2GB".to_owned())
}

/// A file to be written after a long run: is there a place for it?
pub(crate) fn place() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|path| free_place(path.as_ref()))
}

fn free_place(path: &Path) -> Result<PathBuf, String> {
    match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(folder) if !folder.is_dir() => Err(format!("there is no folder {}", folder.display())),
        _ if path.is_dir() => Err("it is a folder".into()),
        _ if path.exists() && !path.is_file() => Err("it is no ordinary file".into()),
        _ => Ok(path.into()),
    }
}

/// As [`place`], of a file with a file of lines beside it, which must have another name.
pub(crate) fn beside_lines() -> impl TypedValueParser<Value = PathBuf> {
    place().try_map(|path| match path.extension().is_some_and(|e| e == "jsonl") {
        true => Err("measurements go to the file of that name that ends in .jsonl: choose another ending"),
        false => Ok(path),
    })
}

/// The token ids in a file: a JSON list, not empty.
pub(crate) fn tokens(path: &Path) -> Result<Vec<u32>, Failure> {
    let text = wgoose_files::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let tokens: Vec<u32> = serde_json::from_str(&text)
        .map_err(|e| format!("{}: expected a JSON list of token ids: {e}", path.display()))?;
    match tokens.is_empty() {
        true => Err(format!("{}: the list of token ids is empty", path.display()).into()),
        false => Ok(tokens),
    }
}

impl RunOptions {
    pub(crate) fn session(&self) -> Result<SessionBuilder, Failure> {
        let backend = match self.backend {
            BackendName::Gpu => Backend::Gpu,
            BackendName::Cpu => Backend::Cpu,
        };
        let builder = Session::builder()
            .backend(backend)
            .device(self.device.clone())
            .limits(self.limits.limits())
            .plan(self.plan())
            .on_plan(Some(announce))
            .allow_foreign_plan(self.foreign_plan)
            .ignore_unknown(self.ignore_unknown)
            .vocabulary(self.vocab.clone().unwrap_or_default())
            .adapter(self.adapter())
            .on_adapter(Some(announce_adapter))
            .chunk(self.chunk)
            .precision(self.precision)
            .state_format(self.state_format)
            .batch_invariant(self.batch_invariant)
            .patience(self.patience.map(Duration::from_secs))
            .catalogue(self.variants.of(self.kernels.catalogue()?)?)
            .pipeline_cache(self.cache.folder())
            .residency(self.memory.residency());
        Ok(builder)
    }

    /// The adapter to be merged.
    pub(crate) fn adapter(&self) -> Option<AdapterSource> {
        self.adapter.clone().map(|adapter| AdapterSource { initial: self.adapter_initial.clone(), ..adapter })
    }

    /// Whether a variant takes the place of what the plan says: its evidence is of other kernels.
    pub(crate) fn forces_variants(&self) -> bool {
        !self.variants.forced.is_empty()
    }

    /// Which plan is wanted.
    pub(crate) fn plan(&self) -> PlanChoice {
        self.plan.clone().unwrap_or(PlanChoice::Find)
    }

    /// Where compiled kernels and rooflines are kept; `None` if nothing is to be.
    pub(crate) fn cache_folder(&self) -> Option<PathBuf> {
        self.cache.folder()
    }

    /// The arguments that say the same to another process, but for the folder of compiled kernels.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        // By name, all of them: an option that is not passed on does not compile.
        let RunOptions {
            backend,
            device,
            limits,
            plan,
            foreign_plan,
            ignore_unknown,
            vocab,
            adapter,
            adapter_initial,
            chunk,
            precision,
            state_format,
            batch_invariant,
            patience,
            kernels,
            variants,
            cache: _,
            memory,
        } = self;
        let MemoryOptions { gpu_budget, eager } = memory;
        let backend = match backend {
            BackendName::Gpu => "gpu",
            BackendName::Cpu => "cpu",
        };
        let mut arguments = vec![argument("--backend", backend)];
        arguments.extend(device.iter().map(|d| argument("--device", d)));
        arguments.extend(limits.argument().map(|name| argument("--limits", name)));
        arguments.extend(plan.iter().filter_map(PlanChoice::name).map(|p| argument("--plan", p)));
        arguments.extend(foreign_plan.then(|| "--foreign-plan".into()));
        arguments.extend(ignore_unknown.then(|| "--ignore-unknown".into()));
        arguments.extend(vocab.iter().filter_map(VocabularyChoice::name).map(|v| argument("--vocab", v)));
        arguments.extend(adapter.iter().map(|a| argument("--adapter", a.spelled())));
        arguments.extend(adapter_initial.iter().map(|i| argument("--adapter-initial", i)));
        arguments.extend(chunk.iter().map(|c| argument("--chunk", c.to_string())));
        arguments.extend(precision.iter().map(|p| argument("--precision", p.name())));
        arguments.extend(state_format.iter().map(|s| argument("--state-format", s.name())));
        arguments.extend(batch_invariant.then(|| "--batch-invariant".into()));
        arguments.extend(patience.iter().map(|s| argument("--patience", s.to_string())));
        arguments.extend(kernels.folder.iter().map(|k| argument("--kernels", k)));
        arguments.extend(variants.forced.iter().map(|(op, v)| argument("--variant", format!("{op}/{v}"))));
        arguments.extend(gpu_budget.iter().map(|b| argument("--gpu-budget", b.as_u64().to_string())));
        arguments.extend(eager.then(|| "--eager".into()));
        arguments
    }

    /// The same, for what measures sessions.
    pub(crate) fn subject(&self) -> Result<Subject, Failure> {
        self.subject_with(self.plan())
    }

    /// The same with another plan.
    pub(crate) fn subject_with(&self, plan: PlanChoice) -> Result<Subject, Failure> {
        let backend = match self.backend {
            BackendName::Gpu => Backend::Gpu,
            BackendName::Cpu => Backend::Cpu,
        };
        Ok(Subject { builder: self.session()?.plan(plan), backend, chunk: self.chunk })
    }

    /// The executor itself, for verbs that look inside.
    pub(crate) fn executor(&self, model: &Path, slots: usize) -> Result<GpuExecutor, Failure> {
        if let BackendName::Cpu = self.backend {
            return Err(WrongUsage("the CPU reference has no dispatches: leave out --backend cpu".into()).into());
        }
        Ok(self.subject()?.executor(model, slots)?)
    }

    /// The engine that a session would run on, with that many sequences, and what it is.
    pub(crate) fn engine(&self, model: &Path, slots: usize) -> Result<ConfiguredEngine, Failure> {
        Ok(self.subject()?.engine(model, slots)?)
    }
}

/// `--name=value`, whatever the value begins with.
pub(crate) fn argument(name: &str, value: impl AsRef<OsStr>) -> OsString {
    let mut text = OsString::from(name);
    text.push("=");
    text.push(value);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: RunOptions,
    }

    #[test]
    fn the_pipeline_cache_follows_its_flags() {
        let cache = |args: &str| {
            let line = format!("wgoose {args}");
            Line::parse_from(line.split_whitespace()).options.session().unwrap().device_options().cache
        };
        assert_eq!(cache(""), default_cache_dir());
        assert!(default_cache_dir().is_some());
        assert_eq!(cache("--cache-dir mine"), Some("mine".into()));
        assert_eq!(cache("--no-cache"), None);
    }

    #[test]
    fn options_become_the_arguments_they_were_parsed_from() {
        let all = "--backend=cpu --device=-odd --limits=webgpu --plan=a.ron --foreign-plan --adapter=a.pth:0.5 \
                   --adapter-initial=init.pth --chunk=7 --precision=q15 --state-format=f16 --kernels=. \
                   --variant=layer_norm/workgroup --variant=add/flat --gpu-budget=5";
        for line in [all, "--backend=gpu --plan=default --eager", "--backend=gpu --limits=low"] {
            let line: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let parsed = Line::parse_from([OsString::new()].into_iter().chain(line.clone()));
            assert_eq!(parsed.options.arguments(), line);
        }
    }
}
