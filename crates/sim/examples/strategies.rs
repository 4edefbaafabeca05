//! How near strategies come to the best plan that there is, on devices that are made up and on kernels that were
//! recorded on real ones: a line of JSON for each search, then a table.
//!
//! `cargo run --release -p wgoose-sim --example strategies -- SEEDS BUDGET_SECONDS FIRST_SEED PART_OF_SPACE STRATEGY
//! TIMES LEDGER...`
//!
//! Each ledger, of `wgoose tune --survey` and called `SIZE-MIX-DEVICE.jsonl` or `.jsonl.zst`, is a device with its
//! kernels.
//!
//! Where steps are slow the last column has the median and the least share of the gain of the best plan that is known:
//! the best of these searches and of one that has twenty times as long.
//!
//! A seed makes a device, which is tuned several times, and once more from the first plan: columns of the table count
//! how often the searches give the same bits.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use wgoose_graph::{Format, LoraRanks, ModelShape, Weight};
use wgoose_kernels::{Plan, Precision};
use wgoose_loader::synth::Mix;
use wgoose_measure::ledger::{self, Ledger, Records};
use wgoose_measure::objective::Objective;
use wgoose_measure::problem::Problem;
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::Runner;
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::Scope;
use wgoose_plans::catalogue;
use wgoose_sim::{
    SimulatedDevice, SimulatedRunner, limits_of_integrated, limits_of_software, simulated_problem, with_limits,
};
use wgoose_tuner::sweep::{Part, STRATEGIES, Strategy, SweepOptions, search};

/// Searches within so many per cent of the best are near it.
const NEAR: f64 = 2.0;

/// A plan that takes so many per cent longer than the default anywhere is slower.
const SLOWER: f64 = 1.0;

/// A device of a seed.
type Device = fn(u64) -> SimulatedDevice;

/// What a search is held against.
struct Space {
    name: String,
    problem: Problem,
    device: Device,
    recorded: Records,
}

/// Devices that make a search's life hard, each in its way.
const HARD: [(&str, Device); 5] = [
    ("noise three times as large", |seed| SimulatedDevice {
        noise: 0.009,
        instance: 0.009,
        ..SimulatedDevice::h200(seed)
    }),
    ("choices that mask each other", |seed| SimulatedDevice { interaction: 0.06, ..SimulatedDevice::h200(seed) }),
    ("kernels that lie alone", |seed| SimulatedDevice { merged: 0.08, ..SimulatedDevice::h200(seed) }),
    ("choices that are worth little", |seed| SimulatedDevice {
        spread: 0.02,
        interaction: 0.01,
        merged: 0.01,
        ..SimulatedDevice::h200(seed)
    }),
    ("slow clocks", |seed| SimulatedDevice { ramp: 1.6, autocorrelation: 0.7, ..SimulatedDevice::h200(seed) }),
];

/// Devices whose steps take long: a software adapter that runs the demo's model, and GPUs with such models whose
/// drivers take so many seconds for a kernel.
const SLOW: [(&str, &str, Mix, Device); 6] = [
    ("software adapter", "demo", Mix::Q4_K_M, SimulatedDevice::software),
    ("software adapter, busy", "demo", Mix::Q4_K_M, |seed| SimulatedDevice::software(seed).busy()),
    ("steps of 30 ms, 0.3 s a kernel", "1.5B", Mix::Q4_K_M, |seed| SimulatedDevice::integrated(seed, 0.3)),
    ("steps of 100 ms, 1 s a kernel", "1.5B", Mix::F16, |seed| SimulatedDevice::integrated(seed, 1.0)),
    ("steps of 200 ms, 3 s a kernel, busy", "2.9B", Mix::F16, |seed| SimulatedDevice::integrated(seed, 3.0).busy()),
    ("steps of 500 ms, 10 s a kernel", "7.2B", Mix::F16, |seed| SimulatedDevice::integrated(seed, 10.0)),
];

/// A published shape, or that of the demo's model.
fn shape_of(size: &str) -> Option<ModelShape> {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 16, gate: 64 };
    let demo = ModelShape {
        layers: 3,
        width: 256,
        ffn: 768,
        head_size: 64,
        vocab: 2048,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    if size == "demo" { Some(demo) } else { ModelShape::preset(size) }
}

fn formats(shape: &ModelShape, mix: Mix) -> BTreeMap<Weight, Format> {
    Weight::all(shape).map(|weight| (weight, mix.in_gguf(weight))).collect()
}

