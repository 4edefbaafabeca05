//! The problem of a search, as plain data: a model's sizes and formats on a device.

use crate::scenario::Scenario;
use crate::space::{InstanceGroup, groups};
use std::collections::{BTreeMap, BTreeSet};
use wgoose_graph::{Format, Fusion, FusionSet, LayerWeight, ModelShape, Weight, WeightClass};
use wgoose_kernels::plan::bindable_fusions;
use wgoose_kernels::{Catalogue, Limits, Plan};
use wgoose_loader::Model;
use wgoose_runtime::Device;

/// A model's sizes and formats on a device: all that a search knows but for what it measures.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What the device can do.
    pub limits: Limits,
    /// Sizes of the model.
    pub shape: ModelShape,
    /// How its file stores each weight.
    pub formats: BTreeMap<Weight, Format>,
    /// Content id of the model; behind a plus sign that of kernels from beside the binary: default kernels are theirs,
    /// and no plan names these.
    pub model: String,
    /// What is held against: the device's default.
    pub default: Plan,
}

impl Problem {
    /// That of a model on a device.
    pub fn of(device: &Device, model: &Model, catalogue: &Catalogue) -> Self {
        let shape = *model.shape();
        Problem {
            limits: device.limits().clone(),
            shape,
            formats: Weight::all(&shape).map(|weight| (weight, model.tensor(weight).format())).collect(),
            model: model.fingerprint().to_string() + &kernels_id(catalogue),
            default: Plan::default_for(device.fingerprint().clone(), shape, device.limits()),
        }
    }

    /// How a plan stores each weight on the GPU.
    pub fn formats_on_gpu<'a>(&'a self, plan: &'a Plan) -> impl Fn(Weight) -> Format + 'a {
        |weight| plan.format_on_gpu(weight, self.formats.get(&weight).copied().unwrap_or(Format::F32))
    }

    /// The default plan with each set of layouts.
    pub fn laid_out(&self) -> Vec<Plan> {
        let layouts = self.layouts();
        let mut plans = Vec::new();
        for interleave in subsets(&layouts.interleaved) {
            for k_major in subsets(&layouts.k_major) {
                plans.push(Plan { interleave: interleave.clone(), k_major, ..self.default.clone() });
            }
        }
        plans
    }

    /// Fusions of decoding: of the default, all, sets that make every op, and those that differ from these by one.
    pub fn fusion_sets(&self) -> BTreeSet<FusionSet> {
        let bindable = bindable_fusions(&self.shape, &self.limits);
        let covering = Fusion::covering_sets().map(|set| &set & &bindable);
        let begin = [self.default.fusions.decode.clone(), bindable.clone()].into_iter().chain(covering);
        let mut sets: BTreeSet<FusionSet> = begin.collect();
        for set in sets.clone() {
            sets.extend(bindable.iter().map(|fusion| &set ^ &FusionSet::from([*fusion])));
        }
        sets
    }

    /// Every kind of op instance that a step of decoding has with any of these layouts and fusions.
    pub fn decode_sites(&self) -> Vec<InstanceGroup> {
        let (mut sites, fusion_sets) = (BTreeMap::new(), self.fusion_sets());
        for plan in self.laid_out() {
            for fusions in &fusion_sets {
                for group in groups(&self.shape, Scenario::DECODE, fusions, &self.formats_on_gpu(&plan)) {
                    sites.entry(group.key.clone()).or_insert(group);
                }
            }
        }
        sites.into_values().collect()
    }

    /// The layouts that there are for its matrices.
    pub fn layouts(&self) -> Layouts {
        Layouts::of(&self.formats)
    }
}

/// The layouts that there are for a model's matrices.
#[derive(Clone, Debug, Default)]
pub struct Layouts {
    /// Formats that can be interleaved.
    pub interleaved: BTreeSet<Format>,
    /// Matrices of a layer that can be K-major, and whose x has zeros.
    pub k_major: BTreeSet<LayerWeight>,
}

impl Layouts {
    /// Those of a model whose file has such formats.
    pub fn of(formats: &BTreeMap<Weight, Format>) -> Self {
        let matrices = formats.iter().filter(|(w, _)| w.class() != WeightClass::Vector).map(|(_, format)| *format);
        let interleaved = matrices.filter(|f| f.interleaved().is_some()).collect();
        let role = LayerWeight::FfnValue;
        let mut all = formats.iter().filter(|(w, _)| matches!(w, Weight::Layer(_, own) if *own == role));
        let k_major = all.any(|(_, f)| f.k_major().is_some()).then_some(role).into_iter().collect();
        Layouts { interleaved, k_major }
    }
}

/// Every subset.
fn subsets<T: Copy + Ord>(of: &BTreeSet<T>) -> Vec<BTreeSet<T>> {
    let all: Vec<T> = of.iter().copied().collect();
    let chosen = |bits: usize| all.iter().enumerate().filter(move |(i, _)| bits >> i & 1 == 1).map(|(_, one)| *one);
    (0..1usize << all.len()).map(|bits| chosen(bits).collect()).collect()
}

/// The content id of kernels from beside the binary, behind a plus sign; nothing where there are none.
pub fn kernels_id(catalogue: &Catalogue) -> String {
    let differing = catalogue.differing();
    if differing.is_empty() {
        return String::new();
    }
    let mut hasher = blake3::Hasher::new();
    for file in &differing {
        let text = catalogue.text(&file.path).unwrap_or_default();
        for part in [&file.path, text] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
    }
    format!("+{}", &hasher.finalize().to_hex()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edited_kernels_change_the_kernels_id() {
        assert_eq!(kernels_id(&Catalogue::embedded()), "");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ops/mul");
        std::fs::create_dir_all(&path).unwrap();
        let text = include_str!("../../../kernels-wgsl/ops/mul/elements.wgsl");
        let with = |text: &str| {
            std::fs::write(path.join("elements.wgsl"), text).unwrap();
            kernels_id(&Catalogue::with_folder(folder.path()).unwrap())
        };
        let all = [with(text), with(&format!("{text}// one\n")), with(&format!("{text}// two\n"))];
        assert!(all[0].is_empty() && all[1].starts_with('+') && all[1] != all[2], "{all:?}");
    }
}
