//! `cargo xtask bless`: takes today's outputs as the expected ones.

use crate::oracle::Oracle;
use crate::shell::{Result, cargo, run as execute};
use crate::steps::Steps;
use crate::wgoose::{Profile, Wgoose};

pub(crate) fn run() -> Result<()> {
    let mut steps = Steps::default();
    steps.run("goldens", || {
        let wgoose = Wgoose::build(Profile::Dev)?;
        let oracle = Oracle::prepare()?;
        oracle.run("golden.py", &wgoose)?;
        oracle.run("embedding_golden.py", &wgoose)?;
        oracle.run_alone("blocks_golden.py")?;
        oracle.run_alone("tokenizer_golden.py")
    });
    // The expect-test crate rewrites its files when this is set.
    steps.run("snapshots", || execute(cargo("test --workspace --lib --tests").env("UPDATE_EXPECT", "1")));
    steps.finish()
}
