//! `cargo xtask test`: everything CI checks, in order. A failed step does not hide the next one.

use crate::deny::Deny;
use crate::evidence;
use crate::mesa::Mesa;
use crate::oracle::Oracle;
use crate::prepare::{self, Ahead};
use crate::python;
use crate::shell::{Error, Result, cargo, probe, run as execute, run_tests};
use crate::steps::Steps;
use crate::upstream;
use crate::vulkan;
use crate::weight;
use crate::wgoose::{Profile, Wgoose};
use std::path::Path;
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only format, clippy, rustdoc, the catalogue and the default configuration of every variant: minutes, before a
    /// commit
    #[arg(long, conflicts_with_all = ["no_oracle", "no_python"])]
    quick: bool,
    /// Only the kernels of this op, or this OP/VARIANT: against the reference, at every choice and at random cases
    #[arg(long, value_name = "OP[/VARIANT]", conflicts_with = "quick")]
    kernel: Option<String>,
    /// Only the kernels for matrix units, at random cases and at every choice, on Mesa's newest lavapipe, which
    /// emulates matrix units (Linux, as root); --kernel selects kernels
    #[arg(long, conflicts_with = "quick")]
    matrices: bool,
    /// Only the tests of crates, on a device with the WebGPU defaults (`webgpu`), or also without timestamps and
    /// pipeline cache (`low`)
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

/// Downloads the crates, so that what follows needs no network for them.
fn crates() -> Result<()> {
    execute(&mut cargo("fetch --locked")).map_err(|_| {
        let help = "connect this machine to the network; what was downloaded once is kept";
        Error::Other(format!("the crates that Cargo.lock names cannot be downloaded: {help}"))
    })
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
    if steps.run("adapter", vulkan::ensure).is_none() || steps.run("crates", crates).is_none() {
        return steps.finish();
    }
    if let Some(kernel) = &args.kernel {
        let mut variants = tests("--package wgoose-runtime --test runtime variants::");
        steps.run("kernels", || run_tests(variants.env("WGOOSE_KERNEL", kernel)));
        return steps.finish();
    }
    if let Some(limits) = &args.limits {
        steps.run("tests", || run_tests(tests("--workspace").env("WGOOSE_LIMITS", limits)));
        return steps.finish();
    }
    if args.quick {
        style(&mut steps);
        steps.run("catalogue", || run_tests(&mut tests("--package wgoose-kernels")));
        steps.run("default configurations", || {
            let mut every_choice = tests("--package wgoose-runtime --test runtime variants::every_choice");
            run_tests(every_choice.env("WGOOSE_DEFAULTS", "1"))
        });
        return steps.finish();
    }
    everything(args, &mut steps)?;
    steps.finish()
}

/// Steps that need no tests to be built.
fn style(steps: &mut Steps) {
    steps.run("rustfmt", || execute(&mut cargo("fmt --all --check")));
    steps.run("clippy", || execute(&mut cargo("clippy --workspace --all-targets -- -D warnings")));
    let mut doc = cargo("doc --workspace --no-deps");
    steps.run("rustdoc", || execute(doc.env("RUSTDOCFLAGS", "-D warnings")));
    steps.run("written pages", || evidence::written(Path::new("")));
    steps.run("weight", weight::check);
}

/// All that CI checks. What has to be downloaded is downloaded while this machine compiles and tests.
fn everything(args: &Args, steps: &mut Steps) -> Result<()> {
    let ahead = Ahead::begin(&prepare::Args { no_oracle: args.no_oracle, no_python: args.no_python })?;
    style(steps);
    let built = steps.run("build", || Wgoose::build(Profile::Dev));
    if let Some(wgoose) = steps.with(&built, "made pages") {
        steps.run("made pages", || evidence::made(wgoose.path()));
    }
    steps.run("tests", || run_tests(&mut tests("--workspace")));
    steps.run("doc tests", || run_tests(&mut cargo("test --workspace --doc")));
    steps.run("web-rwkv", upstream::web_rwkv);
    steps.run("publishing", upstream::publishing);
    steps.run("preparations", || ahead.finish());
    if let Some(deny) = steps.run("dependencies", || Deny::prepare().and_then(Deny::check)) {
        steps.run_where("advisories", || deny.fetch_advisories(), Deny::check_advisories);
    }
    if steps.with(&built, "matrix units").is_some() {
        matrices(steps, None, false);
    }
    if args.no_python {
        steps.skip("python package", "--no-python");
    } else if let Some(wgoose) = steps.with(&built, "python package") {
        steps.run("python package", || python::check(wgoose));
    }
    if args.no_oracle {
        steps.skip("oracle", "--no-oracle");
    } else if let Some(wgoose) = steps.with(&built, "oracle") {
        steps.run("oracle", || {
            let oracle = Oracle::prepare()?;
            oracle.run("check.py", wgoose)?;
            oracle.run("conversion.py", wgoose)
        });
    }
    Ok(())
}
