//! Reads adapter files for a model.

use super::config::PeftConfig;
use super::names::{Part, Purpose, Target, Targets};
use super::update::{AdapterTensor, Matrix, Update};
use super::{AdapterError, AdapterSource};
use crate::error::LoadError;
use crate::tensors::TensorFile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wgoose_graph::{ModelShape, Weight};

/// What `peft` calls the file in a folder that it saves.
const IN_FOLDER: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// An adapter, read for a model of some shape.
#[derive(Debug)]
pub(super) struct Adapter {
    /// What is added to matrices.
    pub(super) updates: BTreeMap<Weight, Update>,
    /// What takes the place of weights.
    pub(super) whole: Vec<(Target, AdapterTensor)>,
    /// What `peft` has saved beside it.
    pub(super) config: Option<PeftConfig>,
    /// A hash of all its tensors.
    pub(super) digest: blake3::Hash,
}

/// The tensors of files, by what they are for.
struct Sorted {
    targets: Targets,
    layers: u32,
    parts: BTreeMap<Weight, BTreeMap<Part, AdapterTensor>>,
    whole: Vec<(Target, AdapterTensor)>,
    hasher: blake3::Hasher,
}

impl Adapter {
    /// Reads the files of an adapter: all of their tensors are for weights of the model, and fit.
    pub(super) fn read(shape: &ModelShape, source: &AdapterSource) -> Result<Self, LoadError> {
        let path = file_of(&source.path);
        let wrong = |why: AdapterError| LoadError::Adapter(why).of_file(&path);
        let config = match path.file_name().is_some_and(|name| IN_FOLDER.iter().any(|known| name == *known)) {
            true => PeftConfig::in_folder(path.parent().unwrap_or(Path::new(""))).map_err(wrong)?,
            false => None,
        };
        let mut sorted = Sorted {
            targets: Targets::of(shape),
            layers: shape.layers,
            parts: BTreeMap::new(),
            whole: Vec::new(),
            hasher: blake3::Hasher::new(),
        };
        sorted.add_file(&path, |_| true)?;
        if let Some(initial) = &source.initial {
            if !sorted.parts.values().any(|parts| parts.contains_key(&Part::A)) {
                return Err(wrong(AdapterError::NoPissa { path: initial.clone() }));
            }
            let is_initial =
                |purpose| matches!(purpose, Purpose::Part(_, Part::InitialA | Part::InitialB) | Purpose::OtherModel);
            sorted.add_file(initial, is_initial)?;
            let lacks = |(_, parts): &(&Weight, &BTreeMap<Part, AdapterTensor>)| {
                parts.contains_key(&Part::A) && !parts.contains_key(&Part::InitialA)
            };
            if let Some((&weight, _)) = sorted.parts.iter().find(lacks) {
                return Err(wrong(AdapterError::Incomplete { weight, missing: "init_lora_A" }));
            }
        }
        if sorted.parts.is_empty() {
            return Err(wrong(AdapterError::Nothing));
        }
        let updates = sorted.parts.into_iter().map(|(weight, parts)| {
            let [rows, cols] = weight.shape(shape).map(|n| n as usize);
            Ok((weight, Update::of(Matrix { weight, rows, cols }, parts)?))
        });
        let updates = updates.collect::<Result<_, _>>().map_err(wrong)?;
        Ok(Adapter { updates, whole: sorted.whole, config, digest: sorted.hasher.finalize() })
    }
}

impl Sorted {
    /// Sorts the tensors of a file, all of which have a purpose that is wanted.
    fn add_file(&mut self, path: &Path, is_wanted: impl Fn(Purpose) -> bool) -> Result<(), LoadError> {
        let wrong = |why: AdapterError| LoadError::Adapter(why).of_file(path);
        let file = TensorFile::open(path)?;
        let mut names: Vec<&str> = file.names().collect();
        names.sort_unstable();
        for name in names {
            let purpose = self.targets.purpose(name);
            let unknown = |why| wrong(AdapterError::Unknown { tensor: name.to_owned(), why });
            match purpose {
                Purpose::Refused(why) => return Err(unknown(why)),
                purpose if !is_wanted(purpose) => {
                    return Err(unknown("not what a PiSSA began with (init_lora_A, init_lora_B)"));
                }
                Purpose::OtherModel => {
                    return Err(wrong(AdapterError::OtherModel { tensor: name.to_owned(), layers: self.layers }));
                }
                Purpose::Unused => continue,
                Purpose::Part(..) | Purpose::Whole(_) => {}
            }
            let (dims, numbers) = file.read(name)?;
            self.hasher.update(name.as_bytes());
            let sizes: Vec<u8> = dims.iter().flat_map(|dim| (*dim as u64).to_le_bytes()).collect();
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
            self.hasher.update(&sizes).update(&bytes);
            let tensor = AdapterTensor { name: name.to_owned(), dims, numbers };
            match purpose {
                Purpose::Part(weight, part) => {
                    if let Some(first) = self.parts.entry(weight).or_default().insert(part, tensor) {
                        return Err(wrong(AdapterError::Twice { weight, tensor: first.name }));
                    }
                }
                Purpose::Whole(target) => {
                    if self.whole.iter().any(|(other, _)| *other == target) {
                        return Err(wrong(AdapterError::Twice { weight: target.weight, tensor: tensor.name }));
                    }
                    self.whole.push((target, tensor));
                }
                Purpose::Unused | Purpose::OtherModel | Purpose::Refused(_) => {}
            }
        }
        Ok(())
    }
}

/// The file of an adapter: that of the folder, if it is one.
fn file_of(path: &Path) -> PathBuf {
    let in_folder = IN_FOLDER.iter().map(|name| path.join(name)).find(|file| path.is_dir() && file.is_file());
    in_folder.unwrap_or_else(|| path.to_owned())
}
