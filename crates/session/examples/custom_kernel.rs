//! A user's own kernel: a WGSL file in a folder is a variant. It is compared with the op's reference, then timed beside
//! the variants of the binary.
//!
//! `cargo run --release -p wgoose-session --example custom_kernel [MODEL [FOLDER]]`; FOLDER has
//! `ops/activate/vec4.wgsl` or others. `wgoose dev kernel activate --kernels FOLDER` does the same and more.

mod support;

use std::error::Error;
use std::path::PathBuf;
use wgoose_graph::{BatchShape, Op, rwkv7};
use wgoose_kernels::{Instance, Kernel};
use wgoose_loader::Model;
use wgoose_plans::catalogue;
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::{Bench, Case, Clock, Expected, Numbers, check};

/// Four elements a thread. Bindings are named as the op's operands; `kernels-wgsl/README.md` explains the comments.
const VEC4: &str = "// idea: y = f(x), four elements per thread.
// grid: ceil_div(rows * m / 4, WG)
#import lib/op

const_assert M % 4u == 0u;   // rows of whole vectors

const WG: u32 = 64u;         // tune: 64 128
const M: u32 = 4u;           // op: m

@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) tid: u32,
) {
    let i = workgroup_index(workgroup, grid) * WG + tid;
    if i >= params.rows * M / 4u { return; }
    let v = x[i];
    y[i] = vec4(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z), activate(ACTIVATION, v.w));
}";

fn main() -> Result<(), Box<dyn Error>> {
    let (model, _model) = support::model()?;
    let own = tempfile::tempdir()?;
    std::fs::create_dir_all(own.path().join("ops/activate"))?;
    std::fs::write(own.path().join("ops/activate/vec4.wgsl"), VEC4)?;
    let catalogue = catalogue::with_folder(&std::env::args_os().nth(2).map_or(own.path().into(), PathBuf::from))?;

    // The op where it stands in this model, for 256 tokens: every size is known.
    let (model, device) = (Model::open(model)?, Device::open(None)?);
    let graph = rwkv7::forward(model.shape())?;
    let activates = |id: &_| matches!(graph.op(*id).op, Op::Activate { .. }) && graph.op(*id).role == "ffn.relu2";
    let id = graph.op_ids().find(activates).ok_or("the model has no such op")?;
    let batch = BatchShape { tokens: 256, segments: 1, outputs: 1 };
    let instance = Instance::of(&graph, id, &batch, &|weight| model.tensor(weight).format());

    let case = Case::random(&instance, Numbers::Even, 1);
    let expected = Expected::of(&case);
    for variant in catalogue.variants("activate") {
        for config in variant.configs() {
            let kernel = Kernel::new(variant, &instance, &config, device.limits())?;
            let bench = Bench::new(&device, &kernel, &case, 1)?;
            let deviation = check(&bench, &case, &expected)?;
            assert!(deviation.passed(), "{}: {deviation:?}", kernel.label);
            let clock = Clock::self_test(&device, &|pass, n| bench.encode(pass, n))?;
            let us = bench.time(&clock, 50)?.ns / 1e3;
            println!("{us:9.2} us, error {:.1e} of {:.1e}: {}", deviation.worst, deviation.tolerance, kernel.label);
        }
    }
    Ok(())
}
