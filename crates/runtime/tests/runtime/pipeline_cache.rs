//! Pipelines kept on disk: found by the next device, never trusted, never in the way.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};
use wgoose_graph::{LoraRanks, ModelShape};
use wgoose_kernels::Plan;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};
use wgoose_plans::catalogue;
use wgoose_runtime::timeline::{Timeline, Track};
use wgoose_runtime::{Device, DeviceOptions, Engine, Outputs, PipelineCounts, Sequence};

fn model() -> Arc<Model> {
    let ranks = LoraRanks { decay: 8, iclr: 8, value: 8, gate: 8 };
    let shape = ModelShape {
        layers: 2,
        width: 64,
        ffn: 128,
        head_size: 64,
        vocab: 96,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed: 1, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    write(&options, &path, &mut unwatched).unwrap();
    Arc::new(Model::open(path).unwrap())
}

/// A run on a fresh device with that cache: the logits of a prompt and of a token after it, and its pipelines.
fn run(model: &Arc<Model>, cache: Option<&Path>) -> (Vec<f32>, PipelineCounts) {
    traced(model, cache, Timeline::off())
}

fn traced(model: &Arc<Model>, cache: Option<&Path>, timeline: Timeline) -> (Vec<f32>, PipelineCounts) {
    let options = DeviceOptions { cache: cache.map(Path::to_owned), timeline, ..DeviceOptions::default() };
    let device = Device::open_with(&options).unwrap();
    let plan = Plan::default_for(device.fingerprint().clone(), *model.shape(), device.limits());
    let mut engine = Engine::gpu(device, Arc::clone(model), plan, catalogue::embedded(), 1).unwrap();
    let mut logits = Vec::new();
    for tokens in [[7, 3, 95, 0, 1].as_slice(), &[2]] {
        logits.extend(engine.forward(&[Sequence { slot: 0, tokens, outputs: Outputs::All }]).unwrap().remove(0));
    }
    (logits, engine.report().pipelines)
}

/// Without a cache: the logits, and how many pipelines there are to be kept.
fn uncached(model: &Arc<Model>) -> (Vec<f32>, u32) {
    let (logits, counts) = run(model, None);
    assert_eq!(counts.found, 0);
    assert!(counts.compiled > 5, "{counts:?}");
    (logits, counts.compiled)
}

/// Whether the default device keeps pipelines; says so if it does not. Mesa's CPU driver has the feature, and keeps
/// nothing but a header.
fn keeps() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let options = DeviceOptions { cache: Some(folder.path().to_owned()), ..DeviceOptions::default() };
    let device = Device::open_with(&options).unwrap();
    let keeps = device.cache().is_some() && !device.is_cpu();
    if !keeps {
        println!("skipped: {} keeps no pipelines", device.fingerprint().adapter);
    }
    keeps
}

