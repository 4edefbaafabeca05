//! `wgoose dev experiment show`

use super::recorded::Recorded;
use crate::failure::Failure;
use crate::findings::Form;
use std::path::Path;

pub(super) fn run(folder: &Path, format: Form) -> Result<(), Failure> {
    let recorded = Recorded::open(folder)?;
    let answers = recorded.answers()?;
    if answers.is_empty() {
        return Err(
            format!("{}: nothing was measured yet: wgoose dev experiment run", recorded.folder.display()).into()
        );
    }
    let findings: Vec<_> = answers.into_iter().map(|answered| answered.findings).collect();
    out!("{}", format.of(&findings));
    for findings in findings.iter().filter(|findings| recorded.is_outdated(findings)) {
        eprintln!("{}: its declaration has changed since", findings.session.device.adapter);
    }
    Ok(())
}
