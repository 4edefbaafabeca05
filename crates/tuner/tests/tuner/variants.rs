//! Variants of an op side by side: each has the same search, and a copy is never called faster.

use crate::simulated::{cache, options, problem};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wgoose_graph::{Format, FusionSet};
use wgoose_kernels::Precision;
use wgoose_measure::job::{Configured, Cost, Job};
use wgoose_measure::ledger::{Clock, Ledger, Outcome, Timing};
use wgoose_measure::result_cache::ResultCache;
use wgoose_measure::runner::{Assignment, Runner, RunnerError};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, Scope, groups};
use wgoose_measure::stats::Verdict;
use wgoose_plans::catalogue;
use wgoose_sim::{SimulatedDevice, SimulatedRunner};
use wgoose_tuner::kernel_tuning::{Beside, KernelTuner, SideBySide};
use wgoose_tuner::sweep::{Event, SweepOptions, search};

const ROW: &str = include_str!("../../../../kernels-wgsl/ops/layer_norm/row.wgsl");

/// A device on which a kernel's configuration alone says what it takes: wide workgroups are far faster than the
/// default. Every job takes a tenth of a second.
struct ByWidth {
    jobs: u32,
}

fn ns(kernel: &Configured) -> f64 {
    1e6 / kernel.config["WG"].parse::<f64>().unwrap().powi(2)
}

impl Runner for ByWidth {
    fn run(&mut self, assignment: Assignment<'_>) -> Result<(Outcome, Cost), RunnerError> {
        self.jobs += 1;
        let outcome = match assignment.job {
            Job::Kernel { kernel, .. } => {
                let samples_ns = vec![ns(kernel); 5];
                Outcome::Kernel(Timing { samples_ns, repeats: 1, copies: 1, gate: None })
            }
            Job::Kernels { kernels, .. } => {
                let samples_ns = kernels.each_ref().map(|kernel| vec![ns(kernel); 8]);
                Outcome::Pair { samples_ns, repeats: 1, copies: 1 }
            }
            _ => Outcome::Done,
        };
        Ok((outcome, Cost::default()))
    }

    fn compile_ahead(&mut self, _: &InstanceGroup, _: &[Configured]) -> Result<(Outcome, Cost), RunnerError> {
        Ok((Outcome::Done, Cost::default()))
    }

    fn spent(&self) -> Duration {
        Duration::from_millis(100) * self.jobs
    }

    fn clock(&self) -> Clock {
        Clock::Simulated
    }
}

/// The variants of layer_norm with those of a folder, in so many seconds.
fn side_by_side(folder: &Path, subject: Option<&str>, seconds: u64) -> SideBySide {
    let (problem, catalogue) = (problem("0.1B", Format::Q8_0), catalogue::with_folder(folder).unwrap());
    let all = groups(&problem.shape, Scenario::DECODE, &FusionSet::default(), &|_| Format::Q8_0);
    let site = all.into_iter().find(|group| group.key.op == "layer_norm").unwrap();
    let ledger = Ledger::open(folder.join("ledger.jsonl")).unwrap();
    let mut runner = ByWidth { jobs: 0 };
    let mut cache = ResultCache::new(ledger, problem.default.device.clone(), None, &mut runner);
    let scope = Scope { allowed: Precision::F32, exhaustive: false };
    let tuner = KernelTuner::new(&problem.limits, &catalogue, scope);
    tuner.side_by_side(&site, &mut cache, subject, Duration::from_secs(seconds)).unwrap()
}

/// A folder with variants of layer_norm, by name and text.
fn folder(variants: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("ops/layer_norm")).unwrap();
    for (name, text) in variants {
        std::fs::write(folder.path().join(format!("ops/layer_norm/{name}.wgsl")), text).unwrap();
    }
    folder
}

#[test]
fn a_copy_is_identical_and_a_renamed_variable_changes_no_time() {
    let copy = ROW.replacen("// idea: ", "// idea: mine, ", 1).replace("// default: 10\n", "// A copy.\n");
    let renamed = ROW.replace("rstd", "inverse");
    assert!(copy != ROW && renamed != ROW);
    let folder = folder(&[("copy", &copy), ("renamed", &renamed)]);
    for (subject, seconds) in [("copy", 20), ("renamed", 20), ("renamed", 1)] {
        let SideBySide { timed, pairs } = side_by_side(folder.path(), Some(subject), seconds);
        assert_eq!(pairs.len(), 2);
        for pair in pairs {
            assert_eq!(pair.candidate, subject);
            let is_equal = match (&*pair.candidate, &*pair.incumbent, &pair.beside) {
                ("renamed", ..) | (_, "renamed", _) => {
                    matches!(&pair.beside, Beside::Compared(comparison) if comparison.verdict == Verdict::Same)
                }
                (.., beside) => matches!(beside, Beside::Identical),
            };
            assert!(is_equal, "{} beside {}: {}", pair.candidate, pair.incumbent, pair.beside);
        }
        let of = |name: &str| timed.iter().find(|timed| timed.name == name).unwrap();
        assert_eq!(of("copy").copy_of.as_deref(), Some("row"));
        assert_eq!(of("row").tried, of("renamed").tried, "as many configurations of each");
        assert_eq!(of("row").result.as_ref().unwrap().median, of("renamed").result.as_ref().unwrap().median);
    }
}

