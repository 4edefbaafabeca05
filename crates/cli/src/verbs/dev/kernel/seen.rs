//! Writes how fast kernels were here into their files, as lines of `// seen:`.

use super::args::{Args, Target};
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::SystemTime;
use wgoose_graph::ModelShape;
use wgoose_kernels::Catalogue;
use wgoose_measure::space::InstanceGroup;
use wgoose_plans::day;
use wgoose_runtime::Device;
use wgoose_runtime::kernel_bench::roofline::{self, Quantity};
use wgoose_tuner::kernel_tuning::TimedVariant;

/// The best time of a variant at one op instance.
struct Sighting {
    /// Bytes that the instance moves at least.
    bytes: u64,
    ns: f64,
    /// The instance and the configuration, for people.
    what: String,
}

/// By variant, what was seen at the instance that moves most bytes in the pass of fewest tokens.
pub(super) struct Sightings {
    /// What the device reads at most.
    read_gb_s: f64,
    best: BTreeMap<String, Sighting>,
}

impl Sightings {
    /// None yet.
    ///
    /// # Errors
    /// The device's memory was never measured.
    pub(super) fn new(args: &Args, device: &Device) -> Result<Self, Failure> {
        let roofline = args.cache.folder().and_then(|cache| roofline::load(&cache, device.fingerprint()));
        match roofline.and_then(|roofline| roofline.median(Quantity::ReadBandwidth)) {
            Some(read_gb_s) => Ok(Sightings { read_gb_s, best: BTreeMap::new() }),
            None => Err("--seen needs the device's roofline: run wgoose dev roofline first".into()),
        }
    }

    pub(super) fn add(&mut self, group: &InstanceGroup, timed: &TimedVariant) {
        let Ok(summary) = &timed.result else { return };
        let bytes = group.instance.bytes();
        let what = format!("{}, {:.2} us, {}", group.key, summary.median / 1e3, timed.label);
        let new = Sighting { bytes, ns: summary.median, what };
        match self.best.get_mut(&timed.name) {
            Some(kept) if kept.bytes >= bytes => {}
            Some(kept) => *kept = new,
            None => drop(self.best.insert(timed.name.clone(), new)),
        }
    }

    /// Writes them into the files of the folder that the target means.
    ///
    /// # Errors
    /// The folder has none of the files, or one cannot be written.
    pub(super) fn write(
        &self,
        args: &Args,
        device: &Device,
        catalogue: &Catalogue,
        target: &Target,
    ) -> Result<(), Failure> {
        let Some(folder) = args.kernels.folder() else { return Ok(()) };
        let preset = ModelShape::preset(&args.model.to_string_lossy());
        let model = match preset {
            Some(_) => format!("{} {}", args.model.display(), args.format),
            None => args.model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        let place = format!("{} {model}", device.fingerprint().adapter);
        let mut written = 0;
        for variant in target.variants(catalogue)? {
            let file = folder.join(format!("{}.wgsl", variant.path()));
            let Some(Sighting { bytes, ns, what }) = self.best.get(variant.name()).filter(|_| file.is_file()) else {
                continue;
            };
            let percent = 100.0 * *bytes as f64 / ns / self.read_gb_s;
            let value = format!("{percent:.0} % of the roofline ({}: {what})", day(SystemTime::now()));
            note(&file, &place, &value)?;
            outln!("{}: seen: {place}: {value}", file.display());
            written += 1;
        }
        match written {
            0 => Err(format!("{}: no file here was timed, so none says what was seen", folder.display()).into()),
            _ => Ok(()),
        }
    }
}

/// Writes a line into a kernel's file.
fn note(file: &Path, place: &str, value: &str) -> Result<(), Failure> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let text = wgoose_files::read_to_string(file).map_err(failed)?;
    let new = noted(&text, place, value);
    wgoose_files::replace(file, |out| out.write_all(new.as_bytes())).map_err(failed)?;
    Ok(())
}

/// The text of a kernel with a line for that place after its other directives, instead of the line that it had.
fn noted(text: &str, place: &str, value: &str) -> String {
    let begin = format!("// seen: {place}: ");
    let line = format!("{begin}{value}");
    let mut lines: Vec<&str> = text.lines().collect();
    match lines.iter().position(|old| old.starts_with(&begin)) {
        Some(old) => lines[old] = &line,
        None => {
            let head = lines.iter().take_while(|line| line.starts_with("//")).count();
            lines.insert(head, &line);
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::noted;

    #[test]
    fn a_place_has_one_line_after_the_directives() {
        let text = "// idea: one\n// grid: 1\n#import lib/op\n";
        let first = noted(text, "NVIDIA H200 0.1B F16", "70 % of the roofline (a)");
        assert_eq!(
            first,
            "// idea: one\n// grid: 1\n// seen: NVIDIA H200 0.1B F16: 70 % of the roofline (a)\n#import lib/op\n"
        );
        let again = noted(&first, "NVIDIA H200 0.1B F16", "75 % of the roofline (b)");
        assert_eq!(again, first.replace("70 %", "75 %").replace("(a)", "(b)"));
        let other = noted(&again, "Apple M1 0.1B F16", "50 % of the roofline (c)");
        assert_eq!(other.lines().count(), again.lines().count() + 1);
        assert!(other.contains("H200") && other.contains("Apple M1"), "{other}");
    }
}
