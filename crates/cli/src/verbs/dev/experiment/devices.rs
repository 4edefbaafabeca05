//! `wgoose dev experiment devices`

use super::readme::side_by_side;
use super::recorded::Recorded;
use crate::failure::Failure;
use std::path::Path;

pub(super) fn run(folder: &Path) -> Result<(), Failure> {
    let recorded = Recorded::open(folder)?;
    let answers = recorded.answers()?;
    if answers.is_empty() {
        return Err(
            format!("{}: nothing was measured yet: wgoose dev experiment run", recorded.folder.display()).into()
        );
    }
    out!("{}", side_by_side(&answers));
    Ok(())
}