/// The space of a ledger that `wgoose tune --survey` made.
fn recorded(path: &Path) -> Result<Space, Box<dyn Error>> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = file.trim_end_matches(".zst").trim_end_matches(".jsonl").to_owned();
    let mix = name.split('-').nth(1).ok_or("a ledger of a space is called SIZE-MIX-DEVICE")?.parse()?;
    let (recorded, _) = ledger::read(path)?;
    let session = recorded.newest_session().ok_or("a ledger without a session")?;
    let (limits, shape) = ((*session.limits).clone(), session.shape);
    let default = Plan::default_for(session.device.clone(), shape, &limits);
    let problem = Problem { limits, shape, formats: formats(&shape, mix), model: "made-up".to_owned(), default };
    let device = if problem.limits.is_cpu { SimulatedDevice::software } else { SimulatedDevice::h200 };
    Ok(Space { name, problem, device, recorded })
}

fn spaces(ledgers: &[PathBuf]) -> Result<Vec<Space>, Box<dyn Error>> {
    let mut spaces = Vec::new();
    for (size, mix) in [("2.9B", Mix::Q4_K_M), ("1.5B", Mix::F16)] {
        let usual: (&str, Device) = ("made up", SimulatedDevice::h200);
        for (what, device) in [usual].into_iter().chain(HARD) {
            let shape = ModelShape::preset(size).ok_or("no such size")?;
            let (problem, recorded) = (simulated_problem(shape, formats(&shape, mix)), Records::merged([]));
            spaces.push(Space { name: format!("{size} {mix}, {what}"), problem, device, recorded });
        }
    }
    for (what, size, mix, device) in SLOW {
        let shape = shape_of(size).ok_or("no such size")?;
        let limits = if size == "demo" { limits_of_software() } else { limits_of_integrated() };
        let (problem, recorded) = (with_limits(shape, formats(&shape, mix), limits), Records::merged([]));
        spaces.push(Space { name: format!("slow, {what}"), problem, device, recorded });
    }
    for ledger in ledgers {
        spaces.push(recorded(ledger)?);
    }
    Ok(spaces)
}

/// What a search came to.
struct Found {
    seed: u64,
    /// How much longer than the best plan it decodes, in per cent.
    regret: f64,
    /// How much longer than the default it takes in any part of the objective, in per cent.
    slower: f64,
    /// The logarithm of how many times as fast as the default it is, as the objective weighs its parts.
    gain: f64,
    /// What decides the bits that it makes: of decoding, and of all.
    bits: [String; 2],
    plan: Plan,
}

/// What searches on all devices came to.
#[derive(Default)]
struct All {
    fresh: Vec<Found>,
    /// How many more, on the same devices while the first plan is in use, came to its bits.
    kept: usize,
    /// Of slow devices, the share of the gain of the best plan that is known, for each search.
    shares: Vec<f64>,
}

/// How many times as long a search has to find the best plan that is known of a slow device.
const LONG: u64 = 20;