/// The entries below a cache folder: paths and contents, by name.
fn entries(cache: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let devices: Vec<_> = fs::read_dir(cache.join("pipelines")).unwrap().map(|d| d.unwrap().path()).collect();
    let [device] = devices.as_slice() else { panic!("one device, one folder: {devices:?}") };
    let mut paths: Vec<_> = fs::read_dir(device).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

#[test]
fn a_driver_without_a_pipeline_cache_finds_no_pipeline() {
    if keeps() {
        return;
    }
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    for _ in 0..2 {
        assert!(run(&model, Some(folder.path())) == (logits.clone(), PipelineCounts { compiled: all, found: 0 }));
    }
    assert!(!folder.path().join("pipelines").exists());
}

#[test]
fn the_next_device_finds_all_pipelines() {
    if !keeps() {
        return;
    }
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let cache = folder.path().join("not/there/yet");
    let (logits, all) = uncached(&model);
    let first = Timeline::on();
    let got = traced(&model, Some(&cache), first.clone());
    assert!(got == (logits.clone(), PipelineCounts { compiled: all, found: 0 }), "{:?}", got.1);
    let kept = entries(&cache);
    assert_eq!(kept.len(), all as usize);

    let second = Timeline::on();
    let got = traced(&model, Some(&cache), second.clone());
    assert!(got == (logits, PipelineCounts { compiled: 0, found: all }), "{:?}", got.1);
    assert!(entries(&cache) == kept, "nothing is written again");

    let names = |timeline: &Timeline| {
        let spans = timeline.spans().into_iter().filter(|span| span.track == Track::Compile);
        // A device's check is no pipeline of a model.
        let names = spans.map(|span| span.name.into_owned()).filter(|name| !name.starts_with("device/checks/"));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let (first, second) = (names(&first), names(&second));
    assert_eq!(first.len(), all as usize);
    assert_eq!(second, first.iter().map(|name| format!("cached {name}")).collect::<Vec<_>>());
}

/// Changes the bytes of an entry.
type Damage = fn(&[u8]) -> Vec<u8>;

#[test]
fn entries_that_are_not_whole_are_compiled_again_and_repaired() {
    if !keeps() {
        return;
    }
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    run(&model, Some(folder.path()));
    let kept = entries(folder.path());
    let ways: [(&str, Damage); 5] = [
        ("garbled", |bytes| bytes.iter().map(|b| b ^ 0x5a).collect()),
        ("the last byte another", |bytes| [&bytes[..bytes.len() - 1], &[!bytes[bytes.len() - 1]]].concat()),
        ("truncated", |bytes| bytes[..bytes.len() / 2].to_vec()),
        ("cut in the header", |bytes| bytes[..9].to_vec()),
        ("empty", |_| Vec::new()),
    ];
    for (what, damage) in ways {
        for (path, bytes) in &kept {
            fs::write(path, damage(bytes)).unwrap();
        }
        let got = run(&model, Some(folder.path()));
        assert!(got == (logits.clone(), PipelineCounts { compiled: all, found: 0 }), "{what}: {:?}", got.1);
        let got = run(&model, Some(folder.path()));
        assert!(got == (logits.clone(), PipelineCounts { compiled: 0, found: all }), "{what}: not repaired");
    }
    // Each is an entry in itself: exchanged, they are whole, and for another kernel.
    for ((path, _), (_, other)) in kept.iter().zip(kept.iter().cycle().skip(1)) {
        fs::write(path, other).unwrap();
    }
    let got = run(&model, Some(folder.path()));
    assert!(got == (logits, PipelineCounts { compiled: all, found: 0 }), "exchanged: {:?}", got.1);
}

#[test]
fn missing_pipelines_are_compiled_and_the_others_found() {
    if !keeps() {
        return;
    }
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    run(&model, Some(folder.path()));
    for (path, _) in entries(folder.path()).iter().take(3) {
        fs::remove_file(path).unwrap();
    }
    assert!(run(&model, Some(folder.path())) == (logits, PipelineCounts { compiled: 3, found: all - 3 }));
}

#[test]
fn an_unusable_folder_costs_the_cache_only() {
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    let nothing_kept = |cache: &Path| {
        for _ in 0..2 {
            let got = run(&model, Some(cache));
            let none = PipelineCounts { compiled: all, found: 0 };
            assert!(got == (logits.clone(), none), "{}: {:?}", cache.display(), got.1);
        }
    };
    let file = folder.path().join("file");
    fs::write(&file, "in the way").unwrap();
    nothing_kept(&file);
    nothing_kept(&file.join("below"));
    let taken = folder.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("pipelines"), "in the way").unwrap();
    nothing_kept(&taken);
    assert_eq!(fs::read(&file).unwrap(), b"in the way");
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_costs_the_cache_only() {
    use std::os::unix::fs::PermissionsExt;
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
    mode(0o555);
    // The superuser may write there nevertheless.
    let may_write = fs::create_dir(folder.path().join("probe")).is_ok();
    let [first, second] = [(); 2].map(|()| run(&model, Some(folder.path())));
    mode(0o755);
    assert!(first == (logits.clone(), PipelineCounts { compiled: all, found: 0 }), "{:?}", first.1);
    let found = if may_write && keeps() { all } else { 0 };
    assert!(second == (logits, PipelineCounts { compiled: all - found, found }), "{:?}", second.1);
}

#[test]
fn devices_share_a_folder_at_the_same_time() {
    if !keeps() {
        return;
    }
    let (model, folder) = (model(), tempfile::tempdir().unwrap());
    let (logits, all) = uncached(&model);
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let same_time = || {
            start.wait();
            run(&model, Some(folder.path()))
        };
        for thread in [scope.spawn(same_time), scope.spawn(same_time)] {
            let (got, counts) = thread.join().unwrap();
            assert!(got == logits);
            assert_eq!(counts.compiled + counts.found, all);
        }
    });
    assert_eq!(entries(folder.path()).len(), all as usize, "entries, and no leavings");
    assert!(run(&model, Some(folder.path())) == (logits, PipelineCounts { compiled: 0, found: all }));
}
