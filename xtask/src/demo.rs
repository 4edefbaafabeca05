//! `cargo xtask demo`: from nothing to a tuned model, on whatever this machine has.

mod bench;

use crate::shell::{self, Error, Result};
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose, target};
use bench::Bench;
use std::fs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds the tuner may take
    #[arg(long, default_value_t = 60)]
    budget: u32,
}

/// Small enough for a software adapter on two cores, large enough that kernels differ.
const MODEL: &str =
    "--layers 3 --width 256 --ffn 768 --head-size 64 --vocab 2048 --ranks 32,32,16,64 --mix Q4_K_M --seed 1";

/// What `experiments/demo-model` has trained.
const TRAINED: &str = "assets/demo.gguf";
const PROMPT: &str = "The SELECT statement ";

pub(crate) fn run(args: &Args) -> Result<()> {
    chapter("What wgoose runs on");
    vulkan::ensure()?;
    println!("Building wgoose in release mode; the first time this takes some minutes.");
    let wgoose = Wgoose::build(Profile::Release)?;
    shell::run(&mut wgoose.command(["devices"]))?;

    let folder = target().join("demo");
    fs::create_dir_all(&folder).map_err(|e| Error::file("create", &folder, e))?;
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (model, plan, ledger) = (file("model.gguf"), file("plan.ron"), file("ledger.jsonl"));

    chapter("A small RWKV-7 model with random weights");
    shell::run(&mut wgoose.command(["synth", &model].into_iter().chain(MODEL.split(' '))))?;

    chapter("Tuning: which kernels are fastest here?");
    // A ledger of an earlier demo would answer from memory.
    if fs::exists(&ledger).is_ok_and(|here| here) {
        fs::remove_file(&ledger).map_err(|e| Error::file("remove", ledger.as_ref(), e))?;
    }
    let budget = args.budget.to_string();
    shell::run(&mut wgoose.command(["tune", &model, "--out", &plan, "--ledger", &ledger, "--budget", &budget]))?;

    chapter("Is the tuned plan still right?");
    shell::run(&mut wgoose.command(["verify", &model, "--plan", &plan]))?;

    chapter("How fast is it?");
    let report = file("benchmarks.md");
    let folder_name = folder.to_string_lossy().into_owned();
    let bench = |change: &str, plan: &[&str]| {
        let what = ["bench", "--model", &model, "--title", "demo", "--change", change];
        let how = ["--out", &report, "--cache", &folder_name, "--prefill-tokens", "128", "--json"];
        Bench::parse(&shell::capture(&mut wgoose.command(what.iter().chain(&how).chain(plan).copied()))?)
    };
    let before = bench("default plan", &["--plan", "default"])?;
    let after = bench("tuned for this machine", &["--plan", &plan])?;

    chapter("A trained model speaks (it has read documentation for minutes: what it says is not true)");
    println!("{PROMPT}...");
    let how = ["--plan", "default", "--max-tokens", "160", "--temperature", "0.8", "--seed", "1"];
    shell::run(&mut wgoose.command(["generate", TRAINED, "--prompt", PROMPT].into_iter().chain(how)))?;

    chapter("Each plan by itself");
    println!("{}", bench::table(&before, &after));
    chapter("What tuning gained: both plans in turns");
    if before.is_of_plan(&after) {
        println!("Nothing was faster than the default in this time: both are that plan.");
    } else {
        shell::run(&mut wgoose.command(["compare", &model, "--plan", "default", "--plan", &plan, "--budget", "20"]))?;
    }
    println!("\nModel, plan and every measurement: {}", folder.display());
    if before.quality_hash == after.quality_hash {
        Ok(())
    } else {
        Err(Error::Other("the tuned plan gives other answers than the default plan: please report this".into()))
    }
}

fn chapter(title: &str) {
    println!("\n== {title}");
}
