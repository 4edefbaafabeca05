//! An experiment with what devices answered: `experiment.ron`, and `results/DEVICE.jsonl` beside it. Runs append to
//! that file; results that are kept are in `results/DEVICE.jsonl.zst`. The two are read as one ledger.

use crate::failure::Failure;
use crate::progress::note;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wgoose_measure::experiment::{Experiment, Findings};
use wgoose_measure::ledger::{Records, read};
use wgoose_session::printable;

/// The folder of the results.
const RESULTS: &str = "results";

/// How the name of a ledger ends, and what follows where it is compressed.
const LEDGER: &str = ".jsonl";
const PACKED: &str = ".zst";

/// An experiment in its folder.
pub(super) struct Recorded {
    /// Its folder's name.
    pub(super) name: String,
    /// Where it lies.
    pub(super) folder: PathBuf,
    /// What it declares.
    pub(super) experiment: Experiment,
    /// Content hash of that.
    pub(super) declaration: String,
}

/// What a device answered last.
pub(super) struct Answered {
    /// The device's name in file names.
    pub(super) device: String,
    /// What was found.
    pub(super) findings: Findings,
}

impl Recorded {
    /// The experiment of a folder.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        let (experiment, file, declaration) = Experiment::load(folder)?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        let name = std::path::absolute(&folder)?.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Recorded { name, folder, experiment, declaration })
    }

    /// The file of a device's results with that ending.
    pub(super) fn result(&self, device: &str, ending: &str) -> PathBuf {
        self.folder.join(RESULTS).join(format!("{device}.{ending}"))
    }

    /// What each device answered when it was asked last and not interrupted, in the order of their names. What is amiss
    /// in a file is said.
    pub(super) fn answers(&self) -> Result<Vec<Answered>, Failure> {
        let Ok(entries) = std::fs::read_dir(self.folder.join(RESULTS)) else { return Ok(Vec::new()) };
        let mut devices = BTreeSet::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let device = name.strip_suffix(PACKED).unwrap_or(&name).strip_suffix(LEDGER);
            devices.extend(device.map(str::to_owned));
        }
        let mut answers = Vec::new();
        for device in devices {
            let records = self.records(&device)?;
            // One that was broken off leaves the answer to the one before.
            if let Some(findings) = Findings::all(&records).into_iter().rev().find(|findings| findings.is_whole) {
                answers.push(Answered { device, findings });
            }
        }
        Ok(answers)
    }

    /// The records of a device: those that are kept compressed, then those of the runs since.
    fn records(&self, device: &str) -> Result<Records, Failure> {
        let mut ledgers = Vec::new();
        for path in [format!("{device}{LEDGER}{PACKED}"), format!("{device}{LEDGER}")] {
            let path = self.folder.join(RESULTS).join(path);
            if !path.exists() {
                continue;
            }
            let (records, notices) = read(&path)?;
            let say = |notice: String| note(&printable(&format!("{}: {notice}", path.display())));
            notices.iter().for_each(|notice| say(notice.to_string()));
            ledgers.push(records);
        }
        Ok(Records::merged(ledgers))
    }

    /// Whether a run had another declaration than there is now.
    pub(super) fn is_outdated(&self, findings: &Findings) -> bool {
        findings.declaration.as_ref() != Some(&self.declaration)
    }
}
