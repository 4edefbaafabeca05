//! What is tuned, as plain data: a model's sizes and formats on a device.

use crate::structure::Layouts;
use std::collections::BTreeMap;
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_kernels::{Limits, Plan};
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
    /// Content id of the model.
    pub model: String,
    /// What is held against: the device's default.
    pub default: Plan,
}

impl Problem {
    /// That of a model on a device.
    pub fn of(device: &Device, model: &Model) -> Self {
        let shape = *model.shape();
        Problem {
            limits: device.limits().clone(),
            shape,
            formats: Weight::all(&shape).map(|weight| (weight, model.tensor(weight).format())).collect(),
            model: model.fingerprint().to_string(),
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
