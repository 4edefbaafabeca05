//! Traces of some ops, and how they are kept in files.

use crate::npy::{self, NpyError};
use crate::{Session, SessionError};
use std::collections::BTreeSet;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use wgoose_runtime::Traced;

/// Why a trace was not made.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The model or its device.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// No op is called so.
    #[error("no op is called '{name}' under this plan; there are {}", known.join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
    /// The folder of a file cannot be made.
    #[error("{}: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error(transparent)]
    Npy(#[from] NpyError),
}

/// What an op made, and its place.
#[derive(Clone, Copy, Debug)]
pub struct TracedOp<'a> {
    /// The op's number in its pass, from 1.
    pub number: usize,
    /// Whether its name is one of those asked for.
    pub is_selected: bool,
    /// The op.
    pub value: &'a Traced<'a>,
}

impl TracedOp<'_> {
    /// The sizes of the array: `[rows, columns]`, or `[planes, rows, columns]` where there are several planes.
    pub fn dims(&self) -> &[usize] {
        let shape = &self.value.shape;
        if shape[0] == 1 { &shape[1..] } else { &shape[..] }
    }

    /// Writes the array into `pass-P/NNN-blocks.L.NAME.npy` of a folder, whole or not at all.
    ///
    /// # Errors
    /// The system refuses.
    pub fn save(&self, folder: &Path) -> Result<(), TraceError> {
        let path = folder.join(format!("pass-{}", self.value.pass));
        std::fs::create_dir_all(&path).map_err(|source| TraceError::Folder { path: path.clone(), source })?;
        let layer = self.value.layer.map(|layer| format!("blocks.{layer}.")).unwrap_or_default();
        let file = path.join(format!("{:03}-{layer}{}.npy", self.number, self.value.name));
        Ok(npy::save(&file, self.dims(), self.value.values)?)
    }
}

impl Session {
    /// As [`Session::trace`]; `on_op` is told of every op whether its name is one of `only`, or `only` is empty.
    ///
    /// # Errors
    /// As [`Session::trace`], what `on_op` returns, or a name that no op has.
    pub fn trace_selected<E: From<TraceError>>(
        &mut self,
        tokens: &[u32],
        only: &[String],
        on_op: &mut dyn FnMut(&TracedOp<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut names, mut pass, mut number) = (BTreeSet::new(), 0, 0);
        let mut outcome = Ok(());
        let traced = self.trace(tokens, &mut |value| {
            number = if pass == value.pass { number + 1 } else { 1 };
            pass = value.pass;
            names.insert(value.name.to_owned());
            let is_selected = only.is_empty() || only.iter().any(|name| name == value.name);
            outcome = on_op(&TracedOp { number, is_selected, value });
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        outcome?;
        traced.map_err(TraceError::from)?;
        match only.iter().find(|name| !names.contains(*name)) {
            Some(name) => Err(TraceError::Unknown { name: name.clone(), known: names.into_iter().collect() }.into()),
            None => Ok(()),
        }
    }
}
