//! `wgoose dev experiment list`

use super::recorded::Recorded;
use crate::failure::Failure;
use std::path::{Path, PathBuf};

pub(super) fn run(folder: &Path) -> Result<(), Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut folders: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    folders.retain(|path| path.join("experiment.ron").is_file());
    folders.sort();
    if folders.is_empty() {
        return Err(format!("{}: no folder in it has an experiment.ron", folder.display()).into());
    }
    for path in folders {
        let recorded = Recorded::open(&path)?;
        listln!("{}: {}", recorded.name, recorded.experiment.question);
        for answered in recorded.answers()? {
            let claims = recorded.experiment.claims.iter().map(|claim| {
                let (_, answer) = claim.answer(&answered.findings);
                format!("{} in {} {answer}", claim.arm, claim.scenario())
            });
            let outdated = if recorded.is_outdated(&answered.findings) { " (of another declaration)" } else { "" };
            listln!("  {}{outdated}: {}", answered.device, claims.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}
