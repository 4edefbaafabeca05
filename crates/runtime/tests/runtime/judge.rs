//! Kernels that fool a judge: one for each way that is known, each of which is refused, whatever the seed.

use std::path::Path;
use std::sync::Arc;
use wgoose_kernels::{Catalogue, Variant};
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::property::{Amount, test_rows, test_variant};
use wgoose_runtime::kernel_bench::sanitize::{Coverage, SanitizeOptions, cases, sanitize, widest_limits};

/// Seeds with which each is judged.
const SEEDS: u64 = 5;

/// A right kernel of `matmul`, parts of which are changed.
const FRAME: &str = include_str!("../../../../kernels-wgsl/ops/matmul/naive.wgsl");

/// What a kernel does instead of what the frame does.
#[derive(Clone, Copy)]
struct Fooling {
    name: &'static str,
    directives: &'static str,
    declarations: &'static str,
    before: &'static str,
    product: &'static str,
    after: &'static str,
}

const RIGHT: Fooling = Fooling {
    name: "right",
    directives: "",
    declarations: "",
    before: "",
    product: "value * w_value(row * params.k + c)",
    after: "",
};

const SCRATCH: &str = "@group(0) @binding(20) var<storage, read_write> partials: array<f32>;
@group(0) @binding(21) var<storage, read_write> arrivals: array<atomic<u32>>;";

/// One of each kind. The last is caught by the sanitizer alone: it is right but once in a thousand times.
const ALL: [Fooling; 10] = [
    Fooling { name: "wraps_rows", product: "value * w_value((row % 192u) * params.k + c)", ..RIGHT },
    Fooling {
        name: "skips_what_is_done",
        before: "if !ADD {
        let old = bitcast<u32>(y[token * params.m + params.first + row]);
        if (old & 0x7f800000u) != 0x7f800000u && old != 0x3f000000u && old != 0u {
            return;
        }
    }",
        ..RIGHT
    },
    Fooling {
        name: "counts_runs",
        directives: "// partials: 64",
        declarations: SCRATCH,
        before: "let runs = atomicLoad(&arrivals[900]);
    if i == 0u { atomicAdd(&arrivals[900], 1u); }
    if runs >= 3u { return; }
    partials[0] = 0.0;",
        ..RIGHT
    },
    Fooling {
        name: "remembers_in_partials",
        directives: "// partials: 64",
        declarations: SCRATCH,
        before: "let runs = partials[1];
    if i == 0u { partials[1] = select(runs + 1.0, 1.0, runs != runs); atomicStore(&arrivals[0], 0u); }
    if runs >= 3.0 { return; }",
        ..RIGHT
    },
    Fooling { name: "clamps_operands", product: "clamp(value, -4.0, 4.0) * w_value(row * params.k + c)", ..RIGHT },
    Fooling {
        name: "is_wrong_for_some_rows",
        after: "if params.rows > 40u && params.rows < 60u { sum += 1.0; }",
        ..RIGHT
    },
    Fooling {
        name: "leaves_out_an_odd_tile",
        after: "let last = params.k - 1u;
    if (params.k / 32u) % 2u == 1u && params.k > 64u { sum -= x[token * params.k + last] * w_value(row * params.k + last); }",
        ..RIGHT
    },
    Fooling {
        name: "takes_nan_for_zero",
        product: "select(value, 0.0, (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u)
            * w_value(row * params.k + c)",
        ..RIGHT
    },
    Fooling { name: "writes_nan", after: "if row == 5u { sum = bitcast<f32>(0x7fc00000u | params.rows); }", ..RIGHT },
    Fooling {
        name: "looks_at_what_others_left",
        after: "let word = bitcast<u32>(y[0]) * 2654435761u; if word >> 22u == 77u { sum += 1.0; }",
        ..RIGHT
    },
];

/// A catalogue with that kernel as a variant of `matmul`.
fn catalogue(folder: &Path, fooling: &Fooling) -> Arc<Catalogue> {
    let file = folder.join("ops/matmul").join(fooling.name).with_extension("wgsl");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let Fooling { directives, declarations, before, product, after, .. } = fooling;
    let mut text = FRAME.to_owned();
    for (own, other) in [
        ("// default: 100", (*directives).to_owned()),
        ("@compute", format!("{declarations}\n\n@compute")),
        ("    var sum = 0.0;", format!("    var sum = 0.0;\n    {before}")),
        (
            "        sum += x[token * params.k + c] * w_value(row * params.k + c);",
            format!("        let value = x[token * params.k + c];\n        sum += {product};"),
        ),
        ("    store(at, sum);", format!("    {after}\n    store(at, sum);")),
    ] {
        assert!(text.contains(own), "{own}");
        text = text.replace(own, &other);
    }
    std::fs::write(&file, text).unwrap();
    wgoose_plans::catalogue::with_folder(folder).unwrap()
}

/// What is wrong with a kernel, as `wgoose dev kernel` finds it with any seed: races, indices, rows.
fn fault(device: &Arc<Device>, variant: &Variant) -> Option<String> {
    let limits = widest_limits(32);
    for case in cases("matmul", variant, &limits, Coverage::Default).unwrap() {
        let found = sanitize(&case.kernel, &case.case, &limits, &SanitizeOptions::default()).unwrap();
        if let Some(found) = found.iter().find(|found| found.finding.allowed.is_none()) {
            return Some(found.to_string());
        }
    }
    test_rows(device, "matmul", variant).unwrap().failure.map(|(_, why)| why)
}

/// The fault that random cases of a seed show.
fn fault_at_random(device: &Arc<Device>, variant: &Variant, seed: u64) -> Option<String> {
    test_variant(device, "matmul", variant, Amount::new(20, seed)).unwrap().failure.map(|(_, why)| why)
}

#[test]
fn kernels_that_fool_a_judge_are_refused_with_every_seed() {
    let device = Device::open(None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut missed = Vec::new();
    for fooling in &ALL {
        let catalogue = catalogue(folder.path(), fooling);
        let variant = catalogue.variant("matmul", fooling.name).unwrap();
        if let Some(why) = fault(&device, variant) {
            println!("{}: {}", fooling.name, why.lines().next().unwrap_or_default());
            continue;
        }
        for seed in 0..SEEDS {
            match fault_at_random(&device, variant, seed) {
                Some(why) => println!("{} with seed {seed}: {}", fooling.name, why.lines().next().unwrap_or_default()),
                None => missed.push(format!("{} is called right with seed {seed}", fooling.name)),
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn the_right_kernel_of_the_same_frame_is_right() {
    let device = Device::open(None).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let catalogue = catalogue(folder.path(), &RIGHT);
    let variant = catalogue.variant("matmul", "right").unwrap();
    assert_eq!(fault(&device, variant).or_else(|| fault_at_random(&device, variant, 1)), None);
}
