//! Trials in a child process: kernels that are wrong in every way are caught, kept and not tried again, and the rest is
//! right.

use crate::binary::{printed, synth, wgoose};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wgoose_graph::{Format, FusionSet};
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;
use wgoose_measure::job::Job;
use wgoose_measure::ledger::{self, Cause, Ledger, Outcome};
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{ChildCommand, ChildRunner, ChildSetup, Deadlines};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Scope, groups};
use wgoose_plans::catalogue;
use wgoose_runtime::CancelToken;
use wgoose_runtime::Device;
use wgoose_tuner::kernel_tuning::{KernelTuner, TunedKernel};

/// Time for all that is asked for.
const NO_HURRY: Duration = Duration::from_secs(1 << 32);

/// The kernel that all others are made of.
const MUL: &str = include_str!("../../../../kernels-wgsl/ops/mul/elements.wgsl");

/// The body of a correct kernel, for each thread.
const RIGHT: &str = "    y[i] = a[i] * b[i];\n";

/// The variants, each with what its threads do instead, and the cause that it must fail with.
const PLANTED: [(&str, &str, Option<Cause>); 10] = [
    // Slower than what races, and faster than the default: races are looked for in what wins.
    ("good", "    y[i] = a[i] * b[i] * spin(300u);\n", None),
    // Software devices cut loops after 65,535 rounds: thousands of workgroups each run one.
    ("endless", ENDLESS, Some(Cause::Timeout)),
    (
        "past_the_end",
        "    y[i] = a[i] * b[i];\n    if i == 0u {\n        y[params.rows * params.m + 3u] = 1.0;\n    }\n",
        Some(Cause::Race),
    ),
    // One dispatch in a hundred loses: they are counted in what workgroups hand to one another, so that a hundred runs
    // in a row show it on every machine.
    (
        "race",
        "    y[i] = a[i] * b[i];
    if i == 0u {
        partials[0] += 1.0;
        if u32(partials[0]) % 100u == 99u {
            y[0] += 1.0;
        }
    }\n",
        Some(Cause::Race),
    ),
    (
        "one_nan",
        "    y[i] = a[i] * b[i];\n    if i == 17u {\n        y[i] = bitcast<f32>(0x7fc00000u + 0u * params.k);\n    }\n",
        Some(Cause::WrongResult),
    ),
    ("one_percent_off", "    y[i] = a[i] * b[i] * 1.01;\n", Some(Cause::WrongResult)),
    // naga knows these floats, the device was opened without them.
    ("uncompiled", "    y[i] = f32(f64(a[i]) * f64(b[i]));\n", Some(Cause::Compile)),
    // The process is told to abort where it comes to this one.
    ("aborting", RIGHT, Some(Cause::Crash)),
    (
        "of_64_rows",
        "    y[i] = a[i] * b[i];\n    if params.rows == 33u {\n        y[i] = 0.0;\n    }\n",
        Some(Cause::WrongResult),
    ),
    // Fast where y has its answer from the run before.
    (
        "of_the_cache",
        "    if (bitcast<u32>(y[i]) & 0x7f800000u) == 0x7f800000u {\n        y[i] = a[i] * b[i] * spin(50u);\n    }\n",
        Some(Cause::Race),
    ),
];

/// Iterates 2^32 times.
const ENDLESS: &str = "    var x = params.k;
    var rounds = 0u;
    loop {
        x = x * 1664525u + 1013904223u;
        rounds++;
        if x == params.k {
            break;
        }
    }
    y[i] = a[i] * b[i] + f32(rounds);\n";

/// Takes time, and is 1.
const SPIN: &str = "
fn spin(rounds: u32) -> f32 {
    var x = params.k;
    for (var n = 0u; n < rounds; n++) {
        x = x * 1664525u + 1013904223u;
    }
    return select(1.0, 2.0, x == 12345u);
}
";

