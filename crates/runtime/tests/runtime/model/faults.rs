//! Files that change or fail under a model, devices without memory: one clear error, and then on with it.

use crate::model::world::{SHAPE, default_plan, device, gpu, model, tokens};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wgoose_graph::Weight;
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, LoadError, Model, ReadAt};
use wgoose_plans::catalogue;
use wgoose_runtime::{
    BatchError, Device, DeviceOptions, Engine, GpuExecutor, Outputs, Residency, RuntimeError, Sequence, StateData,
};

/// A disk that fails from some byte on, while it is told to.
#[derive(Debug)]
struct Faulty {
    file: std::fs::File,
    from: u64,
    fails: Arc<AtomicBool>,
}

impl ReadAt for Faulty {
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) && offset + out.len() as u64 > self.from {
            return Err(io::Error::other("the disk failed"));
        }
        ReadAt::read_exact_at(&self.file, out, offset)
    }
}

fn file(folder: &tempfile::TempDir, seed: u64) -> std::path::PathBuf {
    let path = folder.path().join(format!("{seed}.gguf"));
    let options = SynthOptions {
        shape: SHAPE,
        seed,
        container: Container::Gguf,
        mix: Mix::F16,
        hot: false,
        ffn_zeros: None,
        vocabulary: None,
    };
    write(&options, &path, &mut unwatched).unwrap();
    path
}

fn read(engine: &mut Engine, tokens: &[u32]) -> Result<Vec<f32>, RuntimeError> {
    engine.forward(&[Sequence { slot: 0, tokens, outputs: Outputs::Last }]).map(|mut l| l.remove(0))
}

#[test]
fn a_disk_that_fails_spoils_the_pass_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 1);
    let plain = Arc::new(Model::open(&path).unwrap());
    let tokens = tokens(1, 20);
    let want = read(&mut gpu(&device(), &plain, 1), &tokens).unwrap();
    // The head is read last: layers have run by then.
    let from = plain.tensor(Weight::Head).file_offset() as u64;
    for residency in [Residency::Lazy, Residency::Budget(40 << 20)] {
        let fails = Arc::new(AtomicBool::new(true));
        let reader = Faulty { file: std::fs::File::open(&path).unwrap(), from, fails: Arc::clone(&fails) };
        let model = Arc::new(Model::open(&path).unwrap().with_reader(Arc::new(reader)));
        let device = device();
        let plan = default_plan(&device, &model);
        let mut executor = GpuExecutor::new(device, Arc::clone(&model), plan, catalogue::embedded(), 1).unwrap();
        executor.set_residency(residency).unwrap();
        let mut engine = Engine::new(Box::new(executor), 64);
        let error = read(&mut engine, &tokens).unwrap_err();
        assert!(matches!(error, RuntimeError::Model(LoadError::Read { .. })), "{error}");
        assert!(error.to_string().contains("1.gguf") && !error.to_string().contains('\n'), "{error}");
        let invalidated = Err(BatchError::Invalidated { sequence: 0, slot: 0 });
        let refused = |e| match e {
            RuntimeError::Batch(e) => e,
            other => panic!("{other}"),
        };
        assert_eq!(read(&mut engine, &tokens).map_err(refused), invalidated.clone().map(|()| vec![]));
        assert_eq!(engine.state(0).map(|_| ()).map_err(refused), invalidated);

        fails.store(false, Ordering::Relaxed);
        engine.set_state(0, &StateData::zero(&SHAPE)).unwrap();
        assert!(read(&mut engine, &tokens).unwrap() == want, "the disk is back");
    }
}

#[test]
fn a_file_truncated_after_opening_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, 2);
    let model = Arc::new(Model::open(&path).unwrap());
    let mut engine = gpu(&device(), &model, 1);
    let mut cpu = Engine::cpu(Arc::clone(&model), 1).unwrap();
    let half = std::fs::metadata(&path).unwrap().len() / 2;
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(half).unwrap();
    for _ in 0..2 {
        let error = read(&mut engine, &tokens(1, 5)).unwrap_err();
        assert!(matches!(error, RuntimeError::Model(LoadError::Shortened { .. })), "{error}");
        engine.set_state(0, &StateData::zero(&SHAPE)).unwrap();
    }
    let error = read(&mut cpu, &tokens(1, 5)).unwrap_err();
    assert!(matches!(error, RuntimeError::Model(LoadError::Shortened { .. })), "{error}");
}

#[test]
fn a_rewritten_file_is_an_error_and_a_renamed_file_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (file(&folder, 3), file(&folder, 4));
    let model = Arc::new(Model::open(&path).unwrap());
    let want = read(&mut gpu(&device(), &model, 1), &tokens(1, 5)).unwrap();

    let kept = Arc::new(Model::open(&path).unwrap());
    std::fs::rename(&other, &path).unwrap();
    assert!(read(&mut gpu(&device(), &kept, 1), &tokens(1, 5)).unwrap() == want, "the old file is still there for us");

    let path = file(&folder, 5);
    let model = Arc::new(Model::open(&path).unwrap());
    let rewritten = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    rewritten.set_modified(std::time::UNIX_EPOCH).unwrap();
    let error = read(&mut gpu(&device(), &model, 1), &tokens(1, 5)).unwrap_err();
    assert!(matches!(error, RuntimeError::Model(LoadError::Rewritten { .. })), "{error}");
}

#[test]
fn a_device_without_memory_says_so_and_how_to_go_on() {
    let model = model(Mix::F16);
    // Room for the state and the activations, not for the weights.
    let little = Device::open_with(&DeviceOptions { memory: Some(2 << 20), ..DeviceOptions::default() }).unwrap();
    let mut engine = gpu(&little, &model, 1);
    for _ in 0..2 {
        let error = read(&mut engine, &tokens(1, 5)).unwrap_err();
        assert!(matches!(error, RuntimeError::OutOfMemory { .. }), "{error}");
        assert!(error.to_string().contains("--gpu-budget"), "{error}");
        engine.set_state(0, &StateData::zero(&SHAPE)).unwrap();
    }
}
