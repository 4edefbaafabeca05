use super::*;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, write};

#[test]
fn layers_that_are_alike_lie_in_one_slab() {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
    let shape = ModelShape { layers: 3, width: 128, ffn: 256, head_size: 64, vocab: 128, ranks };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, vocabulary: None, ffn_zeros: None };
    write(&options, &path, &|_, _| {}).unwrap();
    let model = Arc::new(Model::open(path).unwrap());
    let mut weights = Weights::new(Device::open(None).unwrap(), Arc::clone(&model));
    let windows = |w| weights.windows(w, model.tensor(w).format()).unwrap();
    let mut all: Vec<Window> = Weight::all(&shape).flat_map(windows).collect();
    // As a step needs them: layer by layer, the head last.
    all.sort_by_key(|window| match layer_of(window) {
        Some(layer) => layer + 1,
        None if window.weight == Weight::Embedding => 0,
        None => shape.layers + 1,
    });
    weights.admit(all.iter().copied());
    for window in &all {
        let own = &weights.own[window];
        assert_eq!(
            own.slab,
            usize::from(layer_of(window) != Some(0) && window.weight != Weight::Embedding),
            "{window:?}"
        );
        assert!(own.offset + window.bytes <= weights.slabs[own.slab].bytes);
    }
    assert_eq!(weights.slabs.len(), 2);
}
