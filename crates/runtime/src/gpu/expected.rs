//! Passes that are expected, recorded and compiled on other threads: the step that follows a prompt, while the prompt
//! is read, and the passes of a batch.

use super::GpuExecutor;
use super::persistent::ONE;
use crate::RuntimeError;
use crate::batch::{Batch, PassShape};
use crate::sampler::Sampler;
use crate::schedule::Recording;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use wgoose_graph::BatchShape;

/// A recording that several threads need and the first of them makes; nothing if it cannot be made.
#[derive(Clone, Default)]
pub(super) struct SharedRecording(Arc<OnceLock<Option<Recording>>>);

impl SharedRecording {
    /// A copy of it.
    ///
    /// # Errors
    /// Whatever `record` says.
    pub(super) fn recording(
        &self,
        record: impl Fn() -> Result<Recording, RuntimeError>,
    ) -> Result<Recording, RuntimeError> {
        self.0.get_or_init(|| record().ok()).clone().map_or_else(record, Ok)
    }
}

/// Expected passes that end in logits: the step of one token, once a prompt that is continued was met, and those of a
/// batch.
#[derive(Default)]
pub(super) struct Expected(HashMap<BatchShape, SharedRecording>);

impl Expected {
    /// The recording of a pass of that shape, if it is expected.
    pub(super) fn pass(&self, shape: &BatchShape) -> Option<SharedRecording> {
        self.0.get(shape).cloned()
    }
}

impl GpuExecutor {
    /// From now on passes of a plan with persistent kernels do not wait for these: they run as chains of dispatches until the
    /// kernels are compiled. The results are the same.
    pub fn compile_in_background(&mut self) {
        self.steps.persistent.in_background = true;
    }

    /// Begins with what follows a prompt whose logits stay on the device, the first time there is one: what chooses the next token is
    /// compiled, the step that reads it recorded and fused while the prompt's own pass is recorded. Whether it began.
    ///
    /// # Errors
    /// A single row of a weight is larger than the largest binding.
    pub(super) fn expect_decoding(&mut self, prompt: &Batch) -> Result<bool, RuntimeError> {
        let is_continued = prompt.stays && self.steps.persistent.in_background && self.can_decode();
        if !is_continued || self.steps.expected.pass(&ONE).is_some() {
            return Ok(false);
        }
        let (planner, vocab) = (self.planner.clone(), self.shared.model.shape().vocab);
        let sampler = move || Sampler::kernels(1, vocab, planner.limits(), &planner.catalogue);
        self.shared.pipelines.lock().compile_soon(move || sampler().into_iter().flatten().collect());
        self.steps.expected.0.insert(ONE, SharedRecording::default());
        if self.shared.weights.lock().capacity().is_none() {
            // Weights keep the places for which the step is fused.
            self.reserve()?;
            self.begin_persistent();
        }
        Ok(true)
    }

    /// Begins to compile what reads the tokens after a prompt, behind the kernels of the prompt itself, which are begun.
    pub(super) fn compile_expected(&self) {
        if let Some(step) = self.steps.expected.pass(&ONE) {
            self.compile_ahead(PassShape::from(ONE), step);
        }
    }

    /// Expects passes of these shapes that end in logits: they are recorded, and their kernels compiled, on threads
    /// that nobody waits for, the first ones first. On a device that the CPU emulates these threads would slow it
    /// down.
    ///
    /// # Errors
    /// A plan that makes no graph.
    pub(super) fn expect_passes(&mut self, shapes: &[BatchShape]) -> Result<(), RuntimeError> {
        if self.shared.device.is_cpu() {
            return Ok(());
        }
        for shape in shapes.iter().rev().filter(|shape| **shape != ONE) {
            let pass = PassShape::from(*shape);
            self.graphs.make(self.shared.model.shape(), pass.target, &self.planner.plan.fusions)?;
            let recording = self.steps.expected.0.entry(*shape).or_default().clone();
            self.compile_ahead(pass, recording);
        }
        Ok(())
    }

    fn compile_ahead(&self, pass: PassShape, recording: SharedRecording) {
        let (planner, graph) = (self.planner.clone(), self.graphs.of_pass(&pass).clone());
        let chain = move || recording.recording(|| planner.record(&graph, &pass));
        let kernels = move || chain().map_or_else(|_| Vec::new(), |recording| recording.kernels);
        self.shared.pipelines.lock().compile_ahead(kernels);
    }
}
