//! The declaration of an experiment, as `experiment.ron` has it.
//!
//! ```ron
//! (
//!     question: "Does the head's product pay with the norm folded in?",
//!     hypothesis: "It saves a dispatch of 2 us of 1,300.",
//!     claims: [(arm: "apart", tokens: 1, predicted: 0.998, holds: (0.98, 1.02))],
//!     on: (model: Synthetic(preset: "2.9B", mix: "Q4_K_M"), workload: [(tokens: 1)]),
//!     arms: [(name: "apart", differs: (without: [NormMatmul]))],
//! )
//! ```

use super::claim::Claim;
use super::difference::Difference;
use super::source::Source;
use crate::objective::{Objective, ObjectiveError, Part};
use crate::scenario::Scenario;
use ron::extensions::Extensions;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The declaration's name in its folder.
const FILE: &str = "experiment.ron";

/// Seconds of an experiment that does not say.
const SECONDS: u64 = 300;

/// A question, what is expected, and the arms that answer it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// What is asked, in one sentence.
    pub question: String,
    /// What is expected, and why.
    pub hypothesis: String,
    /// The same in figures.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// What is run.
    pub on: Setting,
    /// What is run instead where a CPU plays the device.
    #[serde(default)]
    pub on_cpu: Option<Setting>,
    /// Which kernels the arms have.
    #[serde(default)]
    pub tuning: Tuning,
    /// How the baseline differs from the device's default plan.
    #[serde(default)]
    pub baseline: Difference,
    /// What is held against it.
    pub arms: Vec<ArmDeclaration>,
}

/// A model, and what is timed of it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The model.
    pub model: Source,
    /// Tokens and sequences.
    pub workload: Vec<Part>,
    /// Seconds to spend on timing.
    #[serde(default = "seconds")]
    pub seconds: u64,
}

fn seconds() -> u64 {
    SECONDS
}

/// Which kernels arms have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tuning {
    /// Those of the baseline, but for what an arm says.
    #[default]
    Fixed,
    /// Each its own, but for what an arm says: the fastest alone.
    TunedPerArm {
        /// Seconds to look for them.
        seconds: u64,
    },
}

/// One arm.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArmDeclaration {
    /// What it is called.
    pub name: String,
    /// How it differs from the baseline. Without it, the arm is the baseline itself on purpose and shows the noise; an
    /// arm that names a difference and has none is left out.
    #[serde(default)]
    pub differs: Difference,
}

/// Why a file declares no experiment.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentFileError {
    /// It cannot be read.
    #[error("experiment {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no experiment.
    #[error("experiment {}: {source}", path.display())]
    Ron {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: Box<ron::error::SpannedError>,
    },
    /// What is timed.
    #[error("experiment {}: {source}", path.display())]
    Workload {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ObjectiveError,
    },
    /// There is nothing to compare.
    #[error("experiment {}: it has no arms", .0.display())]
    NoArms(PathBuf),
    /// Two arms of one name, or one called as the baseline is.
    #[error("experiment {}: two arms are called '{name}'; the first arm is called 'baseline'", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// A claim about nothing that is measured.
    #[error("experiment {}: a claim is about '{arm}' in {scenario}, which neither workload and arms have", path.display())]
    Claim {
        /// The file.
        path: PathBuf,
        /// Its arm.
        arm: String,
        /// Its scenario.
        scenario: Scenario,
    },
    /// Arms whose kernels cannot be tuned alone.
    #[error("experiment {}: '{name}' has {what}: kernels for that are not tuned per arm, say tuning: fixed", path.display())]
    NotTunable {
        /// The file.
        path: PathBuf,
        /// The arm.
        name: String,
        /// What of it.
        what: &'static str,
    },
}

impl Experiment {
    /// What the first arm is called.
    pub const BASELINE: &'static str = "baseline";

    /// The experiment that a folder, or a file, declares; with the file's path and its content hash.
    ///
    /// # Errors
    /// It cannot be read, or declares none that can be run.
    pub fn load(path: &Path) -> Result<(Experiment, PathBuf, String), ExperimentFileError> {
        let path = if path.is_dir() { path.join(FILE) } else { path.to_owned() };
        let text = wgoose_files::read_to_string(&path)
            .map_err(|source| ExperimentFileError::Io { path: path.clone(), source })?;
        let experiment = Experiment::parse(&text, &path)?;
        let hash = blake3::hash(text.as_bytes()).to_hex()[..32].to_owned();
        Ok((experiment, path, hash))
    }

    /// The experiment in a text; `path` says in errors where the text is from.
    ///
    /// # Errors
    /// It declares none that can be run.
    pub fn parse(text: &str, path: &Path) -> Result<Experiment, ExperimentFileError> {
        let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
        let experiment: Experiment = options
            .from_str(text)
            .map_err(|source| ExperimentFileError::Ron { path: path.to_owned(), source: Box::new(source) })?;
        experiment.check(path)?;
        Ok(experiment)
    }

