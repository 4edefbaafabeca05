//! Products that leave out the columns that meet zeros: the sums they would have with them, to the bit.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::sync::Arc;
use wgoose_graph::{
    BatchShape, Format, Fusion, FusionSet, LayerWeight, LoraRanks, ModelShape, Op, Weight, rewrite, rwkv7,
};
use wgoose_kernels::{Catalogue, Config as Configuration, Instance, Kernel, Variant};
use wgoose_plans::catalogue;
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::{Bench, Case, Expected, Numbers, check};

/// Bytes of workgroup memory that every WebGPU device has.
const LEAST_MEMORY: u32 = 16 << 10;

/// The product with `ffn.value` in a format, added to the residual stream.
fn instance(width: u32, ffn: u32, tokens: u32, format: Format) -> Instance {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
    let shape = ModelShape {
        layers: 1,
        width,
        ffn,
        head_size: 32,
        vocab: 64,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let mut graph = rwkv7::forward(&shape).unwrap();
    rewrite::apply(&mut graph, &FusionSet::from(Fusion::ALL)).unwrap();
    let stored = |w: Weight| if w == Weight::Layer(0, LayerWeight::FfnValue) { format } else { Format::F16 };
    let batch = BatchShape { tokens, segments: tokens, outputs: 1 };
    let instances = graph.schedule().unwrap().into_iter().map(|id| Instance::of(&graph, id, &batch, &stored));
    instances.into_iter().find(|s| s.op == Op::MatmulAdd && s.format("w") == Some(format)).unwrap()
}

fn sparse(catalogue: &Catalogue) -> &Variant {
    catalogue.variant("matmul_add", "gemv_sparse").unwrap()
}

fn kernel(device: &Device, instance: &Instance, config: &Configuration, skip: bool) -> Option<Kernel> {
    let catalogue = catalogue::embedded();
    let variant = sparse(&catalogue);
    let mut spelled = variant.spell(config);
    assert!(spelled.insert("SKIP".into(), u32::from(skip).to_string()).is_some());
    Kernel::new(variant, instance, &variant.config(&spelled).unwrap(), device.limits()).ok()
}

fn assert_skips(device: &Arc<Device>, instance: &Instance, config: &Configuration, zeros: f32, seed: u64) -> bool {
    let [Some(skipping), Some(plain)] = [true, false].map(|skip| kernel(device, instance, config, skip)) else {
        return false;
    };
    let case = Case::random(instance, Numbers::Even, seed).with_zeros("x", zeros, seed);
    let benches = [skipping, plain].map(|k| Bench::new(device, &k, &case, 1).unwrap());
    let expected = Expected::of(&case);
    let [skipped, whole] = benches.map(|bench| {
        let deviation = check(&bench, &case, &expected).unwrap();
        assert!(deviation.passed(), "{}, {zeros} zeros: {deviation:?}", bench.label());
        let y = bench.run(&case).unwrap().y;
        y.iter().map(|y| y.to_bits()).collect::<Vec<u32>>()
    });
    assert!(skipped == whole, "{config:?}, {zeros} zeros at {instance:?}");
    true
}

#[test]
fn leaving_out_zeros_changes_no_bit() {
    let device = Device::open(None).unwrap();
    let configs = sparse(&catalogue::embedded()).configs();
    let strategy = (
        (1u32..9, prop::sample::select(vec![256u32, 512, 768, 1024, 4096]), 1u32..5),
        prop::sample::select(Format::all_k_major().collect::<Vec<_>>()),
        prop::sample::select(configs.clone()),
        prop::sample::select(vec![0.0f32, 0.5, 0.9, 1.0]),
        any::<u64>(),
    );
    let mut runner = TestRunner::new(Config { cases: 32, failure_persistence: None, ..Config::default() });
    runner
        .run(&strategy, |((width, ffn, tokens), format, config, zeros, seed)| {
            let instance = instance(32 * width, ffn, tokens, format);
            prop_assume!(assert_skips(&device, &instance, &config, zeros, seed));
            Ok(())
        })
        .unwrap();
    // Every format at every share, whatever the random cases are.
    for format in Format::all_k_major() {
        let instance = instance(192, 4096, 2, format);
        // The least workgroup memory of WebGPU holds shorter lists of columns only.
        let fits = |config: &&Configuration| kernel(&device, &instance, config, true).is_some();
        let config = match device.limits().workgroup_memory {
            ..=LEAST_MEMORY => configs.iter().find(fits).unwrap(),
            _ => &configs[0],
        };
        for zeros in [0.0, 0.5, 0.9, 1.0] {
            assert!(assert_skips(&device, &instance, config, zeros, 3), "{format}");
        }
    }
}
