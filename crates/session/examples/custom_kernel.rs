//! A kernel of one's own: WGSL from a folder, held against the op's reference, then raced with the built-in ones.
//!
//! `cargo run --release -p wgoose-session --example custom_kernel [MODEL [FOLDER]]`; FOLDER has `activate/fours.wgsl`.

mod support;

use std::error::Error;
use std::path::PathBuf;
use wgoose_graph::{BatchShape, Op, rwkv7};
use wgoose_kernels::{File, Kernel, Site, Sources, Variant, ops, refuse_if};
use wgoose_loader::Model;
use wgoose_runtime::Device;
use wgoose_runtime::lab::{Bench, Case, Clock, Expected, check};

/// Four elements an invocation. Bindings are named as the op's operands; `// tune:` and `// op:` mark literals.
const FOURS: &str = "
#import params
#import unit
#import activation
const ACTIVATION: u32 = NONE;   // op: activation
const WG: u32 = 64u;    // tune: 64 128
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(WG)
fn main(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) grid: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let i = unit_of(workgroup, grid) * WG + lane;
    if i >= params.rows * params.m / 4u { return; }
    let v = x[i];
    y[i] = vec4(activate(ACTIVATION, v.x), activate(ACTIVATION, v.y), activate(ACTIVATION, v.z), activate(ACTIVATION, v.w));
}";

/// What a file cannot say of itself: where it is, which sites it serves, how many workgroups it takes.
const MINE: Variant = Variant {
    op: "activate",
    name: "fours",
    wgsl: File { path: "activate/fours.wgsl", text: FOURS },
    needs: &[],
    accepts: |site, _| refuse_if(!site.m.is_multiple_of(4), "rows of whole fours"),
    units: |site, tunables| (site.output_len() as u64 / 4).div_ceil(tunables.number("WG").into()),
};

fn main() -> Result<(), Box<dyn Error>> {
    let (model, _model) = support::model()?;
    let folder = tempfile::tempdir()?;
    std::fs::create_dir(folder.path().join("activate"))?;
    std::fs::write(folder.path().join(MINE.wgsl.path), FOURS)?;
    let sources = Sources::Folder(std::env::args_os().nth(2).map_or(folder.path().into(), PathBuf::from));

    // The op where it stands in this model, for 256 tokens: every size is known.
    let (model, device) = (Model::open(model)?, Device::open(None)?);
    let graph = rwkv7::forward(model.shape())?;
    let activates = |id: &_| matches!(graph.op(*id).op, Op::Activate { .. }) && graph.op(*id).role == "ffn.relu2";
    let id = graph.op_ids().find(activates).ok_or("the model has no such op")?;
    let batch = BatchShape { tokens: 256, segments: 1, outputs: 1 };
    let site = Site::of(&graph, id, &batch, &|weight| model.tensor(weight).format());

    let case = Case::random(&site, 1);
    let expected = Expected::of(&case);
    for variant in ops::variants("activate").iter().chain([&MINE]) {
        for tunables in variant.points(&sources)? {
            let kernel = Kernel::new(variant, &site, &tunables, device.limits(), &sources)?;
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
