//! The objective of a plan: scenarios with weights.

use crate::scenario::Scenario;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Sequences of batches: of a few users, of a server, of a job. They are in different buckets of rows.
const SEQUENCES: [u32; 3] = [8, 32, 128];

/// The same of a software adapter.
const SEQUENCES_ON_CPU: [u32; 1] = [4];

/// What the first token of a fresh process counts in a chat: it comes once.
const FIRST_TOKEN: f64 = 0.05;

/// Scenarios with weights: what counts is the weighted mean of the logarithms of their gains.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// What it is called.
    pub name: String,
    /// The parts.
    pub parts: Vec<Part>,
}

/// A scenario and its weight.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Tokens that each sequence reads: 1 is decoding.
    pub tokens: u32,
    /// Sequences at once.
    #[serde(default = "one")]
    pub sequences: u32,
    /// Whether it is the first token of a process that has just begun, after a prompt of so many.
    #[serde(default)]
    pub from_start: bool,
    /// How much it counts beside the others.
    #[serde(default = "whole")]
    pub weight: f64,
}

impl Part {
    fn of(Scenario { tokens, sequences, from_start }: Scenario, weight: f64) -> Self {
        Part { tokens, sequences, from_start, weight }
    }

    fn scenario(&self) -> Scenario {
        let Part { tokens, sequences, from_start, .. } = *self;
        Scenario { tokens, sequences, from_start }
    }
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

/// Why there is no such objective.
#[derive(Debug, thiserror::Error)]
pub enum ObjectiveError {
    /// A file that cannot be read.
    #[error("workload {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is no objective.
    #[error("workload {}: {source}", path.display())]
    Ron {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: Box<ron::error::SpannedError>,
    },
    /// Neither a word nor a file.
    #[error("there is no workload '{0}': chat, embed, batch, or a file (.ron)")]
    Unknown(String),
    /// No parts.
    #[error("workload {0}: it has no parts that a running process does")]
    Empty(String),
    /// A part that nobody can run.
    #[error("workload {name}: {what} {got}: it must be between {least} and {most}")]
    Part {
        /// The objective.
        name: String,
        /// Of what.
        what: &'static str,
        /// What it says.
        got: String,
        /// The least that makes sense.
        least: u32,
        /// The most.
        most: u32,
    },
}

impl Objective {
    /// One sequence: decoding counts half, prompts of a question, a message, a page and a document that fills no whole
    /// number of chunks the other half, the first token of a fresh process a little. A software adapter reads shorter
    /// ones, and what it takes to begin is not its own.
    pub fn chat(is_cpu: bool) -> Self {
        let prompts: &[u32] = if is_cpu { &[16, 64] } else { &[32, 128, 512, 2500] };
        let weight = 0.5 / prompts.len() as f64;
        let mut parts = vec![Part::of(Scenario::DECODE, 0.5)];
        parts.extend(prompts.iter().map(|tokens| Part::of(Scenario::prefill(*tokens), weight)));
        let first_token = Scenario { from_start: true, ..Scenario::prefill(32) };
        parts.extend((!is_cpu).then(|| Part::of(first_token, FIRST_TOKEN)));
        Objective { name: "chat".to_owned(), parts }
    }

    /// Texts are read, nothing is written.
    fn embed(is_cpu: bool) -> Self {
        let texts: &[u32] = if is_cpu { &[16, 64] } else { &[32, 128, 512, 2048] };
        let part = |tokens: &u32| Part::of(Scenario::prefill(*tokens), 1.0);
        Objective { name: "embed".to_owned(), parts: texts.iter().map(part).collect() }
    }

    /// Several to many sequences at once; a prompt now and then.
    fn batch(is_cpu: bool) -> Self {
        let sequences = if is_cpu { &SEQUENCES_ON_CPU[..] } else { &SEQUENCES[..] };
        let weight = 0.7 / sequences.len() as f64;
        let mut parts: Vec<Part> = sequences.iter().map(|n| Part::of(Scenario::batch(*n), weight)).collect();
        parts.push(Part::of(Scenario::prefill(if is_cpu { 64 } else { 512 }), 0.3));
        Objective { name: "batch".to_owned(), parts }
    }

    /// The objective of a word (`chat`, `embed`, `batch`), or of a file.
    ///
    /// # Errors
    /// There is no such word, or the file is no objective.
    pub fn named(name: &str, is_cpu: bool) -> Result<Self, ObjectiveError> {
        match name {
            "chat" => Ok(Objective::chat(is_cpu)),
            "embed" => Ok(Objective::embed(is_cpu)),
            "batch" => Ok(Objective::batch(is_cpu)),
            file if file.ends_with(".ron") => Objective::load(Path::new(file)),
            other => Err(ObjectiveError::Unknown(other.to_owned())),
        }
    }

