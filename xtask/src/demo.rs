//! `cargo xtask demo`: from nothing to a tuned model, on whatever this machine has.

use crate::shell::{self, Error, Result};
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose, target};
use std::fs;
use std::path::Path;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds the tuner may take
    #[arg(long, default_value_t = 60)]
    budget: u32,
}

/// Small enough for a software adapter on two cores, large enough that kernels differ.
const MODEL: &str =
    "--layers 3 --width 256 --ffn 768 --head-size 64 --vocab 2048 --ranks 32,32,16,64 --mix Q4_K_M --seed 1";

/// The model that `experiments/demo-model` has trained.
pub(crate) const TRAINED: &str = "assets/demo.gguf";
const PROMPT: &str = "The SELECT statement ";

/// Commands for a model of one's own.
const NEXT: [(&str, &str); 3] = [
    ("generate MODEL.gguf --prompt \"The goose flies over\"", "run RWKV-7: .gguf, .safetensors or the authors' .pth"),
    ("tune MODEL.gguf", "find the fastest kernels for it on this device, in 5 minutes"),
    ("serve MODEL.gguf", "OpenAI's HTTP interface at http://127.0.0.1:8080/v1"),
];

pub(crate) fn run(args: &Args) -> Result<()> {
    vulkan::ensure()?;
    println!("Building wgoose in release mode; the first time this takes some minutes.");
    let wgoose = Wgoose::build(Profile::Release)?;
    println!("\nDevice {}", shell::capture(&mut wgoose.command(["devices"]))?.lines().next().unwrap_or_default());

    let folder = target().join("demo");
    fs::create_dir_all(&folder).map_err(|e| Error::file("create", &folder, e))?;
    let file = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (model, plan, ledger) = (file("model.gguf"), file("plan.ron"), file("ledger.jsonl"));
    let made = shell::capture(&mut wgoose.command(["dev", "synth", &model].into_iter().chain(MODEL.split(' '))))?;
    println!("Model  a small RWKV-7 with random weights, {}", made.trim().rsplit(": ").next().unwrap_or_default());

    println!("\n== Tuning: which kernels are the fastest here?");
    // What an earlier demo measured would answer from memory.
    for earlier in [&ledger, &plan] {
        remove(earlier.as_ref())?;
    }
    let budget = args.budget.to_string();
    let tune = ["tune", &model, "--fresh", "--out", &plan, "--ledger", &ledger, "--budget", &budget];
    shell::run(&mut wgoose.command(tune))?;

    println!("\n== A trained model writes (it has read technical documentation for minutes: what it says is not true)");
    let how = ["--plan", "default", "--max-tokens", "120", "--temperature", "0.8", "--seed", "1"];
    let text = shell::capture(&mut wgoose.command(["generate", TRAINED, "--prompt", PROMPT].into_iter().chain(how)))?;
    println!("{PROMPT}{}", text.trim_end());

    println!("\n== With a model of your own");
    let program = wgoose.path().display();
    for (command, what) in NEXT {
        println!("  {program} {command}\n      {what}");
    }
    Ok(())
}

/// Removes a file, if there is one.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", path, error)),
        _ => Ok(()),
    }
}
