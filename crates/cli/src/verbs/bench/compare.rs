//! `wgoose bench compare A B`: one of four words for each piece of work that two records share.

use super::picture;
use crate::failure::{Failure, WrongUsage};
use crate::out;
use std::path::{Path, PathBuf};
use wgoose_bench::{Saved, Timed, saved};
use wgoose_measure::stats::{Comparison, Criteria, Summary, Verdict, compare};
use wgoose_session::printable;

/// Compare two benchmark records: which is faster, with a confidence interval.
///
/// Verdicts at 95 % confidence: FAST or SLOW by at least 2 %, SAME within 2 %, AMBIGUOUS if the samples do not decide.
/// Fewer than 6 samples (`wgoose bench --runs`) never decide. Several records of the same work are pooled. Records are
/// compared only if model file, device and driver are the same.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wgoose bench compare before.jsonl after.jsonl --fail-on slow
  wgoose bench compare \"default plan\" \"tuned plan\" --records benchmarks.jsonl
  wgoose compare model.gguf --plan default --plan tuned.ron      # measures both side by side, which is surer")]
pub(super) struct Args {
    /// The baseline: a file of records (of --save or --out-record), or a title or a change in --records.
    #[arg(value_name = "A")]
    before: String,
    /// The records to compare with the baseline, named in the same way.
    #[arg(value_name = "B")]
    now: String,
    /// File in which titles and changes are looked up.
    #[arg(long, value_name = "FILE", default_value = "benchmarks.jsonl")]
    records: PathBuf,
    /// Fail if B has one of these verdicts in any row.
    #[arg(long, value_name = "VERDICT", value_delimiter = ',', value_enum)]
    fail_on: Vec<Word>,
    /// Draw the intervals to this file, as SVG.
    #[arg(long, value_name = "FILE", value_parser = crate::options::place())]
    picture: Option<PathBuf>,
    /// Print one line of JSON for each piece of work.
    #[arg(long)]
    json: bool,
}

/// A verdict, as an option has it.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Word {
    Fast,
    Slow,
    Same,
    Ambiguous,
}

impl Word {
    fn of(verdict: Verdict) -> Word {
        match verdict {
            Verdict::Fast => Word::Fast,
            Verdict::Slow => Word::Slow,
            Verdict::Same => Word::Same,
            Verdict::Ambiguous => Word::Ambiguous,
        }
    }
}

/// Why two records say nothing of each other, or what they say is not wanted.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("nothing in {} is called '{name}', and no file is: name a file of records, a title or a change", .records.display())]
    NoSuchName { name: String, records: PathBuf },
    #[error("'{before}' and '{now}' have no work in common on one device, with one model file")]
    NothingInCommon { before: String, now: String },
    #[error("{unwanted} of {of} are {words}")]
    Unwanted { unwanted: usize, of: usize, words: String },
}

/// Compares, prints, and fails where that is asked for.
pub(super) fn run(args: &Args) -> Result<(), Failure> {
    if args.before == args.now {
        return Err(WrongUsage("A and B are the same".to_owned()).into());
    }
    let (before, now) = (args.timed(&args.before)?, args.timed(&args.now)?);
    let mut compared = Vec::new();
    for now in &now {
        if let Some(before) = before.iter().find(|before| before.is_of(now)) {
            compared.push((before, now, judged(before, now)?));
        }
    }
    if compared.is_empty() {
        return Err(Refused::NothingInCommon { before: args.before.clone(), now: args.now.clone() }.into());
    }
    if let Some(path) = &args.picture {
        let rows = compared.iter().map(|(before, now, comparison)| picture::gain(&now.what, before, now, comparison));
        let title = format!("{} against {}", args.now, args.before);
        out::file(path, picture::drawn(&title, &args.before, &rows.collect::<Vec<_>>()).as_bytes())?;
    }
    let mut heading = None;
    for (before, now, comparison) in &compared {
        if args.json {
            outln!("{}", json(before, now, comparison));
            continue;
        }
        let of = (&now.device, &now.model);
        if heading.replace(of) != Some(of) {
            outln!("{} on {}", printable(&now.model), printable(&now.device));
            outln!("{:<36}{:>10}{:>10}  {:<26}{:>5}  verdict", "", "A, ms", "B, ms", "times as fast", "pairs");
        }
        outln!("{}", line(before, now, comparison));
    }
    let (fewest, enough) = (compared.iter().map(|(.., c)| c.pairs).min(), Criteria::kernel().min_pairs);
    if let Some(few) = fewest.filter(|few| *few < enough) {
        eprintln!(
            "{few} runs are too few for a verdict: measure with --runs {enough} or more, or once more under the same name"
        );
    }
    let unwanted: Vec<Verdict> = compared.iter().map(|(.., comparison)| comparison.verdict).collect();
    let unwanted: Vec<Verdict> =
        unwanted.into_iter().filter(|verdict| args.fail_on.contains(&Word::of(*verdict))).collect();
    match unwanted.len() {
        0 => Ok(()),
        count => {
            let mut words: Vec<String> = unwanted.iter().map(Verdict::to_string).collect();
            words.sort();
            words.dedup();
            Err(Refused::Unwanted { unwanted: count, of: compared.len(), words: words.join(" or ") }.into())
        }
    }
}

