//! `cargo xtask attack`: the tool on damaged inputs. None may crash it, hang it, garble the terminal or give a wrong result unseen.

mod formats;
mod mutate;
mod run;

use crate::shell::{self, Error, Result, command};
use crate::vulkan;
use crate::wgoose::{Profile, Wgoose, target};
use fastrand::Rng;
use formats::{ALL, Format, MAKES, Proof};
use run::{Fault, Place, Ran};
use std::fs;
use std::iter::Sum;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Damaged inputs of each format
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// Only this format
    #[arg(long, value_parser = ALL.iter().map(|format| format.name).collect::<Vec<_>>())]
    only: Option<String>,
    /// What the damage is drawn from: the same gives the same
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest time of a run, in seconds
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Runs at a time; by default as many as there are cores
    #[arg(long, default_value_t = cores())]
    jobs: u64,
    /// Attack this binary; by default one is built in release mode
    #[arg(long)]
    tool: Option<PathBuf>,
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

/// A plan with choices.
const SHIPS: &str = "plans/nvidia-h200/24x2048-f16.ron";

/// What became of the inputs of a format.
#[derive(Default)]
struct Tally {
    inputs: u64,
    accepted: u64,
    /// By their order in [`Fault`].
    faults: [u64; 4],
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(tallies: I) -> Tally {
        tallies.fold(Tally::default(), |sum, one| Tally {
            inputs: sum.inputs + one.inputs,
            accepted: sum.accepted + one.accepted,
            faults: std::array::from_fn(|i| sum.faults[i] + one.faults[i]),
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    vulkan::ensure()?;
    let tool = match &args.tool {
        Some(tool) => tool.clone(),
        None => Wgoose::build(Profile::Release)?.path().to_owned(),
    };
    let tool = fs::canonicalize(&tool).map_err(|e| Error::file("find", &tool, e))?;
    let folder = emptied(&target().join("attack"))?;
    let places = (0..args.jobs.max(1)).map(|job| {
        let [valid, scratch] = ["valid", "scratch"].map(|name| folder.join(format!("job-{job}")).join(name));
        [&valid, &scratch].iter().try_for_each(|path| create(path))?;
        Ok(Place { tool: tool.clone(), valid, scratch, limit: Duration::from_secs(args.limit) })
    });
    let places: Vec<Place> = places.collect::<Result<_>>()?;
    make(&places[0])?;
    places[1..].iter().try_for_each(|place| copy(&places[0].valid, &place.valid))?;
    println!("seed {}", args.seed);
    let chosen = |format: &&Format| args.only.as_deref().is_none_or(|only| only == format.name);
    let mut rows = Vec::new();
    for format in ALL.iter().filter(chosen) {
        let tally = at_once(format, &places, &folder, args)?;
        println!("{}: {} inputs, {} faults", format.name, tally.inputs, tally.faults.iter().sum::<u64>());
        rows.push((format.name, tally));
    }
    println!(
        "\n{:<12}{:>8}{:>10}{:>9}{:>9}{:>7}{:>14}{:>7}",
        "format", "inputs", "accepted", "refused", "crashes", "hangs", "bad messages", "wrong"
    );
    for (name, Tally { inputs, accepted, faults: [crashes, hangs, messages, wrong] }) in &rows {
        let refused = inputs - accepted;
        println!("{name:<12}{inputs:>8}{accepted:>10}{refused:>9}{crashes:>9}{hangs:>7}{messages:>14}{wrong:>7}");
    }
    match rows.iter().flat_map(|(_, tally)| tally.faults).sum::<u64>() {
        0 => Ok(()),
        faults => Err(Error::Other(format!("{faults} faults: run the replay.sh of those in {}", folder.display()))),
    }
}

/// An empty folder, as an absolute path.
fn emptied(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|e| Error::file("empty", path, e))?;
    }
    create(path)?;
    fs::canonicalize(path).map_err(|e| Error::file("find", path, e))
}

fn create(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::file("create", path, e))
}

/// Makes the valid inputs.
fn make(place: &Place) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = place.valid.join(name);
        fs::write(&path, text).map_err(|e| Error::file("write", &path, e))
    };
    write("ids.json", "[1, 2, 3, 4, 5]")?;
    write("texts.txt", "a goose\nand another\n")?;
    for line in MAKES {
        let mut made = command(&place.tool, line.split(' '));
        made.current_dir(&place.valid).env("WGOOSE_DATA_DIR", place.scratch.join("data"));
        shell::run(&mut made)?;
    }
    let ran = place.run("chat model.gguf --backend cpu --max-tokens 2", "hi\n/save state\n/quit\n")?;
    if ran.fault.is_some() || !ran.accepted {
        return Err(Error::Other("no state can be made: `wgoose chat` fails".into()));
    }
    choose(&place.valid.join("plan.ron"))?;
    copy(Path::new("oracle/goldens/tiny.pth"), &place.valid.join("model.pth"))?;
    copy(Path::new("kernels-wgsl"), &place.valid.join("kernels"))
}

