//! Kernels that fool a clock: a search refuses each before it wins, with the right cause.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use wgoose_graph::{Format, FusionSet, LoraRanks, ModelShape};
use wgoose_kernels::{Catalogue, Kernel};
use wgoose_measure::job::{Configured, Job, Plans};
use wgoose_measure::ledger::{Cause, Outcome, Reason};
use wgoose_measure::paired::Effort;
use wgoose_measure::result_cache::site_id;
use wgoose_measure::runner::{Assignment, KernelRunner, Runner};
use wgoose_measure::scenario::Scenario;
use wgoose_measure::space::{InstanceGroup, groups};
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::Ceiling;

const SHAPE: ModelShape = ModelShape {
    layers: 2,
    width: 128,
    ffn: 256,
    head_size: 64,
    vocab: 300,
    ranks: LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 },
    deep_embed: None,
    embedding_norm: true,
    output_head: true,
};

/// The head of a model, for one token.
fn head() -> InstanceGroup {
    let all = groups(&SHAPE, Scenario::DECODE, &FusionSet::new(), &|_| Format::F16);
    all.into_iter().find(|group| group.key.op == "matmul" && group.key.m == 300).unwrap()
}

/// A variant of `matmul` whose text the sanitizer is told to accept, so that the clock's own checks are what holds it.
fn catalogue(folder: &Path, before: &str) -> Arc<Catalogue> {
    let text = include_str!("../../../../kernels-wgsl/ops/matmul/naive.wgsl");
    let scratch = "@group(0) @binding(20) var<storage, read_write> partials: array<f32>;
@group(0) @binding(21) var<storage, read_write> arrivals: array<atomic<u32>>;

@compute";
    let mut own = text.replace("// default: 100\n", "// partials: 64\n").replace("@compute", scratch);
    own = own.replace("    var sum = 0.0;\n", &format!("{before}\n    var sum = 0.0;\n"));
    assert!(own.contains(before) && own.contains("arrivals"), "{own}");
    let file = folder.join("ops/matmul/fooling.wgsl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, own).unwrap();
    wgoose_plans::catalogue::with_folder(folder).unwrap()
}

/// What comes of timing it.
fn measured(catalogue: &Arc<Catalogue>, ceiling: Option<Ceiling>) -> Outcome {
    let (device, site) = (Device::open(None).unwrap(), head());
    let mut runner = KernelRunner::new(&device, catalogue, &site, (Instant::now(), 3)).unwrap();
    if let Some(ceiling) = ceiling {
        runner = runner.under(ceiling);
    }
    let variant = catalogue.variant("matmul", "fooling").unwrap();
    let config = variant.configs().remove(0);
    let kernel = Kernel::new(variant, &site.instance, &config, device.limits()).unwrap();
    let config = variant.spell(&config);
    let kernel = Configured { variant: "fooling".to_owned(), config, text: kernel.hash.to_string() };
    let job = Job::Kernel { site: site_id(&site), kernel };
    let (effort, plans) = (Effort::none(), Plans::new());
    let assignment = Assignment { job: &job, site: Some(&site), plans: &plans, effort, progress: &|_| () };
    runner.run(assignment).unwrap().0
}

fn cause(outcome: Outcome) -> Option<(Cause, String)> {
    match outcome {
        Outcome::Failed(Reason { cause, text }) => Some((cause, text)),
        _ => None,
    }
}

const USES_SCRATCH: &str = "    if i == 0u { partials[0] = f32(atomicLoad(&arrivals[0])); }";

#[test]
fn kernels_that_remember_are_wrong_in_a_search() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(cause(measured(&catalogue(folder.path(), USES_SCRATCH), None)), None);
    // Each comes to the same as the frame when it is run a few times.
    for (name, before) in [
        (
            "counts in arrivals",
            "    // sanitizer: allow race: a test
    let runs = atomicLoad(&arrivals[900]);
    if i == 0u { atomicAdd(&arrivals[900], 1u); partials[0] = 0.0; }
    if runs >= 9u { return; }",
        ),
        (
            "returns where y is done",
            "    if i == 0u { partials[0] = f32(atomicLoad(&arrivals[0])); }
    let old = abs(y[token * params.m + params.first + row]);
    if old > 0.0 && old < 100.0 { return; }",
        ),
    ] {
        let found = cause(measured(&catalogue(folder.path(), before), None));
        assert!(matches!(&found, Some((Cause::WrongResult | Cause::Race, _))), "{name}: {found:?}");
    }
}

#[test]
fn a_time_below_the_roofline_is_impossible() {
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path(), USES_SCRATCH);
    let slow = Ceiling { read_gb_s: 1e9, gop_s: 1e-9 };
    let (cause, text) = cause(measured(&catalogue, Some(slow))).unwrap();
    assert!(cause == Cause::Impossible && text.contains("million operations"), "{text}");
    let fast = Ceiling { read_gb_s: 1e9, gop_s: 1e9 };
    assert_eq!(self::cause(measured(&catalogue, Some(fast))), None);
}