/// Searches for the `time`th time on the device of a seed, where a plan may be in use.
fn run(
    space: &Space,
    strategy: &'static dyn Strategy,
    (seed, time, budget): (u64, u64, u64),
    in_use: Option<&Plan>,
    ledger: PathBuf,
) -> Result<Found, Box<dyn Error>> {
    let (problem, catalogue) = (&space.problem, catalogue::embedded());
    let device = SimulatedDevice { chance: seed + 1000 * time, ..(space.device)(seed) };
    let mut runner = SimulatedRunner::new(problem, &catalogue, device).with_records(&space.recorded);
    let options = SweepOptions {
        ledger,
        begun: Instant::now(),
        budget: Duration::from_secs(budget),
        parts: Part::ALL.into(),
        exhaustive: false,
        chunks: if problem.limits.is_cpu { vec![16, 32, 64, 128] } else { vec![64, 256, 1024, 2048] },
        objective: Objective::chat(problem.limits.is_cpu),
        persistent: !problem.limits.is_cpu,
        catalogue: catalogue.clone(),
        allowed: Precision::F16,
        child: None,
        strategy,
        in_use: in_use.cloned(),
        seeds: Vec::new(),
        hints: Vec::new(),
        cancel: Default::default(),
    };
    let cache = ResultCache::new(
        Ledger::open(&options.ledger)?,
        problem.default.device.clone(),
        Some(problem.model.clone()),
        &mut runner,
    );
    let verbose = std::env::var_os("VERBOSE").is_some();
    let swept = search(problem, &options, cache, &mut |event| {
        if verbose {
            eprintln!("{event}");
        }
        ControlFlow::Continue(())
    })?;
    let spent = runner.spent().as_secs_f64();
    let scope = Scope { allowed: options.allowed, exhaustive: false };
    let us = |ns: f64| (ns / 100.0).round() / 10.0;
    let (mut slower, mut gain, mut all) = (0f64, 0.0, String::new());
    for (scenario, share) in options.objective.shares().filter(|(scenario, _)| !scenario.from_start) {
        let [own, default] = [runner.true_ns(&swept.plan, scenario)?, runner.true_ns(&problem.default, scenario)?];
        slower = slower.max(100.0 * (own / default - 1.0));
        gain += share * (default / own).ln();
        all += &runner.bits(&swept.plan, scenario)?;
    }
    if verbose {
        eprintln!("BITS\n{all}");
    }
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex()[..8].to_owned();
    let bits = [hash(&runner.bits(&swept.plan, Scenario::DECODE)?), hash(&all)];
    let default = runner.true_ns(&problem.default, Scenario::DECODE)?;
    let plan = runner.true_ns(&swept.plan, Scenario::DECODE)?;
    let best = runner.best_decode_ns(scope);
    if verbose {
        for (key, [ns, best]) in runner.losses(&swept.plan, scope)? {
            eprintln!("    {:6.1} us, {:6.1} at best: {key}", ns / 1e3, best / 1e3);
        }
    }
    let regret = 100.0 * (plan / best - 1.0);
    let tenths = |percent: f64| (percent * 10.0).round() / 10.0;
    let line = serde_json::json!({
        "space": space.name, "strategy": strategy.name(), "seed": seed, "time": time, "budget_s": budget,
        "default_us": us(default), "plan_us": us(plan), "best_us": us(best), "regret_percent": tenths(regret),
        "slower_percent": tenths(slower), "gain_percent": tenths(100.0 * gain.exp_m1()), "is_in_use": in_use.is_some(), "decode_bits": bits[0],
        "bits": bits[1], "spent_s": spent.round(), "measured": swept.measured,
    });
    println!("{line}");
    Ok(Found { seed, regret, slower, gain, bits, plan: swept.plan })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |or: u64| arguments.next().map_or(Ok(or), |n| n.parse());
    let (seeds, budget, first) = (number(3)?, number(300)?, number(0)?);
    let (space, strategy) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let times: u64 = arguments.next().map_or(Ok(1), |n| n.parse())?;
    let ledgers: Vec<PathBuf> = arguments.map(PathBuf::from).collect();
    let folder = tempfile::tempdir()?;
    let mut table: BTreeMap<(String, &str), All> = BTreeMap::new();
    for space in spaces(&ledgers)?.iter().filter(|known| known.name.contains(&space)) {
        for own in STRATEGIES.into_iter().filter(|known| known.name().contains(&strategy)) {
            for seed in first..first + seeds {
                let ledger =
                    |time: u64| folder.path().join(format!("{}-{}-{seed}-{time}.jsonl", space.name, own.name()));
                let all = table.entry((space.name.clone(), own.name())).or_default();
                let begin = all.fresh.len();
                for time in 0..times {
                    all.fresh.push(run(space, own, (seed, time, budget), None, ledger(time))?);
                }
                if space.name.starts_with("slow") {
                    let long = run(space, STRATEGIES[0], (seed, times + 1, LONG * budget), None, ledger(times + 1))?;
                    let gains = all.fresh[begin..].iter().map(|found| found.gain);
                    let best = gains.clone().fold(long.gain, f64::max);
                    all.shares.extend(gains.map(|gain| gain / best));
                }
                if times > 1 {
                    let first = &all.fresh[begin];
                    let again = run(space, own, (seed, times, budget), Some(&first.plan), ledger(times))?;
                    all.kept += usize::from(again.bits == first.bits);
                }
            }
        }
    }
    let [a, b, c, d, e, f, g] = ["median %", "worst %", "near", "slower", "same decode", "same bits", "in use"];
    let h = "of best gain";
    eprintln!("{:<44} {:<11} {a:>8} {b:>8} {c:>8} {d:>8} {e:>12} {f:>10} {g:>8} {h:>16}", "", "");
    for ((space, strategy), All { fresh: mut found, kept, mut shares }) in table {
        found.sort_by(|a, b| a.regret.total_cmp(&b.regret));
        let (median, worst) = (found[found.len() / 2].regret, found[found.len() - 1].regret);
        let near = found.iter().filter(|found| found.regret <= NEAR).count();
        let slower = found.iter().filter(|found| found.slower > SLOWER).count();
        let same = |of: usize| {
            let mut bits: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
            for found in &found {
                bits.entry(found.seed).or_default().insert(&found.bits[of]);
            }
            let same = bits.values().filter(|bits| bits.len() == 1).count();
            if times > 1 { format!("{same}/{}", bits.len()) } else { String::new() }
        };
        let (near, decode, all) = (format!("{near}/{}", found.len()), same(0), same(1));
        let kept = if times > 1 { format!("{kept}/{seeds}") } else { String::new() };
        shares.sort_by(f64::total_cmp);
        let of_best = match shares.first() {
            Some(least) => format!("{:.2} (>= {least:.2})", shares[shares.len() / 2]),
            None => String::new(),
        };
        eprint!("{space:<44} {strategy:<11} {median:>8.1} {worst:>8.1} {near:>8} {slower:>8}");
        eprintln!(" {decode:>12} {all:>10} {kept:>8} {of_best:>16}");
    }
    Ok(())
}
