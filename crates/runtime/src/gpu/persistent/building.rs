//! A persistent step in the making: fused and compiled on a thread of its own, while the chain of its dispatches serves.

use super::Failure;
use crate::batch::PassShape;
use crate::gpu::GpuExecutor;
use crate::pipelines::{Compiled, Compiler};
use crate::schedule::{Fused, Memory};
use crate::{NotPersistent, RuntimeError};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, ScopedJoinHandle};
use wgoose_graph::BatchShape;
use wgoose_kernels::Kernel;

/// The thread that makes it.
pub(super) struct Building {
    thread: Option<JoinHandle<Result<Made, Failure>>>,
    /// Whether all that is left is to take kernels from disk.
    is_nearly_done: Arc<AtomicBool>,
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
        let expected = executor.steps.expected.pass(shape);
        let (states, mut weights) = (executor.states.layout.clone(), executor.weight_layout());
        let (graph, shape) = (executor.graphs.of(shape).clone(), *shape);
        let is_nearly_done = Arc::new(AtomicBool::new(false));
        let nearly_done = Arc::clone(&is_nearly_done);
        let make = move || {
            drop(outdated);
            let record = || planner.record(&graph, &PassShape::from(shape));
            let recording = expected.map_or_else(record, |expected| expected.recording(record))?;
            let (_, chain) = planner.lay_out(&shape, &recording, &states, &mut weights)?;
            let fused = planner.fuse(&graph, (&recording, &chain), workgroups)?;
            let kernels = &fused.recording.kernels;
            nearly_done.store(kernels.iter().all(|kernel| compiler.has_on_disk(kernel)), Ordering::Release);
            let pipelines = compiled(&compiler, kernels)?;
            Ok(Made { chain, fused, pipelines })
        };
        Building { thread: Some(std::thread::spawn(make)), is_nearly_done }
    }

    /// Whether nobody has to wait for it, or for no longer than steps as a chain of dispatches would lose.
    pub(super) fn is_worth_waiting_for(&self) -> bool {
        self.is_nearly_done.load(Ordering::Acquire) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What it made.
    ///
    /// # Errors
    /// There is no fused form, or its kernels do not compile.
    pub(super) fn join(mut self) -> Result<Made, Failure> {
        let Some(thread) = self.thread.take() else { unreachable!("it is joined here or dropped") };
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// Compiles kernels, each on a thread of its own.
fn compiled(compiler: &Compiler, kernels: &[Kernel]) -> Result<Vec<Compiled>, Failure> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let compiling: Vec<_> = kernels.iter().map(|kernel| scope.spawn(|| compiler.compile(kernel))).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        compiling.into_iter().map(join).collect()
    });
    let failure = |why| match why {
        RuntimeError::Compile { .. } => NotPersistent::Compile(why.to_string()).into(),
        _ => Failure::Broken(why),
    };
    results.into_iter().map(|result: Result<_, _>| result.map_err(failure)).collect()
}

impl Drop for Building {
    fn drop(&mut self) {
        // Some drivers crash when a process ends amid a call.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
