//! A failure in a folder by itself, so that it can be looked at and run again:
//!
//! ```text
//! request.json    the job as it was sent, with its site and its plans
//! failure.json    what came of it, on which device, and how its process was started
//! kernels/        sources of the kernels that it names, and of all files that are not this program's: for --kernels
//! *.wgsl          the final text of each kernel of a job about kernels
//! *.ron           each plan
//! stderr.txt      what the process said last, if it died
//! ```

use super::supervisor::Supervisor;
use super::wire::Request;
use super::{ChildCommand, ChildError, Deadlines};
use crate::job::{Configured, Job};
use crate::ledger::{Cause, Outcome, Reason};
use crate::runner::RunnerError;
use crate::space::InstanceGroup;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_kernels::{Catalogue, DeviceFingerprint, Kernel, Limits};
use wgoose_runtime::CancelToken;

/// The failure of a bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    /// Version of the program.
    version: String,
    /// The device.
    device: DeviceFingerprint,
    /// What came of the request.
    reason: Reason,
    /// Arguments of the process, but for `--kernels`.
    arguments: Vec<String>,
    /// How long parts of it might take.
    deadlines: Deadlines,
}

/// The folder of bundles.
pub(super) struct Quarantine {
    folder: PathBuf,
    catalogue: Arc<Catalogue>,
}

impl Quarantine {
    pub(super) fn new(folder: PathBuf, catalogue: Arc<Catalogue>) -> Self {
        Quarantine { folder, catalogue }
    }

    /// Keeps what failed, unless that only says that the candidate does not suit.
    pub(super) fn keep(
        &self,
        request: &Request,
        reason: &Reason,
        said: &[String],
        (device, limits): (&DeviceFingerprint, &Limits),
        command: &ChildCommand,
    ) -> Result<(), ChildError> {
        if matches!(reason.cause, Cause::Constraint | Cause::NotResident) {
            return Ok(());
        }
        let text = serde_json::to_vec_pretty(request).map_err(ChildError::Message)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&text).update(&serde_json::to_vec(device).map_err(ChildError::Message)?);
        let name = format!("{}-{}", request.name(), &hasher.finalize().to_hex()[..12]);
        let bundle = self.folder.join(name);
        write(&bundle.join("request.json"), &text)?;
        write(&bundle.join("stderr.txt"), said.join("\n").as_bytes())?;
        self.write_kernels(&bundle, request, limits)?;
        if let Request::Run { plans, .. } = request {
            for plan in plans {
                write(&bundle.join(format!("{}.ron", plan.hash())), plan.to_ron().as_bytes())?;
            }
        }
        let arguments = command.arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let (version, device) = (env!("CARGO_PKG_VERSION").to_owned(), device.clone());
        let (reason, deadlines) = (reason.clone(), command.deadlines);
        let failure = Failure { version, device, reason, arguments, deadlines };
        write(&bundle.join("failure.json"), &serde_json::to_vec_pretty(&failure).map_err(ChildError::Message)?)
    }

    /// Sources, and the texts that they make.
    fn write_kernels(&self, bundle: &Path, request: &Request, limits: &Limits) -> Result<(), ChildError> {
        let mut sources: BTreeSet<String> = self.catalogue.differing().into_iter().map(|file| file.path).collect();
        if let Request::Run { plans, .. } = request {
            for choice in plans.iter().flat_map(|plan| &plan.choices) {
                sources.extend(self.source(&choice.key.op, &choice.variant));
            }
        }
        for (i, (site, which)) in named(request).into_iter().enumerate() {
            sources.extend(self.source(&site.key.op, &which.variant));
            let Some(variant) = self.catalogue.variant(&site.key.op, &which.variant) else { continue };
            let Ok(config) = variant.config(&which.config) else { continue };
            // What cannot be made has no text.
            let instance = site.instance_for(variant, &config, limits);
            let Ok(kernel) = Kernel::new(variant, &instance, &config, limits) else { continue };
            write(&bundle.join(format!("{i}-{}.wgsl", which.variant)), kernel.wgsl.as_bytes())?;
        }
        for path in sources {
            let Some(text) = self.catalogue.text(&path) else { continue };
            write(&bundle.join("kernels").join(&path), text.as_bytes())?;
        }
        let kernels = bundle.join("kernels");
        std::fs::create_dir_all(&kernels).map_err(|source| ChildError::Bundle { path: kernels, source })
    }

    fn source(&self, op: &str, variant: &str) -> Option<String> {
        self.catalogue.variant(op, variant).map(|variant| format!("{}.wgsl", variant.path()))
    }
}

/// The kernels that a request names.
fn named(request: &Request) -> Vec<(&InstanceGroup, &Configured)> {
    match request {
        Request::CompileAhead { site, kernels } => kernels.iter().map(|kernel| (&**site, kernel)).collect(),
        Request::Run { job, site: Some(site), .. } => match &**job {
            Job::Kernel { kernel, .. } | Job::Control { kernel, .. } => vec![(site, kernel)],
            Job::Kernels { kernels, .. } => kernels.iter().map(|kernel| (&**site, kernel)).collect(),
            _ => Vec::new(),
        },
        Request::Run { .. } | Request::Open | Request::Start { .. } => Vec::new(),
    }
}

/// Runs what a bundle holds again, in a process that is started as it was then: what came of it then, and what comes of
/// it now.
///
/// # Errors
/// The bundle cannot be read, or the process cannot be started.
pub fn replay(bundle: &Path, program: PathBuf) -> Result<(Reason, Outcome), RunnerError> {
    let read = |name: &str| {
        let path = bundle.join(name);
        std::fs::read(&path).map_err(|source| ChildError::Bundle { path, source })
    };
    let request: Request = serde_json::from_slice(&read("request.json")?).map_err(ChildError::Message)?;
    let failure: Failure = serde_json::from_slice(&read("failure.json")?).map_err(ChildError::Message)?;
    let arguments = failure.arguments.into_iter().map(Into::into).collect();
    let (kernels, deadlines) = (Some(bundle.join("kernels")), failure.deadlines);
    let command = ChildCommand { program, interpreter: Vec::new(), arguments, kernels, deadlines };
    let mut supervisor = Supervisor::new(command, CancelToken::default());
    supervisor.start(1)?;
    Ok((failure.reason, supervisor.ask(&request)?.outcome))
}

/// Writes a file, its folder included.
fn write(path: &Path, text: &[u8]) -> Result<(), ChildError> {
    let fail = |source| ChildError::Bundle { path: path.to_owned(), source };
    std::fs::create_dir_all(path.parent().unwrap_or(path)).map_err(fail)?;
    wgoose_files::replace(path, |file| file.write_all(text)).map(drop).map_err(fail)
}