/// A variant that does something else.
fn variant(threads: &str) -> String {
    assert!(MUL.contains(RIGHT));
    let text = MUL.replace(RIGHT, threads).replace("// tune: 64 256", "").replace("// default: 10\n", "") + SPIN;
    if threads == ENDLESS {
        let many =
            text.replace("// grid: ", "// grid: 4096 * ").replace("WG + tid;", "WG + tid) % (params.rows * params.m);");
        return many.replace("let i = ", "let i = (");
    }
    if threads.contains("partials") {
        let bound = "@group(0) @binding(4) var<storage, read_write> partials: array<f32>;\n\n@compute";
        return text.replace("#import lib/op\n", "// partials: 1\n#import lib/op\n").replace("@compute", bound);
    }
    text
}

/// A folder with a model and the planted kernels; the default is replaced by a slow one, so that any other would win.
fn plant() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    let kernels = folder.path().join("kernels/ops/mul");
    std::fs::create_dir_all(&kernels).unwrap();
    let write = |name: &str, text: &str| std::fs::write(kernels.join(format!("{name}.wgsl")), text).unwrap();
    write(
        "elements",
        &variant("    y[i] = a[i] * b[i] * spin(2000u);\n").replace("// grid", "// default: 10\n// grid"),
    );
    PLANTED.iter().for_each(|(name, threads, _)| write(name, &variant(threads)));
    folder
}

/// A model, a catalogue with planted kernels, and the site that they are tuned for.
struct World {
    folder: tempfile::TempDir,
    device: Arc<Device>,
    model: Arc<Model>,
    catalogue: Arc<Catalogue>,
    site: InstanceGroup,
    /// How long a run may take.
    patience: Duration,
}

/// The time of a run after which a kernel counts as endless, in multiples of the time of a right kernel.
const PATIENCE: u32 = 10;

impl World {
    fn new() -> Self {
        let folder = plant();
        // A busy machine is slow with right kernels, too: it shows its pace.
        let begun = Instant::now();
        printed(folder.path(), "dev kernel mul/good --kernels kernels --tokens 0".split(' '));
        let patience = PATIENCE * begun.elapsed();
        let model = Arc::new(Model::open(folder.path().join("tiny.gguf")).unwrap());
        let catalogue = catalogue::with_folder(&folder.path().join("kernels")).unwrap();
        let all = groups(model.shape(), Scenario::prefill(64), &FusionSet::new(), &|_| Format::F16);
        let site = all.into_iter().find(|group| group.key.op == "mul").unwrap();
        World { device: Device::open(None).unwrap(), model, catalogue, site, folder, patience }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self) -> ChildCommand {
        let arguments = ["dev", "trial", "tiny.gguf", "--no-cache", "--abort-at=aborting"]
            .map(|argument| if argument.ends_with(".gguf") { self.path(argument).into() } else { argument.into() });
        let deadlines = Deadlines { compile: NO_HURRY, run: self.patience };
        let program = PathBuf::from(env!("CARGO_BIN_EXE_wgoose"));
        let (interpreter, kernels) = (Vec::new(), Some(self.path("kernels")));
        ChildCommand { program, interpreter, arguments: arguments.into(), kernels, deadlines }
    }

    /// Has a child process run what a tuner asks for at the site.
    fn ask<T>(&self, ask: impl FnOnce(&KernelTuner<'_>, &mut ResultCache<'_>) -> T) -> T {
        let setup = ChildSetup {
            device: self.device.fingerprint(),
            limits: self.device.limits(),
            catalogue: &self.catalogue,
            reference: None,
            quarantine: self.path("quarantine"),
            cancel: CancelToken::default(),
            begun: Instant::now(),
        };
        let mut runner = ChildRunner::new(self.command(), setup).unwrap();
        let ledger = Ledger::open(self.path("ledger.jsonl")).unwrap();
        let fingerprint = self.device.fingerprint().clone();
        let mut cache = ResultCache::new(ledger, fingerprint, Some(self.model.fingerprint().to_string()), &mut runner);
        let scope = Scope { allowed: Precision::F32, exhaustive: false };
        ask(&KernelTuner::new(self.device.limits(), &self.catalogue, scope), &mut cache)
    }

    /// Tunes the site.
    fn tune(&self) -> TunedKernel {
        self.ask(|tuner, cache| tuner.tune(&self.site, cache, NO_HURRY).unwrap())
    }

