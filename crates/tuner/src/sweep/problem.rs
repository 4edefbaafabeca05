//! What is tuned, as plain data: a model's sizes and formats on a device.

use crate::structure::Layouts;
use std::collections::BTreeMap;
use wgoose_graph::{Format, ModelShape, Weight};
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
    /// Content id of the model; behind a plus sign that of kernels from beside the binary: default kernels are theirs, and no plan
    /// names these.
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
            model: model.fingerprint().to_string() + &kernels(catalogue),
            default: Plan::default_for(device.fingerprint().clone(), shape, device.limits()),
        }
    }

    /// How a plan stores each weight on the GPU.
    pub(crate) fn formats_on_gpu<'a>(&'a self, plan: &'a Plan) -> impl Fn(Weight) -> Format + 'a {
        |weight| plan.format_on_gpu(weight, self.formats.get(&weight).copied().unwrap_or(Format::F32))
    }

    /// The layouts that there are for its matrices.
    pub(crate) fn layouts(&self) -> Layouts {
        Layouts::of(&self.formats)
    }
}

/// The content id of kernels from beside the binary, behind a plus sign; nothing where there are none.
pub(crate) fn kernels(catalogue: &Catalogue) -> String {
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
    fn whole_plans_are_others_with_other_kernels() {
        assert_eq!(kernels(&Catalogue::embedded()), "");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ops/mul");
        std::fs::create_dir_all(&path).unwrap();
        let text = include_str!("../../../../kernels-wgsl/ops/mul/elements.wgsl");
        let with = |text: &str| {
            std::fs::write(path.join("elements.wgsl"), text).unwrap();
            kernels(&Catalogue::with_folder(folder.path()).unwrap())
        };
        let all = [with(text), with(&format!("{text}// one\n")), with(&format!("{text}// two\n"))];
        assert!(all[0].is_empty() && all[1].starts_with('+') && all[1] != all[2], "{all:?}");
    }
}
