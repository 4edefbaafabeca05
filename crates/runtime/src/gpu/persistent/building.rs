//! A persistent step in the making: fused and compiled on a thread of its own, while the chain of its dispatches serves.

use super::Failure;
use crate::batch::PassShape;
use crate::gpu::GpuExecutor;
use crate::pipelines::Compiled;
use crate::schedule::{Fused, Memory};
use crate::{NotPersistent, RuntimeError};
use std::thread::JoinHandle;
use wgoose_graph::BatchShape;

/// The thread that makes it.
pub(super) struct Building {
    thread: Option<JoinHandle<Result<Made, Failure>>>,
}

/// What there is to bind.
pub(super) struct Made {
    /// Where the chain of dispatches finds everything: the fused step is bound to the same places.
    pub(super) chain: Memory,
    pub(super) fused: Fused,
    pub(super) pipelines: Vec<Compiled>,
}

impl Building {
    /// Begins, for so many workgroups that stay resident. What was begun before for another memory is waited for: its kernels may
    /// be the same.
    pub(super) fn start(executor: &GpuExecutor, shape: &BatchShape, workgroups: u32, outdated: Vec<Building>) -> Self {
        // No lock is taken there: whoever reads a prompt holds them until its weights have arrived.
        let (planner, compiler) = (executor.planner.clone(), executor.shared.compiler.clone());
        let (states, mut weights) = (executor.states.layout.clone(), executor.weight_layout());
        let (graph, shape) = (executor.graphs.of(shape).clone(), *shape);
        let make = move || {
            drop(outdated);
            let recording = planner.record(&graph, &PassShape::from(shape))?;
            let (_, chain) = planner.lay_out(&shape, &recording, &states, &mut weights)?;
            let fused = planner.fuse(&graph, (&recording, &chain), workgroups)?;
            let compile = |kernel| {
                compiler.compile(kernel).map_err(|why| match why {
                    RuntimeError::Compile { .. } => NotPersistent::Compile(why.to_string()).into(),
                    _ => Failure::Broken(why),
                })
            };
            let pipelines = fused.recording.kernels.iter().map(compile).collect::<Result<_, Failure>>()?;
            Ok(Made { chain, fused, pipelines })
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
    pub(super) fn join(mut self) -> Result<Made, Failure> {
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
