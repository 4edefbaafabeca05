//! A reference in the making: it takes a CPU half a minute for a model of 3 billion weights, in which a GPU can time much.

use super::{QualityError, Reference};
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use wgoose_loader::Model;

/// Cores that are left to whoever times a device meanwhile.
const LEFT_ALONE: usize = 2;

/// A reference, or the thread that computes it.
pub enum PendingReference {
    /// It is known.
    Ready(Box<Reference>),
    /// It is computed.
    Computing(JoinHandle<Result<Reference, QualityError>>),
    /// It lies in a file, or is computed when it is asked for.
    Filed(Arc<Model>, PathBuf),
    /// It was waited for in vain.
    Failed,
}

impl PendingReference {
    /// Begins to compute what [`Reference::cached`] would give, on all cores but two.
    pub fn start(model: &Arc<Model>, folder: PathBuf) -> Self {
        let model = Arc::clone(model);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let compute = move || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(cores.saturating_sub(LEFT_ALONE).max(1)).build();
            match pool {
                Ok(pool) => pool.install(|| Reference::cached(&model, &folder)),
                // Without threads of its own it shares those of others.
                Err(_) => Reference::cached(&model, &folder),
            }
        };
        PendingReference::Computing(std::thread::spawn(compute))
    }

    /// Whether asking for it takes no more than reading a file.
    pub fn is_known(&self) -> bool {
        match self {
            PendingReference::Computing(thread) => thread.is_finished(),
            PendingReference::Ready(_) | PendingReference::Filed(..) | PendingReference::Failed => true,
        }
    }

    /// The reference, once it is there.
    ///
    /// # Errors
    /// The model cannot be run, or the folder cannot be written.
    pub fn get(&mut self) -> Result<&Reference, QualityError> {
        if let PendingReference::Computing(_) = self
            && let PendingReference::Computing(thread) = std::mem::replace(self, PendingReference::Failed)
        {
            let reference = thread.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            *self = PendingReference::Ready(Box::new(reference));
        }
        if let PendingReference::Filed(model, folder) = self {
            *self = PendingReference::Ready(Box::new(Reference::cached(model, folder)?));
        }
        match self {
            PendingReference::Ready(reference) => Ok(reference),
            _ => Err(QualityError::Failed),
        }
    }
}

impl From<Reference> for PendingReference {
    fn from(reference: Reference) -> Self {
        PendingReference::Ready(Box::new(reference))
    }
}
