//! How near a search comes to the best plan that there is, on made-up devices, and what it takes: one line each.
//!
//! `cargo run --release -p wgoose-tuner --example strategies -- SEEDS BUDGET_SECONDS FIRST_SEED`

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use wgoose_graph::{Format, ModelShape, Weight, WeightClass};
use wgoose_kernels::{Catalogue, DeviceFingerprint, Feature, Limits, Plan, Precision};
use wgoose_tuner::interrupt::Interrupt;
use wgoose_tuner::lab::{Lab, Synthetic, SyntheticLab};
use wgoose_tuner::ledger::Ledger;
use wgoose_tuner::memo::Memo;
use wgoose_tuner::objective::Objective;
use wgoose_tuner::scenario::Scenario;
use wgoose_tuner::space::Scope;
use wgoose_tuner::sweep::{Part, Problem, SweepOptions, search};

fn problem(shape: &str, format: Format) -> Option<Problem> {
    let limits = Limits {
        workgroup_threads: 1024,
        workgroup_memory: 48 << 10,
        storage_binding: 2 << 30,
        buffer: 2 << 30,
        storage_buffers: 16,
        min_subgroup: 32,
        multiprocessors: 132,
        features: BTreeSet::from([Feature::Subgroups, Feature::F16, Feature::CoherentMemory]),
        ..Limits::webgpu()
    };
    let shape = ModelShape::preset(shape)?;
    let stored = |weight: Weight| {
        let [rows, cols] = weight.shape(&shape).map(|n| n as usize);
        match weight {
            _ if weight.class() == WeightClass::Vector => Format::F32,
            Weight::Head | Weight::Embedding if format == Format::Q4_K => Format::Q6_K,
            _ if format.bytes(rows, cols).is_some() => format,
            _ => Format::F16,
        }
    };
    let formats: BTreeMap<Weight, Format> = Weight::all(&shape).map(|weight| (weight, stored(weight))).collect();
    let text = || "made up".to_owned();
    let device =
        DeviceFingerprint { adapter: text(), vendor: 1, device: 2, driver: text(), backend: text(), wgpu: text() };
    let default = Plan::default_for(device, shape, &limits);
    Some(Problem { limits, shape, formats, model: "made-up".to_owned(), default })
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let seeds: u64 = arguments.next().map_or(Ok(3), |n| n.parse())?;
    let budget: u64 = arguments.next().map_or(Ok(300), |n| n.parse())?;
    let first: u64 = arguments.next().map_or(Ok(0), |n| n.parse())?;
    let folder = std::env::temp_dir().join(format!("strategies-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let catalogue = Catalogue::embedded();
    println!("model          seed  default us  plan us  best us  regret %  spent s  measured  real s");
    for (shape, format) in [("2.9B", Format::Q4_K), ("1.5B", Format::F16)] {
        let problem = problem(shape, format).ok_or("no such model")?;
        for seed in first..first + seeds {
            let mut lab = SyntheticLab::new(&problem, &catalogue, Synthetic::h200(seed));
            let options = SweepOptions {
                ledger: folder.join(format!("{shape}-{seed}.jsonl")),
                begun: Instant::now(),
                budget: Duration::from_secs(budget),
                parts: Part::ALL.into(),
                exhaustive: false,
                chunks: vec![64, 256, 1024, 2048],
                objective: Objective::chat(false),
                persistent: true,
                catalogue: catalogue.clone(),
                allowed: Precision::F16,
                child: None,
                seeds: Vec::new(),
                interrupt: Interrupt::default(),
            };
            let begun = Instant::now();
            let ledger = Ledger::open(&options.ledger)?;
            let memo = Memo::new(ledger, problem.default.device.clone(), Some(problem.model.clone()), &mut lab);
            let verbose = std::env::var_os("VERBOSE").is_some();
            let swept = search(&problem, &options, memo, &mut |event| {
                if verbose {
                    println!("{event}");
                }
                ControlFlow::Continue(())
            })?;
            let (real, spent) = (begun.elapsed().as_secs_f64(), lab.spent().as_secs_f64());
            let default = lab.true_ns(&problem.default, Scenario::DECODE)? / 1e3;
            let plan = lab.true_ns(&swept.plan, Scenario::DECODE)? / 1e3;
            let best = lab.best_decode_ns(Scope { allowed: options.allowed, exhaustive: false }) / 1e3;
            if verbose {
                let scope = Scope { allowed: options.allowed, exhaustive: false };
                for (key, [ns, best]) in lab.losses(&swept.plan, scope)? {
                    println!("    {:6.1} us, {:6.1} at best: {key}", ns / 1e3, best / 1e3);
                }
            }
            let regret = 100.0 * (plan / best - 1.0);
            println!(
                "{shape:>5} {format:<8} {seed:>4} {default:>11.0} {plan:>8.0} {best:>8.0} {regret:>9.1} {spent:>8.0} {:>9} {real:>7.1}",
                swept.measured
            );
        }
    }
    if std::env::var_os("VERBOSE").is_none() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(())
}
