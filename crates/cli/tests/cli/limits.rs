//! Every format gives the same certified answers with what every WebGPU device has, through OpenGL, and on the reference.

use crate::binary::{printed, said, wgoose};
use std::path::Path;
use std::sync::Arc;
use wgoose_kernels::{Catalogue, Plan, Precision};
use wgoose_loader::Model;
use wgoose_runtime::{Device, DeviceLimits, DeviceOptions, Engine, GpuExecutor};
use wgoose_tuner::quality::{Quality, Reference};

/// Formats of the matrices. K-quants need rows of 256.
const MIXES: [&str; 8] = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K_M", "Q5_K_M", "Q6_K"];

/// The default plan on a device with the limits of WebGPU, but for one: WKV binds 9 storage buffers.
fn on_the_least(model: &Path, cache: &Path) -> Quality {
    let options = DeviceOptions { limits: DeviceLimits::WebGpu, ..DeviceOptions::default() };
    let device = Device::open_limited(&options, &|limits| limits.storage_buffers = 9).unwrap();
    let model = Arc::new(Model::open(model).unwrap());
    let plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let chunk = plan.prefill_chunk as usize;
    let executor = GpuExecutor::new(device, Arc::clone(&model), plan, Catalogue::embedded(), Reference::SLOTS).unwrap();
    assert_eq!(executor.precision(), Precision::F32);
    let reference = Reference::cached(&model, cache).unwrap();
    reference.evaluate(&mut Engine::new(Box::new(executor), chunk)).unwrap()
}

#[test]
fn the_quality_hash_is_the_same_on_every_back_end_and_with_the_least_limits() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Where there is no OpenGL, that part has nothing to say.
    printed(folder, "synth probe.gguf --layers 1 --width 64 --vocab 300".split(' '));
    std::fs::write(folder.join("ids.json"), "[1]").unwrap();
    let on_gl = "logits probe.gguf --tokens ids.json --out l.npy --no-cache --device gl";
    let has_gl = wgoose(folder, on_gl.split(' ')).status.success();
    let mut ways = vec!["", "--backend cpu"];
    ways.extend(has_gl.then_some("--device gl"));
    for mix in MIXES {
        let shape = "--layers 1 --width 256 --ffn 256 --vocab 300 --ranks 16,16,16,16";
        printed(folder, format!("synth m.gguf {shape} --mix {mix}").split(' '));
        let least = on_the_least(&folder.join("m.gguf"), &folder.join("cache"));
        assert_eq!(least.disagreements, 0, "{mix}: {least:?}");
        for way in &ways {
            let line = format!("verify m.gguf --plan default --cache cache --json {way}");
            let quality: Quality = serde_json::from_str(&printed(folder, line.split_whitespace())).unwrap();
            assert_eq!((quality.disagreements, quality.hash), (0, least.hash.clone()), "{mix} {way}");
        }
    }
}

/// Nothing is wrong there, and it is said what is missing. A kernel of WKV with 8 bindings moves this into the test above.
#[test]
fn with_all_limits_of_webgpu_wkv_says_what_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    printed(folder.path(), "synth m.gguf --layers 1 --width 64 --vocab 300".split(' '));
    let output = wgoose(folder.path(), "verify m.gguf --plan default --limits webgpu".split(' '));
    assert_eq!(output.status.code(), Some(1));
    let said = said(output);
    assert!(
        said.contains("no kernel of 'wkv'") && said.ends_with("needs 9 storage buffers, the device has 8\n"),
        "{said}"
    );
}
