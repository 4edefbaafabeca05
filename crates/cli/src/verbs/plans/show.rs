//! One plan.

use super::{Here, words};
use crate::failure::Failure;
use crate::plan_text;
use wgoose_plans::{Listed, Source, day};

pub(super) fn run(listed: Listed, here: &Here, json: bool) -> Result<(), Failure> {
    let standing = here.standing(&listed);
    let plan = listed.plan?;
    if json {
        outln!("{}", serde_json::to_string_pretty(&plan)?);
        return Ok(());
    }
    match &listed.source {
        Source::Store { path, tuned } => listln!("{}: {}, tuned {}", listed.name, path.display(), day(*tuned)),
        Source::Shipped => outln!("{}: ships with wgoose", listed.name),
        Source::File(path) => outln!("{}", path.display()),
    }
    outln!("standing: {}", words(&standing));
    plan_text::print(&plan, &here.catalogue)
}