    fn check(&self, path: &Path) -> Result<(), ExperimentFileError> {
        let path = || path.to_owned();
        if self.arms.is_empty() {
            return Err(ExperimentFileError::NoArms(path()));
        }
        let mut names = BTreeSet::from([Experiment::BASELINE]);
        if let Some(arm) = self.arms.iter().find(|arm| !names.insert(&arm.name)) {
            return Err(ExperimentFileError::Twice { path: path(), name: arm.name.clone() });
        }
        if let Tuning::TunedPerArm { .. } = self.tuning {
            let arms = self.arms.iter().map(|arm| (&*arm.name, &arm.differs));
            for (name, differs) in arms.chain([(Experiment::BASELINE, &self.baseline)]) {
                let what = match differs {
                    Difference { kernel_files: Some(_), .. } => "kernel_files",
                    Difference { persistent: Some(true), .. } => "persistent",
                    Difference { hand_over: Some(_), .. } => "hand_over",
                    Difference { plan: Some(_), .. } => "a plan",
                    _ => continue,
                };
                return Err(ExperimentFileError::NotTunable { path: path(), name: name.to_owned(), what });
            }
        }
        let mut scenarios = Vec::new();
        for setting in [Some(&self.on), self.on_cpu.as_ref()].into_iter().flatten() {
            let objective = setting.objective("workload");
            objective.check().map_err(|source| ExperimentFileError::Workload { path: path(), source })?;
            scenarios.extend(objective.scenarios());
        }
        let is_about_nothing = |claim: &&Claim| {
            !self.arms.iter().any(|arm| arm.name == claim.arm) || !scenarios.contains(&claim.scenario())
        };
        match self.claims.iter().find(is_about_nothing) {
            Some(claim) => {
                let (arm, scenario) = (claim.arm.clone(), claim.scenario());
                Err(ExperimentFileError::Claim { path: path(), arm, scenario })
            }
            None => Ok(()),
        }
    }

    /// What is run on a device.
    pub fn setting(&self, is_cpu: bool) -> &Setting {
        self.on_cpu.as_ref().filter(|_| is_cpu).unwrap_or(&self.on)
    }
}

impl Setting {
    /// What is timed, by that name.
    pub fn objective(&self, name: &str) -> Objective {
        Objective { name: name.to_owned(), parts: self.workload.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{Chooser, Sequences, WeightsAtStart};
    use wgoose_graph::Fusion;
    use wgoose_kernels::HandOver;

    fn parse(text: &str) -> Result<Experiment, ExperimentFileError> {
        Experiment::parse(text, Path::new("e.ron"))
    }

    /// One with an arm, and more fields.
    fn with(more: &str) -> String {
        format!(
            "(question: \"q\", hypothesis: \"h\", on: (model: Synthetic(preset: \"0.1B\", mix: \"F16\"), workload: [(tokens: 1)]), {more})"
        )
    }

    #[test]
    fn a_declaration_reads_every_difference_of_a_plan() {
        let all = "without: [NormShift], with: [TimeMixSplit], chunk: 32, precision: F16, state: F16, persistent: true, \
                   hand_over: Announced, \
                   interleave: [Q8_0], k_major: [FfnValue], mix: \"Q8_0\", kernel_files: \"mine\", \
                   drive: (chooser: Host, in_flight: 1, weights: Lazy), \
                   kernels: [(op: \"matmul\", variant: \"gemv_subgroup\", config: {\"WG\": 64, \"X\": \"f32\"}, rows: 1)]";
        let bare = "(name: \"c\", differs: (kernels: [(op: \"matmul\", variant: \"naive\")]))";
        let experiment =
            parse(&with(&format!("arms: [(name: \"a\", differs: ({all})), (name: \"b\"), {bare}]"))).unwrap();
        let differs = &experiment.arms[0].differs;
        assert_eq!((differs.chunk, differs.persistent), (Some(32), Some(true)));
        assert_eq!(differs.hand_over, Some(HandOver::Announced));
        assert!(differs.without.contains(&Fusion::NormShift));
        assert_eq!(differs.kernels[0].config["WG"], "64");
        let drive = differs.drive.unwrap();
        assert_eq!(
            (drive.chooser, drive.weights, drive.sequences),
            (Chooser::Host, WeightsAtStart::Lazy, Sequences::Together)
        );
        assert_eq!(experiment.arms[1].differs, Difference::default());
        assert!(experiment.arms[2].differs.kernels[0].config.is_empty());
        assert_eq!(experiment.setting(true).seconds, SECONDS);
    }

    #[test]
    fn an_impossible_declaration_is_refused_with_the_reason() {
        let why = |more: &str| parse(&with(more)).unwrap_err().to_string();
        assert!(why("arms: []").contains("no arms"));
        assert!(why("arms: [(name: \"a\"), (name: \"a\")]").contains("'a'"));
        assert!(why("arms: [(name: \"baseline\")]").contains("'baseline'"));
        let tuned = "tuning: tuned_per_arm(seconds: 9)";
        assert!(
            why(&format!("arms: [(name: \"a\", differs: (persistent: true))], {tuned}")).contains("'a' has persistent")
        );
        assert!(
            why(&format!("arms: [(name: \"a\", differs: (hand_over: Announced))], {tuned}"))
                .contains("'a' has hand_over")
        );
        let tuned = parse(&with(&format!("arms: [(name: \"a\")], {tuned}"))).unwrap().tuning;
        assert_eq!(tuned, Tuning::TunedPerArm { seconds: 9 });
        let claim = "claims: [(arm: \"a\", tokens: 7, predicted: 1.0, holds: (0.0, 2.0))], arms: [(name: \"a\")]";
        assert!(why(claim).contains("'a' in prefill of 7"));
        assert!(why("arms: [(name: \"a\", differs: (colour: 1))]").contains("colour"));
        let empty = with("arms: [(name: \"a\")]").replace("[(tokens: 1)]", "[]");
        assert!(parse(&empty).unwrap_err().to_string().contains("no parts"));
    }
}
