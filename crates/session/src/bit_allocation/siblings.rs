//! Sessions of one model in many mixes of formats: on one device, with the weights that they have in common there once.

use super::AllocationError;
use crate::{Backend, Session, SessionBuilder, SessionError};
use std::sync::Arc;
use wgoose_graph::{Format, Weight};
use wgoose_loader::Model;
use wgoose_loader::convert::recode;
use wgoose_runtime::{Device, GpuExecutor};

/// What opens them.
pub(super) struct Siblings {
    source: Arc<Model>,
    builder: SessionBuilder,
    /// `None` on the CPU reference.
    shared: Option<(Arc<Device>, GpuExecutor)>,
    /// Bytes of weights that were recoded since the device was cleared.
    recoded: u64,
}

impl Siblings {
    /// Of a source; its plan is told of as the builder says, those of the others are not.
    pub(super) fn new(source: Arc<Model>, builder: SessionBuilder) -> Result<Self, SessionError> {
        let shared = match builder.runs_on() {
            Backend::Cpu => None,
            Backend::Gpu => {
                let device = Device::open_with(&builder.device_options())?;
                let plan = builder.plan_for(&device, &source)?.plan;
                let executor = builder.executor(Arc::clone(&device), Arc::clone(&source), plan, 1)?;
                Some((device, executor))
            }
        };
        Ok(Siblings { source, builder: builder.on_plan(None), shared, recoded: 0 })
    }

    /// The source itself.
    pub(super) fn source(&self) -> Result<Session, SessionError> {
        self.open(Arc::clone(&self.source))
    }

    /// The source with some weights in other formats.
    pub(super) fn with(&mut self, formats: &[(Weight, Format)]) -> Result<Session, AllocationError> {
        let mut copy = Model::clone(&self.source);
        for (weight, format) in formats {
            recode(&self.source, &mut copy, *weight, *format)?;
        }
        let recoded = formats.iter().filter(|(weight, format)| self.source.tensor(*weight).format() != *format);
        self.recoded += recoded.map(|(weight, _)| copy.tensor(*weight).byte_len() as u64).sum::<u64>();
        // What was measured stays on the device until it takes a quarter of the source's room.
        if self.recoded > self.source.file_len() as u64 / 4 {
            self.recoded = 0;
            if let Some((_, executor)) = &self.shared {
                executor.drop_weights();
            }
        }
        Ok(self.open(Arc::new(copy))?)
    }

    fn open(&self, model: Arc<Model>) -> Result<Session, SessionError> {
        match &self.shared {
            Some((device, executor)) => self.builder.open_beside(device, executor, model),
            None => self.builder.clone().open_model(model),
        }
    }
}