    /// The kernels that failed, with the cause: of a comparison, the candidate.
    fn failures(&self) -> BTreeMap<String, Cause> {
        let (records, _) = ledger::read(&self.path("ledger.jsonl")).unwrap();
        let failed = records.trials().filter_map(|(_, trial)| {
            let Outcome::Failed(reason) = &trial.outcome else { return None };
            match &trial.identity.tried {
                Job::Kernel { kernel, .. } | Job::Kernels { kernels: [_, kernel], .. } => {
                    Some((kernel.variant.clone(), reason.cause))
                }
                _ => None,
            }
        });
        failed.collect()
    }

    /// The bundles, by the variant that failed.
    fn bundles(&self) -> BTreeMap<String, PathBuf> {
        let bundle = |entry: std::io::Result<std::fs::DirEntry>| {
            let path = entry.unwrap().path();
            let job = json(&path.join("request.json"))["job"].take();
            let kernel = if job["kernel"].is_null() { &job["kernels"][1] } else { &job["kernel"] };
            (kernel["variant"].as_str().unwrap_or("none").to_owned(), path)
        };
        std::fs::read_dir(self.path("quarantine")).unwrap().map(bundle).collect()
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn planted_kernels_are_caught_kept_and_not_tried_again() {
    let world = World::new();
    let tuned = world.tune();
    let wanted = PLANTED.iter().filter_map(|(name, _, cause)| Some(((*name).to_owned(), (*cause)?)));
    let failures = world.failures();
    assert_eq!(failures, wanted.collect());
    assert_eq!(tuned.winner.map(|choice| choice.variant).as_deref(), Some("good"));

    // Each has a bundle, complete by itself.
    let bundles = world.bundles();
    let names = |all: &mut dyn Iterator<Item = &String>| all.cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&mut bundles.keys()), names(&mut failures.keys()));
    for (name, bundle) in &bundles {
        let sources = std::fs::read_to_string(bundle.join(format!("kernels/ops/mul/{name}.wgsl"))).unwrap();
        assert_eq!(sources, variant(PLANTED.iter().find(|(planted, ..)| planted == name).unwrap().1));
        let texts = std::fs::read_dir(bundle)
            .unwrap()
            .filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().ends_with(&format!("-{name}.wgsl")));
        assert_eq!(texts.count(), 1, "{name}");
    }

    // The ledger answers for all of them; what ran is timed anew only where a busy machine chose another clock.
    let failed = || {
        let records = ledger::read(&world.path("ledger.jsonl")).unwrap().0;
        records.trials().filter(|(_, trial)| matches!(trial.outcome, Outcome::Failed(_))).count()
    };
    let before = failed();
    world.tune();
    assert_eq!(failed(), before);

    // They fail again without the folder of kernels, and nothing else does.
    std::fs::remove_dir_all(world.path("kernels")).unwrap();
    for (name, said) in [("one_percent_off", "wrong result: error"), ("aborting", "crash: "), ("race", "race: ")] {
        let bundle = bundles[name].to_str().unwrap();
        let output = wgoose(world.folder.path(), ["dev", "trial", "--replay", bundle]);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains(&format!("it fails again: {said}")), "{stderr}");
    }
    ends_without_its_parent(&world, &bundles["endless"]);
}

