//! A reference in the making: it takes a CPU half a minute for a model of 3 billion weights, in which a GPU can time
//! much.

use super::{ExtendedReference, ExtendedWorkload, QualityError, Reference};
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use wgoose_loader::Model;
use wgoose_runtime::{CancelToken, Engine};

/// Cores that are left to whoever times a device meanwhile.
const LEFT_ALONE: usize = 2;

/// The reference of a model, once it is there, and what long prompts and full batches come to.
pub struct PendingReference {
    model: Arc<Model>,
    folder: PathBuf,
    reference: Pending,
    extended: HashMap<ExtendedWorkload, ExtendedReference>,
}

/// A reference, or the thread that computes it.
enum Pending {
    /// It is known.
    Ready(Box<Reference>),
    /// It is computed.
    Computing(JoinHandle<Result<Reference, QualityError>>),
    /// A file has it, or it is computed when it is asked for.
    Filed,
    /// It was waited for in vain.
    Failed,
}

impl PendingReference {
    /// Begins to compute what [`Reference::cached`] would give, on all cores but two.
    pub fn start(model: &Arc<Model>, folder: PathBuf) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compute = {
            let (model, folder) = (Arc::clone(model), folder.clone());
            move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(cores.saturating_sub(LEFT_ALONE).max(1)).build();
                match pool {
                    Ok(pool) => pool.install(|| Reference::cached(&model, &folder, &CancelToken::default())),
                    // Without threads of its own it shares those of others.
                    Err(_) => Reference::cached(&model, &folder, &CancelToken::default()),
                }
            }
        };
        let reference = Pending::Computing(std::thread::spawn(compute));
        PendingReference { reference, ..PendingReference::filed(model, folder) }
    }

    /// One that is read from a folder, or computed, when it is asked for.
    pub fn filed(model: &Arc<Model>, folder: PathBuf) -> Self {
        PendingReference { model: Arc::clone(model), folder, reference: Pending::Filed, extended: HashMap::new() }
    }

    /// One that is read from a folder, or computed, now.
    ///
    /// # Errors
    /// As [`Reference::cached`].
    pub fn ready(model: &Arc<Model>, folder: PathBuf) -> Result<Self, QualityError> {
        let reference = Pending::Ready(Box::new(Reference::cached(model, &folder, &CancelToken::default())?));
        Ok(PendingReference { reference, ..PendingReference::filed(model, folder) })
    }

    /// Whether asking for it takes no more than reading a file.
    pub fn is_known(&self) -> bool {
        match &self.reference {
            Pending::Computing(thread) => thread.is_finished(),
            Pending::Ready(_) | Pending::Filed | Pending::Failed => true,
        }
    }

    /// The reference, once it is there.
    ///
    /// # Errors
    /// The model cannot be run, or the folder cannot be written.
    pub fn get(&mut self) -> Result<&Reference, QualityError> {
        self.reference = match std::mem::replace(&mut self.reference, Pending::Failed) {
            Pending::Computing(thread) => {
                let computed = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                Pending::Ready(Box::new(computed?))
            }
            Pending::Filed => {
                Pending::Ready(Box::new(Reference::cached(&self.model, &self.folder, &CancelToken::default())?))
            }
            known => known,
        };
        match &self.reference {
            Pending::Ready(reference) => Ok(reference),
            _ => Err(QualityError::Failed),
        }
    }

    /// What a workload comes to with f32 kernels on an engine's device.
    ///
    /// # Errors
    /// As [`ExtendedReference::cached`].
    pub fn extended(
        &mut self,
        engine: &Engine,
        workload: ExtendedWorkload,
    ) -> Result<&ExtendedReference, QualityError> {
        if !self.extended.contains_key(&workload) {
            self.get()?;
            let Pending::Ready(reference) = &self.reference else { return Err(QualityError::Failed) };
            let made = ExtendedReference::cached(&self.model, reference, engine, workload, &self.folder)?;
            self.extended.insert(workload, made);
        }
        Ok(&self.extended[&workload])
    }
}