#[test]
fn a_faster_variant_is_called_fast_and_the_default_is_the_incumbent() {
    // Only the default has the widths that are fast.
    let narrow = ROW.replace("u;   // tune: 32 64 128 256 512 1024", "u;   // tune: 128 256");
    assert_ne!(narrow, ROW);
    let narrow = narrow.replace("// default: 10\n", "");
    let folder = folder(&[("narrow", &narrow)]);
    let told = |subject| {
        let SideBySide { pairs, .. } = side_by_side(folder.path(), subject, 20);
        let [pair] = &pairs[..] else { panic!("{pairs:?}") };
        format!("{} beside {}: {}", pair.candidate, pair.incumbent, pair.beside)
    };
    assert_eq!(told(Some("row")), "row beside narrow: FAST x16.000 (16.000 to 16.000)");
    assert_eq!(told(None), "narrow beside row: SLOW x0.062 (0.062 to 0.062)");
}

#[test]
fn a_sweep_tries_brought_kernels_first_and_names_untried_files() {
    let rows = include_str!("../../../../kernels-wgsl/ops/norm_shift/rows.wgsl");
    let lerp = include_str!("../../../../kernels-wgsl/ops/lerp/elements.wgsl");
    let without_place = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with("// default:")).map(|line| format!("{line}\n")).collect()
    };
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("norm_shift/mine", without_place(rows)),
        (
            "norm_shift/huge",
            without_place(rows) + "const K: u32 = 2u;  // op: k\nconst_assert K < 3u;  // tiny models only\n",
        ),
        ("lerp/planes", without_place(lerp)),
        ("lerp/broken", without_place(&lerp.replace("let c = i % params.m;", "let c = i % params.m"))),
        ("lerp/misspelt", without_place(lerp).replace("// tune:", "// tunes:")),
    ] {
        let path = folder.path().join(format!("ops/{path}.wgsl"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let catalogue = catalogue::with_folder_in_part(folder.path()).unwrap();
    let problem = problem("0.1B", Format::F16);
    let options = SweepOptions {
        catalogue: Arc::clone(&catalogue),
        persistent: false,
        ..options(&folder.path().join("ledger.jsonl"), 1)
    };
    let mut runner = SimulatedRunner::new(&problem, &catalogue, SimulatedDevice::h200(1));
    let mut said = Vec::new();
    search(&problem, &options, cache(&problem, &options, &mut runner), &mut |event| {
        said.extend(matches!(event, Event::Note(_)).then(|| event.to_string()));
        ControlFlow::Continue(())
    })
    .unwrap();
    let has = |begin: &str| said.iter().any(|line| line.starts_with(begin));
    for begin in [
        "note: a variant is left out: ops/lerp/broken.wgsl:2",
        "note: a file is left out: ops/lerp/misspelt.wgsl:6: there is no marker 'tunes'",
        "note: never tried: ops/lerp/planes.wgsl: no pass of the plan has its op",
        "note: never tried: ops/lerp/misspelt.wgsl: ops/lerp/misspelt.wgsl:6: ",
        "note: never tried: ops/norm_shift/huge.wgsl: ",
    ] {
        assert!(has(begin), "{begin}: {said:#?}");
    }
    assert!(said.iter().any(|line| line.contains("huge.wgsl: ") && line.contains("tiny models only")), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("mine.wgsl")), "{said:#?}");
    let trials = wgoose_measure::ledger::read(&options.ledger).unwrap().0;
    let mut tried: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (_, trial) in trials.trials() {
        if let Job::Kernel { site, kernel } = &trial.identity.tried
            && site.key.op == "norm_shift"
        {
            let names = tried.entry(site.rows).or_default();
            names.extend((names.last() != Some(&kernel.variant.as_str())).then_some(kernel.variant.as_str()));
        }
    }
    // At every site the default is timed, and then the kernel that was brought along.
    assert!(tried.values().any(|names| names.len() > 1), "{tried:?}");
    assert!(tried.values().all(|names| names.get(1).is_none_or(|second| *second == "mine")), "{tried:?}");
}