/// Gives a plan the choices of one that ships: what a short sweep chooses is chance.
fn choose(path: &Path) -> Result<()> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|e| Error::file("read", path, e));
    let (plan, ships) = (read(path)?, read(SHIPS.as_ref())?);
    let parts = |text: &str| {
        let (head, rest) = text.split_once("\n    choices: ")?;
        let (choices, evidence) = rest.split_once("\n    evidence: ")?;
        Some([head, choices, evidence].map(str::to_owned))
    };
    let (Some([head, _, evidence]), Some([_, choices, _])) = (parts(&plan), parts(&ships)) else {
        return Err(Error::Other(format!("{} or {SHIPS} is not laid out as plans are", path.display())));
    };
    let plan = format!("{head}\n    choices: {choices}\n    evidence: {evidence}");
    fs::write(path, plan).map_err(|e| Error::file("write", path, e))
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for path in files(from)? {
        let name = path.strip_prefix(from).unwrap_or(&path);
        let to = if name.as_os_str().is_empty() { to.to_owned() } else { to.join(name) };
        to.parent().map_or(Ok(()), create)?;
        fs::copy(&path, &to).map_err(|e| Error::file("copy", &path, e))?;
    }
    Ok(())
}

/// The file of that path, or all files below that folder, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let read = |e| Error::file("read", path, e);
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(read)? {
        found.extend(files(&entry.map_err(read)?.path())?);
    }
    found.sort();
    Ok(found)
}

/// Attacks one format in all places at once; what is found is kept in the folder.
fn at_once(format: &Format, places: &[Place], folder: &Path, args: &Args) -> Result<Tally> {
    let next = AtomicU64::new(0);
    let numbers = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < args.count);
    std::thread::scope(|scope| {
        let start =
            |place| scope.spawn(move || attack(format, place, folder, args.seed, &mut std::iter::from_fn(numbers)));
        let jobs: Vec<_> = places.iter().map(start).collect();
        let joined = |job: ScopedJoinHandle<'_, Result<Tally>>| job.join().unwrap_or_else(|panic| resume_unwind(panic));
        jobs.into_iter().map(joined).sum()
    })
}

/// Attacks one format with the damaged inputs of these numbers.
fn attack(
    format: &Format,
    place: &Place,
    folder: &Path,
    seed: u64,
    numbers: &mut dyn Iterator<Item = u64>,
) -> Result<Tally> {
    let valid = place.valid.join(format.valid);
    let all = files(&valid)?;
    let mut tally = Tally::default();
    for number in numbers {
        let mut rng = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let input = place.scratch.join("damaged");
        emptied(&input)?;
        let chosen = &all[rng.usize(..all.len())];
        let name = match chosen.strip_prefix(&valid) {
            Ok(name) if !name.as_os_str().is_empty() => Path::new("input").join(name),
            _ => Path::new("input").with_extension(valid.extension().unwrap_or_default()),
        };
        let (path, bytes) = (input.join(name), fs::read(chosen).map_err(|e| Error::file("read", chosen, e))?);
        path.parent().map_or(Ok(()), create)?;
        fs::write(&path, mutate::mutated(&bytes, &mut rng)).map_err(|e| Error::file("write", &path, e))?;

        let line = format.reads[number as usize % format.reads.len()];
        let at = |text: &str, folder: &Path| text.replace('@', &folder.join("input").to_string_lossy());
        let Ran { accepted, fault } = place.run(&at(line, &input), &at(format.says, &input))?;
        let fault = match fault {
            None if accepted => proved(format.proof, line, place, &|line| at(line, &input))?,
            fault => fault,
        };
        tally.inputs += 1;
        tally.accepted += u64::from(accepted);
        if let Some(fault) = fault {
            tally.faults[fault as usize] += 1;
            let kept = folder.join(format!("{}-{number}-{fault:?}", format.name).to_lowercase());
            fs::rename(&input, &kept).map_err(|e| Error::file("keep", &kept, e))?;
            let (shown, says) = (place.shown(&at(line, &kept)), at(format.says, &kept));
            let script = format!("cd '{}' || exit\nprintf '%s' '{says}' | ({shown})\n", place.valid.display());
            fs::write(kept.join("replay.sh"), script).map_err(|e| Error::file("write", &kept, e))?;
            println!("{}", kept.display());
        }
    }
    Ok(tally)
}

/// What is wrong with a result that was given.
fn proved(proof: Proof, line: &str, place: &Place, at: &dyn Fn(&str) -> String) -> Result<Option<Fault>> {
    let Proof::Logits(doubt) = proof else { return Ok(None) };
    if !line.contains("out.npy") || deviation(&place.valid)? < TOLERANCE {
        return Ok(None);
    }
    let Some(doubt) = doubt else { return Ok(Some(Fault::Wrong)) };
    let ran = place.run(&at(doubt), "")?;
    Ok(ran.fault.or(ran.accepted.then_some(Fault::Wrong)))
}

/// Largest deviation of logits that are right: plans may take kernels that round.
const TOLERANCE: f64 = 0.02;

/// Root mean square of the difference of `out.npy` from `right.npy`, over that of the latter.
fn deviation(folder: &Path) -> Result<f64> {
    let numbers = |name: &str| {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|e| Error::file("read", &path, e))?;
        let number = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        // A header of 128 bytes at most: those of two results of a shape are the same.
        Ok(bytes.get(128..).unwrap_or_default().chunks_exact(4).map(number).collect::<Vec<_>>())
    };
    let (out, right) = (numbers("out.npy")?, numbers("right.npy")?);
    let difference: f64 = out.iter().zip(&right).map(|(a, b)| (a - b) * (a - b)).sum();
    let size: f64 = right.iter().map(|b| b * b).sum();
    let deviation = (difference / size).sqrt();
    Ok(if out.len() == right.len() && deviation.is_finite() { deviation } else { f64::INFINITY })
}