    fn load(path: &Path) -> Result<Self, ObjectiveError> {
        let text = wgoose_files::read_to_string(path)
            .map_err(|source| ObjectiveError::Io { path: path.to_owned(), source })?;
        let objective = Objective::from_str(&text)
            .map_err(|source| ObjectiveError::Ron { path: path.to_owned(), source: Box::new(source) })?;
        objective.check()?;
        Ok(objective)
    }

    /// That it can be run.
    ///
    /// # Errors
    /// The first part that cannot be.
    pub fn check(&self) -> Result<(), ObjectiveError> {
        if self.scenarios().is_empty() {
            return Err(ObjectiveError::Empty(self.name.clone()));
        }
        for part in &self.parts {
            let wrong = |what, got: String, least, most| {
                Err(ObjectiveError::Part { name: self.name.clone(), what, got, least, most })
            };
            if !(1..=65536).contains(&part.tokens) {
                return wrong("tokens", part.tokens.to_string(), 1, 65536);
            }
            if !(1..=1024).contains(&part.sequences) {
                return wrong("sequences", part.sequences.to_string(), 1, 1024);
            }
            if part.from_start && part.sequences > 1 {
                return wrong("sequences of a first token", part.sequences.to_string(), 1, 1);
            }
            if !(part.weight > 0.0 && part.weight <= 1e6) {
                return wrong("weight", part.weight.to_string(), 0, 1_000_000);
            }
        }
        Ok(())
    }

    /// Also so many sequences together.
    pub fn and_together(mut self, sequences: u32) -> Self {
        if !self.scenarios().contains(&Scenario::batch(sequences)) {
            let weight = self.parts.iter().map(|part| part.weight).sum::<f64>() / self.parts.len().max(1) as f64;
            self.parts.push(Part::of(Scenario::batch(sequences), weight));
        }
        self
    }

    /// What a running process does.
    pub fn scenarios(&self) -> Vec<Scenario> {
        self.parts.iter().map(Part::scenario).filter(|scenario| !scenario.from_start).collect()
    }

    /// What fresh processes are started for.
    pub fn starts(&self) -> Vec<Scenario> {
        self.parts.iter().map(Part::scenario).filter(|scenario| scenario.from_start).collect()
    }

    /// All scenarios with their share of the whole.
    pub fn shares(&self) -> impl Iterator<Item = (Scenario, f64)> + '_ {
        let whole: f64 = self.parts.iter().map(|part| part.weight).sum();
        self.parts.iter().map(move |part| (part.scenario(), part.weight / whole))
    }

    /// The prompts of one sequence, the shortest first.
    pub fn prompts(&self) -> Vec<Scenario> {
        let mut prompts: Vec<Scenario> = self.scenarios().into_iter().filter(|s| s.tokens > 1).collect();
        prompts.sort();
        prompts
    }

    /// The batches in which sequences decode together, the smallest first.
    pub fn batches(&self) -> Vec<Scenario> {
        let mut batches: Vec<Scenario> =
            self.scenarios().into_iter().filter(|s| s.tokens == 1 && s.sequences > 1).collect();
        batches.sort();
        batches
    }

    /// Whether one sequence decodes.
    pub fn decodes(&self) -> bool {
        self.scenarios().contains(&Scenario::DECODE)
    }
}

impl FromStr for Objective {
    type Err = ron::error::SpannedError;

    /// `(name: "..", parts: [(tokens: 1, sequences: 1, weight: 0.5), ...])`
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        ron::from_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_1_and_impossible_objectives_are_refused() {
        for name in ["chat", "embed", "batch"] {
            for is_cpu in [false, true] {
                let objective = Objective::named(name, is_cpu).unwrap();
                objective.check().unwrap();
                assert!((objective.shares().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
        let of = |parts: &str| format!("(name: \"x\", parts: [{parts}])").parse::<Objective>().unwrap().check();
        of("(tokens: 7)").unwrap();
        for wrong in [
            "",
            "(tokens: 0)",
            "(tokens: 1, sequences: 0)",
            "(tokens: 7, sequences: 2, from_start: true)",
            "(tokens: 1, weight: -1)",
            "(tokens: 1, weight: inf)",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(matches!(Objective::named("nap", false), Err(ObjectiveError::Unknown(_))));
        let both = Objective::chat(false).and_together(8).and_together(8);
        assert_eq!((both.batches(), both.scenarios().len(), both.starts().len()), (vec![Scenario::batch(8)], 6, 1));
        let batches = Objective::named("batch", false).unwrap().batches();
        assert_eq!(batches, [8, 32, 128].map(Scenario::batch));
    }
}
