//! A plan file taken into the store.

use crate::failure::Failure;
use std::path::Path;
use wgoose_kernels::{Catalogue, Plan};
use wgoose_loader::Model;
use wgoose_plans::{Store, StoreError};
use wgoose_session::model_class;

/// Files the plan for a model; a plan that was filed for the same GPU and model class is replaced.
pub(super) fn run(store: Option<&Store>, catalogue: &Catalogue, file: &Path, model: &Path) -> Result<(), Failure> {
    let store = store.ok_or(StoreError::NoFolder)?;
    let plan = Plan::load(file)?;
    let model = Model::open(model)?;
    plan.check_kernels(model.shape(), catalogue)?;
    let name = store.file(&model_class(&model), &plan)?;
    outln!("{name}: filed");
    Ok(())
}