/// A process whose parent was killed ends in the middle of a kernel that does not.
fn ends_without_its_parent(world: &World, bundle: &Path) {
    let ChildCommand { program, arguments, .. } = world.command();
    let mut command = Command::new(program);
    command.args(arguments).arg("--kernels").arg(bundle.join("kernels"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (mut requests, replies) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
    writeln!(requests, r#"{{"request":"open"}}"#).unwrap();
    writeln!(requests, "{}", json(&bundle.join("request.json"))).unwrap();
    let is_running = |line: &String| line.contains("\"running\"");
    assert!(replies.lines().map(Result::unwrap).any(|line| is_running(&line)));
    drop(requests);
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begun.elapsed() > Duration::from_secs(600) {
            child.kill().unwrap();
            panic!("it goes on without its parent");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The default kernel that embeds tokens.
const EMBED: &str = include_str!("../../../../kernels-wgsl/ops/embed/elements.wgsl");

#[test]
fn a_plan_is_confirmed_in_separate_processes_and_by_first_tokens() {
    let folder = tempfile::tempdir().unwrap();
    // A process that begins in half a second: a search counts first tokens where that is a small part of its budget.
    let shape = "--layers 1 --width 64 --ffn 64 --vocab 300 --ranks 16,16,16,16";
    printed(folder.path(), format!("dev synth tiny.gguf {shape}").split(' '));
    let kernels = folder.path().join("kernels/ops/embed");
    std::fs::create_dir_all(&kernels).unwrap();
    // The default takes some milliseconds more than it must.
    let right = "table_value((row - params.first) * params.m + i % params.m)";
    let slow = EMBED.replace(right, &format!("{right} * {}", ["spin(60000u)"; 2].join(" * "))) + SPIN;
    std::fs::write(kernels.join("elements.wgsl"), slow).unwrap();
    std::fs::write(kernels.join("good.wgsl"), EMBED.replace("// default: 10\n", "")).unwrap();
    let workload = "(name: \"mine\", parts: [(tokens: 1), (tokens: 8, from_start: true)])";
    std::fs::write(folder.path().join("mine.ron"), workload).unwrap();
    let first_token = Scenario { from_start: true, ..Scenario::prefill(8) };
    let wanted: BTreeSet<(Scenario, u32)> =
        [Scenario::DECODE, first_token].into_iter().flat_map(|scenario| (0..3).map(move |n| (scenario, n))).collect();
    // A busy machine starts processes slowly, and a search whose budget has no time for them leaves them out.
    let is_complete = |confirmed: &Confirmed| confirmed.pairs.keys().copied().collect::<BTreeSet<_>>() == wanted;
    let confirmed = [120, 480, 1920, 7680].into_iter().map(|budget| confirmed(folder.path(), budget)).find(is_complete);
    let Confirmed { said, plan, pairs } =
        confirmed.expect("an hour is too short to start processes and to sample steps");
    assert!(said.contains("time to first token, ms"), "{said}");
    assert!(plan.choices.iter().any(|choice| choice.variant == "good"), "{said}");
    // The evidence is of these samples alone.
    for scenario in plan.evidence.unwrap().scenarios {
        let from_start = scenario.scenario == "first token";
        let counted: usize =
            pairs.iter().filter(|((known, _), _)| known.from_start == from_start).map(|(_, n)| n).sum();
        assert_eq!(scenario.pairs as usize, counted, "{}", scenario.scenario);
    }
}

/// The output and the plan of a tuning, and the pairs of samples of its plan in each process.
struct Confirmed {
    said: String,
    plan: Plan,
    pairs: BTreeMap<(Scenario, u32), usize>,
}

/// Tunes the model of a folder from the beginning, within so many seconds.
fn confirmed(folder: &Path, seconds: u32) -> Confirmed {
    let ledger = folder.join(format!("{seconds}.jsonl"));
    let arguments = "tune tiny.gguf --kernels kernels --only kernels --workload mine.ron --out plan.ron --ledger";
    let (ledger_path, budget) = (ledger.to_string_lossy(), seconds.to_string());
    let said = printed(folder, arguments.split(' ').chain([&*ledger_path, "--budget", &budget]));
    let plan = Plan::load(&folder.join("plan.ron")).unwrap();
    let (records, _) = ledger::read(&ledger).unwrap();
    let mut pairs: BTreeMap<(Scenario, u32), usize> = BTreeMap::new();
    for (_, trial) in records.trials() {
        if let (Job::Confirm { scenario, process, plans }, Outcome::Pair { samples_ns, .. }) =
            (&trial.identity.tried, &trial.outcome)
            && plans[1].0 == plan.hash()
        {
            *pairs.entry((*scenario, *process)).or_default() += samples_ns[1].len();
        }
    }
    Confirmed { said, plan, pairs }
}

#[test]
fn a_kernel_that_may_write_its_inputs_is_refused() {
    let folder = plant();
    let read_write = variant(RIGHT).replace("var<storage, read> a", "var<storage, read_write> a");
    std::fs::write(folder.path().join("kernels/ops/mul/good.wgsl"), read_write).unwrap();
    let output = wgoose(folder.path(), "dev kernel mul/good --kernels kernels --cases 1".split(' '));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("it may write to a, which other ops read"), "{stderr}");
}
