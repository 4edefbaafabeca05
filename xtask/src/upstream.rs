//! `cargo xtask upstream`: crates for users of other projects: the tests of `integrations/`, and a dry run of
//! publishing.

use crate::shell::{self, Result, cargo, run_tests};
use crate::steps::Steps;
use crate::vulkan;
use crate::wgoose::target;
use std::path::absolute;

/// The folder of the crate for web-rwkv, which has a workspace of its own.
const WEB_RWKV: &str = "integrations/web-rwkv";

/// The crates that may be published: the loader, and the crates that it needs.
const PUBLISHED: [&str; 3] = ["wgoose-files", "wgoose-graph", "wgoose-loader"];

/// Runs both.
///
/// # Errors
/// Names the steps that failed.
pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    if steps.run("adapter", vulkan::ensure).is_some() {
        steps.run("web-rwkv", web_rwkv);
    }
    steps.run("publishing", publishing);
    steps.finish()
}

/// Tests the crate for web-rwkv. Its builds stay below this workspace's target folder, apart: they share nothing.
///
/// # Errors
/// Names the tests that failed.
pub(crate) fn web_rwkv() -> Result<()> {
    let builds = target().join("upstream");
    let builds = absolute(&builds).map_err(|e| shell::Error::file("find", &builds, e))?;
    run_tests(cargo("test --locked").current_dir(WEB_RWKV).env("CARGO_TARGET_DIR", builds))
}

/// Packs the crates as publishing does, and builds each from its package.
///
/// # Errors
/// One is not fit to be published, or does not build alone.
pub(crate) fn publishing() -> Result<()> {
    let packages: String = PUBLISHED.iter().map(|name| format!(" --package {name}")).collect();
    shell::run(&mut cargo(&format!("publish --dry-run --allow-dirty{packages}")))
}
