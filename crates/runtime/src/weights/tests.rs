use super::*;
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_loader::Container;
use wgoose_loader::synth::{Mix, SynthOptions, write};

#[test]
fn layers_that_are_alike_lie_in_one_arena() {
    let ranks = LoraRanks { decay: 32, iclr: 32, value: 32, gate: 32 };
    let shape = ModelShape { layers: 3, width: 128, ffn: 256, head_size: 64, vocab: 128, ranks };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, vocabulary: None, ffn_zeros: None };
    write(&options, &path, &|_, _| {}).unwrap();
    let model = Arc::new(Model::open(path).unwrap());
    let mut weights = Weights::new(Device::open(None).unwrap(), Arc::clone(&model));
    let shards = |w| weights.shards(w, model.tensor(w).format()).unwrap();
    let mut all: Vec<RowShard> = Weight::all(&shape).flat_map(shards).collect();
    // As a step needs them: layer by layer, the head last.
    all.sort_by_key(|shard| match layer_of(shard) {
        Some(layer) => layer + 1,
        None if shard.weight == Weight::Embedding => 0,
        None => shape.layers + 1,
    });
    weights.assign(all.iter().copied());
    for shard in &all {
        let own = &weights.own[shard];
        assert_eq!(
            own.arena,
            usize::from(layer_of(shard) != Some(0) && shard.weight != Weight::Embedding),
            "{shard:?}"
        );
        assert!(own.offset + shard.bytes <= weights.arenas[own.arena].bytes);
    }
    assert_eq!(weights.arenas.len(), 2);
}
