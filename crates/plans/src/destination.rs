//! Where a tuned plan goes.

use crate::{ModelClass, Store, StoreError, plan_name};
use std::path::PathBuf;
use wgoose_kernels::{DeviceFingerprint, Plan};

/// Where a tuned plan goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A file.
    File(PathBuf),
    /// The store, under the name of its device and model class.
    Store(Store),
}

impl Destination {
    /// That file, else the user's store, whose folder is made: what cannot be written is known before anything is measured.
    ///
    /// # Errors
    /// The user has no data folder, or the store cannot be made.
    pub fn new(out: Option<PathBuf>) -> Result<Self, StoreError> {
        if let Some(path) = out {
            return Ok(Destination::File(path));
        }
        let store = Store::of_user().ok_or(StoreError::NoFolder)?;
        store.create()?;
        Ok(Destination::Store(store))
    }

    /// The file of measurements beside the plan of that device and class.
    pub fn ledger(&self, device: &DeviceFingerprint, class: &ModelClass) -> PathBuf {
        match self {
            Destination::File(path) => path.with_extension("jsonl"),
            Destination::Store(store) => store.ledger(&plan_name(device, class)),
        }
    }

    /// What a plan of that device and class is called there.
    pub fn name(&self, device: &DeviceFingerprint, class: &ModelClass) -> String {
        match self {
            Destination::File(path) => path.display().to_string(),
            Destination::Store(_) => plan_name(device, class),
        }
    }

    /// Writes a plan that was tuned on a model of that class, whole or not at all; returns what it is called there.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn save(&self, class: &ModelClass, plan: &Plan) -> Result<String, StoreError> {
        match self {
            Destination::File(path) => Ok(plan.save(path).map(|()| path.display().to_string())?),
            Destination::Store(store) => store.file(class, plan),
        }
    }
}
