//! Is it right?

use super::args::{Args, Target};
use crate::failure::Failure;
use crate::out;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wgoose_kernels::{Catalogue, Variant};
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::property::{Amount, DrawnCase, Tested, run_case, test_choices, test_variant};

/// Tests variants; the first case that fails is saved.
pub(super) fn all(args: &Args, device: &Arc<Device>, target: &Target, variants: &[&Variant]) -> Result<(), Failure> {
    let mut wrong = Vec::new();
    for variant in variants {
        outln!("{}/{}: {}", target.op, variant.name(), variant.idea());
        let begun = Instant::now();
        let mut tested = test_choices(device, &target.op, variant, true)?;
        if tested.failure.is_none() {
            let amount = Amount { cases: args.cases, seed: args.seed };
            tested = together(tested, test_variant(device, &target.op, variant, amount)?);
        }
        let seconds = begun.elapsed().as_secs_f64();
        match &tested.failure {
            Some((case, why)) => {
                let file = save(case)?;
                outln!("  WRONG: {why}");
                outln!("  smallest case: {}", describe(case));
                outln!("  saved: wgoose dev kernel --case {}{} runs it", file.display(), folder(args));
                wrong.push(format!("{}/{}", target.op, variant.name()));
            }
            None if tested.cases == 0 => outln!("  not tested: nothing of it runs on this device"),
            None => {
                let (cases, worst) = (tested.cases, tested.worst);
                outln!("  right: {cases} cases, worst error {worst:.2} of what is allowed ({seconds:.1} s)");
            }
        }
        for (reason, cases) in &tested.skipped {
            outln!("  skipped {cases}: {reason}");
        }
        if tested.cases == 0 && target.variant.is_some() {
            let name = variant.name();
            return Err(format!("{}/{name} was not tested: no case of it runs on this device", target.op).into());
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("wrong: {}", wrong.join(", ")).into()),
    }
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
    let DrawnCase { model, tokens, segments, outputs, format, config, .. } = case;
    let config: Vec<String> = config.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let batch = format!("{tokens} tokens in {segments} segments, {outputs} outputs");
    let packed = match (case.x_packed, case.y_packed) {
        (false, false) => "",
        (true, false) => "; x packed",
        (false, true) => "; y packed",
        (true, true) => "; x and y packed",
    };
    let heads = format!("width {}, ffn {}, head size {}", model.width, model.ffn, model.head_size);
    format!("{batch}; {heads}; {format}{packed}; {}", config.join(" "))
}
