//! `cargo xtask test`: everything CI checks, in order. A failed step does not hide the next one.

use crate::oracle::Oracle;
use crate::python;
use crate::shell::{Error, Result, cargo, probe, run as execute};
use crate::steps::Steps;
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave out the comparison with the Python reference (not where CI is set)
    #[arg(long)]
    no_oracle: bool,
    /// Leave out the tests of the Python package (not where CI is set)
    #[arg(long)]
    no_python: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if (args.no_oracle || args.no_python) && std::env::var_os("CI").is_some() {
        return Err(Error::Other("--no-oracle and --no-python are not for CI: it checks all of it".into()));
    }
    let mut steps = Steps::default();
    if steps.run("adapter", vulkan::ensure).is_none() {
        return steps.finish();
    }
    steps.run("rustfmt", || execute(&mut cargo("fmt --all --check")));
    steps.run("clippy", || execute(&mut cargo("clippy --workspace --all-targets -- -D warnings")));
    steps.run("tests", || {
        let nextest = probe(&mut cargo("nextest --version")).is_some();
        // Without nextest, everything but the doc tests, which have their own step.
        execute(&mut cargo(if nextest { "nextest run --workspace" } else { "test --workspace --lib --bins --tests" }))
    });
    steps.run("doc tests", || execute(&mut cargo("test --workspace --doc")));
    let built = steps.run("build", || Wgoose::build(Profile::Dev));
    match &built {
        _ if args.no_python => steps.skip("python package", "--no-python"),
        None => steps.skip("python package", "nothing to compare with: the build failed"),
        Some(wgoose) => {
            steps.run("python package", || python::check(wgoose));
        }
    }
    match built {
        _ if args.no_oracle => steps.skip("oracle", "--no-oracle"),
        None => steps.skip("oracle", "nothing to compare: the build failed"),
        Some(wgoose) => {
            steps.run("oracle", || {
                let oracle = Oracle::prepare()?;
                oracle.run("check.py", &wgoose)?;
                oracle.run("conversion.py", &wgoose)
            });
        }
    }
    steps.finish()
}