impl Args {
    /// What a name stands for; samples of the same work together.
    fn timed(&self, name: &str) -> Result<Vec<Timed>, Failure> {
        let path = Path::new(name);
        let records: Vec<Saved> = match path.exists() {
            true if path.extension().is_some_and(|extension| extension == "md") => {
                saved(&path.with_extension("jsonl"))?
            }
            true => saved(path)?,
            false => {
                let no_such_name = || Refused::NoSuchName { name: name.to_owned(), records: self.records.clone() };
                let all: Vec<Saved> = if self.records.exists() { saved(&self.records)? } else { Vec::new() };
                let named: Vec<Saved> = all.into_iter().filter(|record| record.is_named(name)).collect();
                if named.is_empty() { Err(no_such_name())? } else { named }
            }
        };
        let mut together: Vec<Timed> = Vec::new();
        for timed in records.iter().flat_map(Saved::timed) {
            match together.iter_mut().find(|known| known.is_of(&timed)) {
                Some(known) => known.samples_ms.extend(timed.samples_ms),
                None => together.push(timed),
            }
        }
        Ok(together)
    }
}

/// In the order of their runs; where one has more, its last ones have no pair.
fn judged(before: &Timed, now: &Timed) -> Result<Comparison, Failure> {
    let pairs = before.samples_ms.len().min(now.samples_ms.len());
    Ok(compare(&before.samples_ms[..pairs], &now.samples_ms[..pairs], &Criteria::kernel())?)
}

fn median(samples: &[f64]) -> f64 {
    Summary::of(samples).map_or(f64::NAN, |summary| summary.median)
}

/// Whether the gate says that answers are not what they were.
fn other_answers(before: &Timed, now: &Timed) -> bool {
    let are_known = before.quality_hash.is_some() && now.quality_hash.is_some();
    are_known && before.quality_class == now.quality_class && before.quality_hash != now.quality_hash
}

fn line(before: &Timed, now: &Timed, comparison: &Comparison) -> String {
    let Comparison { verdict, log_ratio, interval, pairs } = comparison;
    let range = format!("{:.3} ({:.3} to {:.3})", log_ratio.exp(), interval.low.exp(), interval.high.exp());
    let (a, b) = (median(&before.samples_ms), median(&now.samples_ms));
    let answers = if other_answers(before, now) { "  other answers" } else { "" };
    format!("{:<36}{a:>10.2}{b:>10.2}  {range:<26}{pairs:>5}  {verdict}{answers}", printable(&now.what))
}

fn json(before: &Timed, now: &Timed, comparison: &Comparison) -> serde_json::Value {
    let Comparison { verdict, log_ratio, interval, pairs } = comparison;
    serde_json::json!({
        "device": now.device,
        "fingerprint": now.fingerprint,
        "what": now.what,
        "before_ms": median(&before.samples_ms),
        "now_ms": median(&now.samples_ms),
        "times_as_fast": log_ratio.exp(),
        "interval": [interval.low.exp(), interval.high.exp()],
        "pairs": pairs,
        "verdict": verdict,
        "other_answers": other_answers(before, now),
    })
}
