//! Is it right?

use super::args::{Args, Target};
use super::judged::{Judge, Judgement, blamed};
use super::sanitize;
use crate::failure::Failure;
use crate::out;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wgoose_kernels::{Catalogue, Variant};
use wgoose_measure::judge::Verdict;
use wgoose_runtime::Device;
use wgoose_runtime::RuntimeError;
use wgoose_runtime::kernel_bench::property::{
    Amount, DrawnCase, Tested, run_case, test_choices, test_rows, test_variant,
};
use wgoose_runtime::kernel_bench::sanitize::first_fault;

/// Tests variants, each to its first failure, which is saved; says whether all may be timed. Those that are named, or
/// that are of a folder, run under the sanitizer first.
pub(super) fn all(
    args: &Args,
    (device, catalogue): (&Arc<Device>, &Catalogue),
    (target, variants): (&Target, &[&Variant]),
    judge: &Judge,
) -> Result<bool, Failure> {
    let mut may_be_timed = true;
    for variant in variants {
        let id = format!("{}/{}", target.op, variant.name());
        if !judge.is_json() {
            outln!("{id}: {}", variant.idea());
        }
        let is_strange = target.variant.is_some() || catalogue.is_brought(variant);
        if is_strange && let Some(race) = first_fault(&target.op, variant) {
            if !judge.is_json() {
                outln!("  RACE: {race}");
                outln!("  wgoose dev kernel {id} --sanitize{} shows all", folder(args));
            }
            let (file, line) = sanitize::place(&race);
            let reason = race.to_string();
            judge.say(&Judgement { file, line, ..judge.plain(&id, Verdict::Race, reason) })?;
            may_be_timed = false;
            continue;
        }
        let begun = Instant::now();
        let tested = match tested(args, device, &target.op, variant, judge.seed) {
            Ok(tested) => tested,
            Err(error) => {
                let Some((verdict, text)) = blamed(&error) else { return Err(error.into()) };
                if text.is_some() && !judge.is_json() {
                    return Err(error.into());
                }
                if !judge.is_json() {
                    outln!("  {verdict}: {error}");
                }
                let judgement = judge.plain(&id, verdict, error.to_string());
                judge.say(&text.map_or(judgement.clone(), |text| judgement.at(text)))?;
                if verdict != Verdict::Refused {
                    return Ok(false);
                }
                may_be_timed = false;
                continue;
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        let (cases, worst) = (tested.cases, tested.worst);
        match &tested.failure {
            Some((case, why)) => {
                if !judge.is_json() {
                    let file = save(case)?;
                    outln!("  WRONG: {why}");
                    outln!("  smallest case: {}", describe(case));
                    outln!("  saved: wgoose dev kernel --case {}{} runs it", file.display(), folder(args));
                }
                let judgement = judge.plain(&id, Verdict::Wrong, why.clone());
                judge.say(&Judgement { case: Some(case.clone()), ..judgement })?;
                may_be_timed = false;
            }
            None if cases == 0 => {
                if !judge.is_json() {
                    outln!("  not tested: nothing of it runs on this device");
                }
                let reasons: Vec<&str> = tested.skipped.keys().map(String::as_str).collect();
                if target.variant.is_some() {
                    judge.say(&judge.plain(&id, Verdict::Refused, reasons.join("; ")))?;
                    may_be_timed = false;
                }
            }
            None => {
                if !judge.is_json() {
                    outln!("  right: {cases} cases, worst error {worst:.2} of what is allowed ({seconds:.1} s)");
                }
                if args.times_nothing() {
                    let reason = format!("right in {cases} cases; it was not timed");
                    judge.say(&judge.plain(&id, Verdict::Unsure, reason))?;
                }
            }
        }
        if !judge.is_json() {
            for (reason, cases) in &tested.skipped {
                outln!("  skipped {cases}: {reason}");
            }
        }
    }
    Ok(may_be_timed)
}

/// Tests a variant at every number of rows, at every choice of its tunables and at random cases, to the first failure.
fn tested(args: &Args, device: &Arc<Device>, op: &str, variant: &Variant, seed: u64) -> Result<Tested, RuntimeError> {
    let mut tested = test_rows(device, op, variant)?;
    if tested.failure.is_none() {
        tested = together(tested, test_choices(device, op, variant, true)?);
    }
    if tested.failure.is_none() {
        tested = together(tested, test_variant(device, op, variant, Amount::new(args.cases, seed))?);
    }
    Ok(tested)
}

/// Runs a saved case.
pub(super) fn again(device: &Arc<Device>, catalogue: &Catalogue, file: &Path) -> Result<(), Failure> {
    let text = wgoose_files::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let case: DrawnCase =
        serde_json::from_str(&text).map_err(|e| format!("{}: no case that was saved: {e}", file.display()))?;
    outln!("{}/{}: {}", case.op, case.variant, describe(&case));
    match run_case(device, catalogue, &case)? {
        Some(why) => Err(why.into()),
        None => {
            outln!("  right");
            Ok(())
        }
    }
}

fn together(a: Tested, b: Tested) -> Tested {
    let mut skipped = a.skipped;
    for (reason, cases) in b.skipped {
        *skipped.entry(reason).or_default() += cases;
    }
    Tested {
        cases: a.cases + b.cases,
        worst: a.worst.max(b.worst),
        skipped,
        beyond_device: a.beyond_device + b.beyond_device,
        failure: a.failure.or(b.failure),
    }
}

/// Writes a case into the current folder.
fn save(case: &DrawnCase) -> Result<PathBuf, Failure> {
    let file = PathBuf::from(format!("{}-{}.case.json", case.op, case.variant));
    let text = serde_json::to_string_pretty(case)?;
    out::file(&file, format!("{text}\n").as_bytes())?;
    Ok(file)
}

/// The argument that names the folder that the variant may be of.
fn folder(args: &Args) -> String {
    args.kernels.folder().map(|folder| format!(" --kernels {}", folder.display())).unwrap_or_default()
}

fn describe(case: &DrawnCase) -> String {
    let DrawnCase { model, tokens, segments, outputs, format, config, numbers, .. } = case;
    let config: Vec<String> = config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let batch = format!("{tokens} tokens in {segments} segments, {outputs} outputs");
    let packed = match (case.x_packed, case.y_packed) {
        (false, false) => "",
        (true, false) => "; x packed",
        (false, true) => "; y packed",
        (true, true) => "; x and y packed",
    };
    let heads = format!("width {}, ffn {}, head size {}", model.width, model.ffn, model.head_size);
    format!("{batch}; {heads}; {format}{packed}; {numbers}; {}", config.join(" "))
}
