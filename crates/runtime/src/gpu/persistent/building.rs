//! A persistent step in the making: fused and compiled on a thread of its own, while the chain of its dispatches serves.

use super::Failure;
use crate::gpu::GpuExecutor;
use crate::gpu::step::Step;
use crate::pipelines::Pipelines;
use crate::schedule::{Fused, fuse};
use crate::{NotPersistent, RuntimeError};
use std::sync::Arc;
use std::thread::JoinHandle;
use wgoose_graph::BatchShape;

/// The thread that makes it.
pub(super) struct Building {
    thread: Option<JoinHandle<Result<Fused, Failure>>>,
}

impl Building {
    /// Begins, for so many workgroups that stay resident. What was begun before for another memory is waited for: its kernels may
    /// be the same.
    pub(super) fn start(
        executor: &GpuExecutor,
        (step, shape): (&Step, &BatchShape),
        workgroups: u32,
        outdated: Vec<Building>,
    ) -> Self {
        let graph = executor.graphs.of(shape).clone();
        let (recording, memory) = (step.recording.clone(), step.memory.clone());
        let (device, catalogue) = (Arc::clone(&executor.shared.device), Arc::clone(&executor.shared.catalogue));
        let pipelines = Arc::clone(&executor.shared.pipelines);
        let make = move || {
            drop(outdated);
            let fused = fuse(&graph, (&recording, &memory), workgroups, device.limits(), &catalogue)?;
            for kernel in &fused.recording.kernels {
                Pipelines::compile_beside(&pipelines, kernel).map_err(|why| match why {
                    RuntimeError::Compile { .. } => NotPersistent::Compile(why.to_string()).into(),
                    _ => Failure::Broken(why),
                })?;
            }
            Ok(fused)
        };
        Building { thread: Some(std::thread::spawn(make)) }
    }

    /// Whether nobody has to wait for it.
    pub(super) fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What it made.
    ///
    /// # Errors
    /// There is no fused form, or its kernels do not compile.
    pub(super) fn join(mut self) -> Result<Fused, Failure> {
        let Some(thread) = self.thread.take() else { unreachable!("it is joined here or dropped") };
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // Some drivers crash when a process ends amid a call.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
