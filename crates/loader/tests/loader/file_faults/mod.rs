//! Files that change or fail while a model is open: errors, never a killed process.

#[cfg(unix)] // Windows refuses to truncate or replace a mapped file
mod changes;
#[cfg(target_os = "linux")]
mod page_cache;
mod reads;
#[cfg(unix)]
mod signals;

use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wgoose_graph::{LoraRanks, ModelShape, Weight};
use wgoose_loader::synth::{Mix, SynthOptions, unwatched, write};
use wgoose_loader::{Container, Model};

/// A folder with a model of some hundred pages in it.
struct Folder {
    _folder: TempDir,
    path: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        write_model(&path, 1);
        Folder { _folder: folder, path }
    }

    fn open(&self) -> Model {
        Model::open(&self.path).unwrap()
    }

    #[cfg(unix)]
    fn truncate(&self, len: u64) {
        self.writable().set_len(len).unwrap();
    }

    /// Truncates the file to some pages for as long as `read` takes. The length comes back and the time of the last
    /// write as well: afterwards only a guard that was needed can know.
    #[cfg(unix)]
    fn without_its_end(&self, read: impl FnOnce()) {
        let file = self.writable();
        let metadata = file.metadata().unwrap();
        file.set_len(16384).unwrap();
        read();
        file.set_len(metadata.len()).unwrap();
        file.set_modified(metadata.modified().unwrap()).unwrap();
    }

    #[cfg(unix)]
    fn writable(&self) -> std::fs::File {
        std::fs::OpenOptions::new().write(true).open(&self.path).unwrap()
    }
}

/// Writes a model that differs with the seed, but not in length.
fn write_model(path: &Path, seed: u64) {
    let ranks = LoraRanks { decay: 32, iclr: 24, value: 16, gate: 48 };
    let shape = ModelShape {
        layers: 3,
        width: 128,
        ffn: 512,
        head_size: 64,
        vocab: 320,
        ranks,
        deep_embed: None,
        embedding_norm: true,
        output_head: true,
    };
    let (container, mix) = (Container::Gguf, Mix::F16);
    let options = SynthOptions { shape, seed, container, mix, hot: false, ffn_zeros: None, vocabulary: None };
    write(&options, path, &mut unwatched).unwrap();
}

/// All weights as numbers, through the map and in the order of the file.
#[cfg(unix)]
fn through_the_map(model: &Model) -> Vec<Vec<f32>> {
    in_file_order(model).into_iter().map(|weight| model.tensor(weight).to_f32()).collect()
}

fn in_file_order(model: &Model) -> Vec<Weight> {
    let mut weights: Vec<_> = Weight::all(model.shape()).collect();
    weights.sort_by_key(|&weight| model.tensor(weight).file_offset());
    weights
}
