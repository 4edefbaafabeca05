//! `cargo xtask test`: everything CI checks, in order. A failed step does not hide the next one.

use crate::deny::Deny;
use crate::evidence;
use crate::mesa::Mesa;
use crate::oracle::Oracle;
use crate::python;
use crate::shell::{Error, Result, cargo, probe, run as execute};
use crate::steps::Steps;
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose};
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only format, clippy, the catalogue and the default configuration of every variant: minutes, before a commit
    #[arg(long, conflicts_with_all = ["no_oracle", "no_python"])]
    quick: bool,
    /// Only the kernels of this op, or this OP/VARIANT: against the reference, at every choice and at random cases
    #[arg(long, value_name = "OP[/VARIANT]", conflicts_with = "quick")]
    kernel: Option<String>,
    /// Only the kernels for matrix units, at random cases and at every choice, on Mesa's newest lavapipe, which has some (Linux, as root); --kernel chooses among them
    #[arg(long, conflicts_with = "quick")]
    matrices: bool,
    /// Only the tests of crates, on a device that can do no more than every WebGPU device (`webgpu`), or has nothing beyond WebGPU around the kernels either (`low`)
    #[arg(long, value_parser = ["webgpu", "low"], conflicts_with_all = ["quick", "kernel", "matrices"])]
    limits: Option<String>,
    /// Leave out the comparison with the Python reference (not where CI is set)
    #[arg(long)]
    no_oracle: bool,
    /// Leave out the tests of the Python package (not where CI is set)
    #[arg(long)]
    no_python: bool,
}

/// The tests that cargo's arguments name, all of them whatever fails, but for doc tests, which have their own step.
fn tests(which: &str) -> Command {
    let nextest = probe(&mut cargo("nextest --version")).is_some();
    let all = if which.contains("--test ") { "" } else { " --lib --bins --tests" };
    cargo(&if nextest {
        format!("nextest run --no-fail-fast {which}")
    } else {
        format!("test --no-fail-fast {which}{all}")
    })
}

/// Kernels for matrix units on a software adapter that has some, where this machine can have it.
fn matrices(steps: &mut Steps, kernel: Option<&str>, every_choice: bool) {
    steps.run_where("matrix units", Mesa::prepare, |mesa| mesa.test(kernel, every_choice));
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if (args.no_oracle || args.no_python) && std::env::var_os("CI").is_some() {
        return Err(Error::Other("--no-oracle and --no-python are not for CI: it checks all of it".into()));
    }
    let mut steps = Steps::default();
    if args.matrices {
        matrices(&mut steps, args.kernel.as_deref(), true);
        return steps.finish();
    }
    if steps.run("adapter", vulkan::ensure).is_none() {
        return steps.finish();
    }
    if let Some(kernel) = &args.kernel {
        steps.run("kernels", || {
            execute(tests("--package wgoose-runtime --test runtime variants::").env("WGOOSE_KERNEL", kernel))
        });
        return steps.finish();
    }
    if let Some(limits) = &args.limits {
        steps.run("tests", || execute(tests("--workspace").env("WGOOSE_LIMITS", limits)));
        return steps.finish();
    }
    steps.run("rustfmt", || execute(&mut cargo("fmt --all --check")));
    steps.run("clippy", || execute(&mut cargo("clippy --workspace --all-targets -- -D warnings")));
    steps.run("written pages", || evidence::written(Path::new("")));
    if args.quick {
        steps.run("catalogue", || execute(&mut tests("--package wgoose-kernels")));
        steps.run("default configurations", || {
            let mut every_choice = tests("--package wgoose-runtime --test runtime variants::every_choice");
            execute(every_choice.env("WGOOSE_DEFAULTS", "1"))
        });
        return steps.finish();
    }
    if let Some(deny) = steps.run("dependencies", || Deny::prepare().and_then(Deny::check)) {
        steps.run_where("advisories", || deny.fetch_advisories(), Deny::check_advisories);
    }
    let built = steps.run("build", || Wgoose::build(Profile::Dev));
    match &built {
        None => steps.skip("made pages", "the build failed"),
        Some(wgoose) => {
            steps.run("made pages", || evidence::made(wgoose.path()));
        }
    }
    steps.run("tests", || execute(&mut tests("--workspace")));
    match &built {
        None => steps.skip("matrix units", "the build failed"),
        Some(_) => matrices(&mut steps, None, false),
    }
    steps.run("doc tests", || execute(&mut cargo("test --workspace --doc")));
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
